/** Capability `clock`: returns milliseconds since the epoch; the same value throughout one call. */
export function now(): number;
