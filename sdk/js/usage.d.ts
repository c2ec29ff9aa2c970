import type { Info, Proc } from "./peal.js";

/**
 * Capability `usage`: what these procs use now, one info for each that is there. What the host refuses is thrown: the number of a
 * status.
 */
export function of(procs: Proc[]): Info[];
