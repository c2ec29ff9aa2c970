import type { Info, Proc } from "./peal.js";

/**
 * Capability `resource-usage`: returns the present usage of these procs, one info for each running proc. Throws the status number of a
 * refusal.
 */
export function query(procs: Proc[]): Info[];
