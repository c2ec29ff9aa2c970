// Capability `notify`: raises events.
import * as host from "peal:pmix/notify@0.1.0";
import { ask } from "./ask.js";
import { lowerFlatInfos } from "./values.js";

export const notify = (code, range = "namespace", infos = []) => ask(host.notify, code, range, lowerFlatInfos(infos));
