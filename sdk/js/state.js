// Capability `state`: a small store of keys and values of this module's own, which survives restarts.
import * as host from "peal:pmix/state@0.1.0";

export const get = (key) => host.get(key) ?? undefined;
export const set = (key, bytes) => host.set(key, bytes);
export const remove = (key) => host["delete"](key);
export const keys = (prefix = "") => host.keys(prefix);
