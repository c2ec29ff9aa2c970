import type { Info, Plain } from "./peal.js";

/**
 * Capability `log-request`: submits a log request after this call has returned. The directive PMIX_LOG_SOURCE names the proc or job that
 * the data are about. Throws the status number of a refusal.
 */
export function submit(data: Info[] | Record<string, Plain>, directives?: Info[] | Record<string, Plain>): void;
