// Capability `report`: logs, as whoever this module belongs to.
import * as host from "peal:pmix/report@0.1.0";
import { ask } from "./ask.js";
import { lowerContent } from "./values.js";

export const log = (data, directives = []) => ask(host.log, lowerContent(data), lowerContent(directives));
