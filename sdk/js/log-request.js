// Capability `log-request`: submits log requests with the rights of the owner of this module.
import * as host from "peal:pmix/log-request@0.1.0";
import { ask } from "./ask.js";
import { lowerFlatInfos } from "./values.js";

export const submit = (data, directives = []) => ask(host.submit, lowerFlatInfos(data), lowerFlatInfos(directives));
