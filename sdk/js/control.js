// Capability `control`: controls procs, as whoever this module belongs to.
import * as host from "peal:pmix/control@0.1.0";
import { ask } from "./ask.js";
import { lowerContent } from "./values.js";

export const request = (targets, directives) => ask(host.request, targets, lowerContent(directives));
