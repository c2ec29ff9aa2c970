// Ends the chain for all abnormal ends of a job but the first, since others usually follow from it: a handler behind this one,
// such as one that sends mail, sees one end of each job.
#include <algorithm>
#include <deque>
#include <peal.hpp>

// Jobs that are remembered; the oldest is forgotten first.
static constexpr std::size_t most_jobs = 1000;
static std::deque<std::string> jobs;

static bool is_abnormal_end(std::int32_t code) {
  return code == PMIX_ERR_PROC_ABORTED_BY_SIG || code == PMIX_ERR_EXIT_NONZERO_TERM || code == PMIX_ERR_PROC_TERM_WO_SYNC;
}

static peal::Outcome handle(const peal::Event &event) {
  if (!is_abnormal_end(event.code())) return peal::Outcome::no_action();
  std::optional<peal::Value> affected = event.get(PMIX_EVENT_AFFECTED_PROC);
  const peal::Proc *proc = affected ? affected->as<peal::Proc>() : nullptr;
  if (proc == nullptr) return peal::Outcome::no_action();
  if (std::find(jobs.begin(), jobs.end(), proc->nspace) != jobs.end()) return peal::Outcome::complete();
  if (jobs.size() == most_jobs) jobs.pop_front();
  jobs.push_back(proc->nspace);
  return peal::Outcome::no_action();
}

PEAL_EVENT_HANDLER(peal::event_handler<handle>)
