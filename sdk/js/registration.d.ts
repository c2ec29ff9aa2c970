/** Capability `registration`, effective once the call has returned. What the host refuses is thrown: the number of a status. */
import type { Registration } from "./peal.js";

export function register(wish: Registration): void;
export function deregister(registration: number): void;
