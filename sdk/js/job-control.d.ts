import type { Info, Plain, Proc } from "./peal.js";

/**
 * Capability `job-control`: requests job control after this call has returned, for these procs or, without any, for the job that owns
 * this module. Returns the number of the recorded request. Throws the status number of a refusal.
 */
export function request(targets: Proc[], directives: Info[] | Record<string, Plain>): number;
