/**
 * Capability `files`: files in directories that the admin named for this module.
 *
 * A path is relative to its directory and leads nowhere else. Whatever is done takes effect at once, also if the call then fails.
 * What the host refuses is thrown, the number of a status: PMIX_ERR_NOT_FOUND for what is not there, PMIX_ERR_NO_PERMISSIONS for a
 * path that leads out of its directory and for what may not be read or changed, PMIX_ERR_BAD_PARAM for a path that is none or names
 * no regular file, and PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota.
 */
export function directories(): string[];
export function read(directory: string, path: string): Uint8Array;
/** Puts this in the place of what a file has, or makes it; no directories are made. */
export function write(directory: string, path: string, data: Uint8Array | string): void;
/** Puts this behind what a file has, or makes it. */
export function append(directory: string, path: string, data: Uint8Array | string): void;
export function remove(directory: string, path: string): void;
/** The names of what is in a directory, in their order. */
export function entries(directory: string, path?: string): string[];
