// Capability `registration`: changes the registrations of this module.
import * as host from "peal:pmix/registration@0.1.0";
import { ask } from "./ask.js";
import { lowerRegistration } from "./peal.js";

export const register = (registration) => ask(host.register, lowerRegistration(registration));
export const deregister = (number) => ask(host.deregister, number);
