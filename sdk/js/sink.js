// Capability `sink`: writes to the sinks that the admin opened for this module.
import * as host from "peal:pmix/sink@0.1.0";
import { ask } from "./ask.js";
import { utf8 } from "./utf8.js";

export const names = () => host.names();
export const write = (sink, data) => ask(host.write, sink, typeof data === "string" ? utf8(data) : data);
export const sendMail = (sink, { recipients, subject = "", text = "", sender, server, port }) =>
  ask(host.sendMail, sink, { sender, recipients, subject, text, server, port });
