// Capability `registration`: changes what this module is registered for.
import * as host from "peal:pmix/registration@0.1.0";
import { ask } from "./ask.js";
import { lowerWish } from "./peal.js";

export const register = (wish) => ask(host.register, lowerWish(wish));
export const deregister = (number) => ask(host.deregister, number);
