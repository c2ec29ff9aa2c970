// Capability `job-control`: requests job control with the rights of the owner of this module.
import * as host from "peal:pmix/job-control@0.1.0";
import { ask } from "./ask.js";
import { lowerFlatInfos } from "./values.js";

export const request = (targets, directives) => ask(host.request, targets, lowerFlatInfos(directives));
