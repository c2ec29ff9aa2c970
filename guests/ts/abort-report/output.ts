// The last lines of the output of a proc, from a file of a granted directory.
import type { Proc } from "../../../sdk/js/peal.js";
import * as files from "../../../sdk/js/files.js";

/** Name of the granted directory. */
const DIRECTORY = "output";
/** Largest part of the file that is shown, in bytes. */
const MAX_BYTES = 16384;

/** Returns the path of a proc's file. */
export const pathOf = (pattern: string, proc: Proc): string =>
  // A function, since `$` in a replacement has a meaning.
  pattern.replaceAll("{nspace}", () => proc.nspace).replaceAll("{rank}", () => String(proc.rank));

/** Decodes UTF-8. Without a decoder in the engine, bytes that are not UTF-8 become question marks. */
function decode(bytes: Uint8Array): string {
  let ascii = "";
  let percent = "";
  for (const byte of bytes) {
    const isPlain = byte < 0x80;
    ascii += isPlain ? String.fromCharCode(byte) : "?";
    percent += "%" + byte.toString(16).padStart(2, "0");
  }
  try {
    return decodeURIComponent(percent);
  } catch {
    return ascii;
  }
}

/** Returns the last lines of a file; undefined if it cannot be read. */
export function lastLines(path: string, lines: number): string | undefined {
  let bytes: Uint8Array;
  try {
    bytes = files.read(DIRECTORY, path);
  } catch {
    // There is no output, or no grant for it: the report has the rest.
    return undefined;
  }
  let start = Math.max(0, bytes.length - MAX_BYTES);
  // Not within a character.
  while (start > 0 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  const text = decode(bytes.subarray(start));
  return text.trimEnd().split("\n").slice(-lines).join("\n");
}
