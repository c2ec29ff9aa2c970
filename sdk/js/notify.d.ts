import type { Info, Plain, Range } from "./peal.js";

/**
 * Capability `notify`: raises an event after this call has returned, and returns the number of the recorded request.
 * Throws the status number of a refusal.
 */
export function notify(code: number, range?: Range, infos?: Info[] | Record<string, Plain>): number;
