import type { Info, Plain, Proc } from "./peal.js";

/**
 * Capability `control`: asks for job control of these procs after this call has returned; of none means the module's own job. Returns
 * the number under which the request is recorded. What the host refuses is thrown: the number of a status.
 */
export function request(targets: Proc[], directives: Info[] | Record<string, Plain>): number;
