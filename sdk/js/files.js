// Capability `files`: reads and writes files in directories that the admin granted to this module.
import * as host from "peal:pmix/files@0.1.0";
import { ask } from "./ask.js";
import { utf8 } from "./utf8.js";

const octets = (data) => (typeof data === "string" ? utf8(data) : data);

export const directories = () => host.directories();
export const read = (directory, path) => ask(host.read, directory, path);
export const write = (directory, path, data) => ask(host.write, directory, path, octets(data));
export const append = (directory, path, data) => ask(host.append, directory, path, octets(data));
export const remove = (directory, path) => ask(host.remove, directory, path);
export const list = (directory, path = ".") => ask(host.list, directory, path);
