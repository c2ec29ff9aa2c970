import type { Info, Plain, Range } from "./peal.js";

/**
 * Capability `notify`: raises an event after this call has returned, and returns the number under which the request is recorded.
 * What the host refuses is thrown: the number of a status.
 */
export function notify(code: number, range?: Range, infos?: Info[] | Record<string, Plain>): number;
