/**
 * Capability `random`: random numbers, as good as those of the host's system. `Math.random` gives the same row in every instance.
 */
export function bytes(length: number): Uint8Array;
/** A whole number below 2^53; each is as likely as any other. */
export function number(): number;
