// Capability `resource-usage`: queries the resources that procs use.
import * as host from "peal:pmix/resource-usage@0.1.0";
import { ask } from "./ask.js";
import { liftInfos } from "./values.js";

export const query = (procs) => liftInfos(ask(host.query, procs));
