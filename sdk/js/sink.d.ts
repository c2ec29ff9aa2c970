/** Capability `sink`: writes to what the admin named and opened for this module. */
export function names(): string[];
/** Writes all of this, at once. What the host refuses is thrown: the number of a status. */
export function write(sink: string, data: string | Uint8Array): void;
