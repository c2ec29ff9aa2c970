/**
 * Capability `random`: reads random data from the random source of the host system. `Math.random` gives the same sequence in every
 * instance.
 */
export function getBytes(length: number): Uint8Array;
/** Returns a uniformly distributed whole number below 2^53. */
export function getNumber(): number;
