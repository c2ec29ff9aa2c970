/** Capability `clock`: milliseconds since the epoch; the same throughout one call. */
export function now(): number;
