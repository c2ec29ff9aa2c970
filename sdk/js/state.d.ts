/** Capability `state`: a key-value store of this module that survives restarts. Throws the status number of a refusal. */
export function get(key: string): Uint8Array | undefined;
export function set(key: string, bytes: Uint8Array): void;
export function remove(key: string): void;
export function keys(prefix?: string): string[];
