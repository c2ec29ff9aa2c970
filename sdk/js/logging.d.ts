/** Capability `logging`: writes to the trace of the host. */
export function error(message: unknown): void;
export function warn(message: unknown): void;
export function info(message: unknown): void;
export function debug(message: unknown): void;
export function trace(message: unknown): void;
