// Returns every info of the event, pushes the names of earlier handlers, and counts its calls.
// Integers above 2^53 are rounded: see sdk/js/peal.d.ts.
import * as peal from "../../../sdk/js/peal.js";

let calls = 0;

export const eventHandler = peal.eventHandler((event: peal.Event): peal.Outcome => {
  const outcome = peal.Outcome.noAction();
  outcome.infos.push(...event.infos);
  const before = event.previousResults.map(({ name }) => name).join(" ");
  return outcome.with("echo.before", before).with("echo.calls", peal.value.uint32(++calls));
});
