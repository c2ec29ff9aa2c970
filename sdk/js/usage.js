// Capability `usage`: knows what procs use of the machine.
import * as host from "peal:pmix/usage@0.1.0";
import { ask } from "./ask.js";
import { liftContent } from "./values.js";

export const of = (procs) => liftContent(ask(host.of, procs));
