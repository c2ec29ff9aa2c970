// Capability `state`: a small store of keys and values of this module's own, which survives restarts.
import * as host from "peal:pmix/state@0.1.0";
import { ask } from "./ask.js";

export const get = (key) => ask(host.get, key) ?? undefined;
export const set = (key, bytes) => ask(host.set, key, bytes);
export const remove = (key) => ask(host["delete"], key);
export const keys = (prefix = "") => ask(host.keys, prefix);
