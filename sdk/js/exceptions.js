// Description of exceptions to the host before they end the call.
import { describe } from "peal:pmix/exception@0.1.0";

/** Directory of this library, as the engine names it. */
const LIBRARY = /(^|\/)sdk\/js\//;

const text = (error) => {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : `thrown: ${String(error)}`;
  } catch {
    return "thrown: what has no text";
  }
};

/**
 * Returns file, line and function of each call, innermost first. Calls within this library are left out, unless there are no others. The engine
 * writes "    at name (/file:line:column)".
 */
const places = (error) => {
  const frames = String(error?.stack ?? "").matchAll(/^\s*at (?:(.*) \()?\/?([^()]+):(\d+):\d+\)?$/gm);
  const all = Array.from(frames, ([, name, file, line]) => ({ name, file, line }));
  const own = all.filter(({ file }) => !LIBRARY.test(file));
  return (own.length > 0 ? own : all).map(({ name, file, line }) => `${file}:${line}${name ? ` in ${name}` : ""}`);
};

/** Wraps a function of at most one argument: its exceptions are described to the host first. */
export const described =
  (body) =>
  (given) => {
    try {
      return body(given);
    } catch (error) {
      describe(text(error), places(error));
      throw error;
    }
  };

/** Returns the message that keeps a module from starting: that of the Error of `init`; for other exceptions with their place. */
export const refusal = (error) => {
  if (!(error instanceof Error)) return error;
  return error.constructor === Error ? error.message : [text(error), ...places(error).slice(0, 1)].join(" at ");
};
