import * as files from "./sdk/js/files.js";
import * as random from "./sdk/js/random.js";

/** Says who connects, and what became of a file. */
function probe(peer: NonNullable<peal.Request["peer"]>): peal.PolicyOutcome {
  files.write("spool", "a", "hel");
  files.append("spool", "a", new Uint8Array([108, 111]));
  const words: unknown[] = [peer.pid, peer.release, random.getBytes(70000).length, random.getNumber() < 2 ** 53];
  words.push(...files.directories(), ...files.list("spool"), String.fromCharCode(...files.read("spool", "a")));
  files.remove("spool", "a");
  try {
    files.read("spool", "a");
  } catch (refused) {
    words.push(refused);
  }
  return peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, words.join(" "));
}

