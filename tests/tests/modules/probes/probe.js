import * as files from "./sdk/js/files.js";
import * as random from "./sdk/js/random.js";

/** Says who connects, and what became of a file. */
function probe(peer) {
  files.write("spool", "a", "hel");
  files.append("spool", "a", new Uint8Array([108, 111]));
  const words = [peer.pid, peer.release, random.bytes(70000).length, random.number() < 2 ** 53];
  words.push(...files.directories(), ...files.entries("spool"), String.fromCharCode(...files.read("spool", "a")));
  files.remove("spool", "a");
  try {
    files.read("spool", "a");
  } catch (refused) {
    words.push(refused);
  }
  return peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, words.join(" "));
}

