// Denies requests to spawn more than 64 procs at once. Other policies decide about smaller ones.
#include <peal.h>

enum { MAX_PROCS = 64 };

static peal_outcome decide(const peal_request *request) {
  uint64_t procs = 0;
  for (size_t at = 0; at < request->applications.len; at++) procs += request->applications.ptr[at].procs;
  if (procs <= MAX_PROCS) return peal_pass();
  return peal_deny(PMIX_ERR_JOB_INSUFFICIENT_RESOURCES,
                   peal_format("%llu procs requested; the limit is %d", (unsigned long long)procs, MAX_PROCS));
}

PEAL_SPAWN_POLICY(decide)
