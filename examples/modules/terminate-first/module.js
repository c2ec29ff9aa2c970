// Denies kill requests, so that programs get SIGTERM and run.grace_ms to write their state.
import * as peal from "../../../sdk/js/peal.js";

export const jobControlPolicy = peal.jobControlPolicy((request) =>
  request.get(peal.key.PMIX_JOB_CTRL_KILL) === undefined
    ? peal.PolicyOutcome.pass()
    : peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, "use terminate: it kills what is left after the grace"),
);
