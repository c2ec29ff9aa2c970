// Returns every info that the event carries, says who ran before it, and counts its calls. Integers beyond 2^53 come back rounded:
// see sdk/js/peal.d.ts.
import * as peal from "../../../sdk/js/peal.js";

let calls = 0;

export const eventHandler = peal.eventHandler((event) => {
  const outcome = peal.Outcome.noAction();
  outcome.infos.push(...event.infos);
  const before = event.previousResults.map(({ name }) => name).join(" ");
  return outcome.with("echo.before", before).with("echo.calls", peal.value.uint32(++calls));
});
