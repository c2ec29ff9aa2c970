// Keeps events of users within their session, instead of denying those for everybody. Events of root reach everybody.
import * as peal from "../../../sdk/js/peal.js";

export const eventPolicy = peal.eventPolicy((request: peal.Request) => {
  const outcome = peal.PolicyOutcome.pass();
  const isOfRoot = request.identity?.uid === 0;
  return request.range === "global" && !isOfRoot ? outcome.narrowRange("session") : outcome;
});
