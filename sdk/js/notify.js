// Capability `notify`: raises events.
import * as host from "peal:pmix/notify@0.1.0";
import { lowerContent } from "./values.js";

export const notify = (code, range = "namespace", infos = []) => host.notify(code, range, lowerContent(infos));
