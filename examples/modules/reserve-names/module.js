// Keeps group names that begin with "site-" for root. Other policies decide about other names.
import * as peal from "../../../sdk/js/peal.js";

export const groupPolicy = peal.groupPolicy((request) =>
  request.groupName?.startsWith("site-") && request.identity?.uid !== 0
    ? peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, "names that begin with site- are reserved")
    : peal.PolicyOutcome.pass(),
);
