import type { Info, Plain } from "./peal.js";

/**
 * Capability `report`: logs after this call has returned. PMIX_LOG_SOURCE among the directives says about whom it is. What the host
 * refuses is thrown: the number of a status.
 */
export function log(data: Info[] | Record<string, Plain>, directives?: Info[] | Record<string, Plain>): void;
