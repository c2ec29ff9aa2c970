// Capability `random`: reads random data from the random source of the host system.
import * as host from "peal:pmix/random@0.1.0";
import { ask } from "./ask.js";

const AT_ONCE = 65536;

export const getBytes = (length) => {
  const all = new Uint8Array(length);
  for (let at = 0; at < length; at += AT_ONCE) all.set(ask(host.getRandomBytes, Math.min(AT_ONCE, length - at)), at);
  return all;
};

// The host's own numbers have 64 bits, of which JavaScript keeps 53.
export const getNumber = () => getBytes(7).reduce((sum, byte, at) => sum * 256 + (at === 0 ? byte % 32 : byte), 0);
