/** Capability `registration`: changes the registrations of this module after the call has returned. Throws the status number of a refusal. */
import type { Registration } from "./peal.js";

export function register(registration: Registration): void;
export function deregister(registration: number): void;
