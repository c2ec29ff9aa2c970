// Capability `logging`: writes to the trace of the host.
import { log } from "peal:pmix/logging@0.1.0";

export const error = (message) => log("error", String(message));
export const warn = (message) => log("warn", String(message));
export const info = (message) => log("info", String(message));
export const debug = (message) => log("debug", String(message));
export const trace = (message) => log("trace", String(message));
