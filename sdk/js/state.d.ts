/** Capability `state`: keys and values that survive restarts. What the host refuses is thrown: the number of a status. */
export function get(key: string): Uint8Array | undefined;
export function set(key: string, bytes: Uint8Array): void;
export function remove(key: string): void;
export function keys(prefix?: string): string[];
