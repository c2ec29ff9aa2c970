/**
 * Capability `files`: reads and writes files in directories that the admin granted to this module.
 *
 * A path is relative to its directory and cannot leave it. Operations take effect immediately, also if the call then fails. All
 * functions throw the status number of a refusal: PMIX_ERR_NOT_FOUND for a file that does not exist, PMIX_ERR_NO_PERMISSIONS for a path
 * that leaves its directory and for missing access rights, PMIX_ERR_BAD_PARAM for a path that is invalid or not that of a regular file,
 * and PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota.
 */
export function directories(): string[];
export function read(directory: string, path: string): Uint8Array;
/** Replaces the content of a file, or creates the file; creates no directories. */
export function write(directory: string, path: string, data: Uint8Array | string): void;
/** Appends to a file, or creates the file. */
export function append(directory: string, path: string, data: Uint8Array | string): void;
export function remove(directory: string, path: string): void;
/** Returns the names of the entries of a directory, sorted. */
export function list(directory: string, path?: string): string[];
