// Capability `state`: a small key-value store of this module that survives restarts.
import * as host from "peal:pmix/state@0.1.0";
import { ask } from "./ask.js";

export const get = (key) => ask(host.get, key) ?? undefined;
export const set = (key, bytes) => ask(host.set, key, bytes);
export const remove = (key) => ask(host["delete"], key);
export const keys = (prefix = "") => ask(host.keys, prefix);
