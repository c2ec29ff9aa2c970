//! Keeps events in the namespace of their source. `peal-module.toml` says how.
use peal_sdk::{Info, PolicyOutcome, PolicySubject, Range, Request, Value, event_policy, status};

/// Key of the range that was requested.
const REQUESTED_RANGE: &str = "peal.namespace-only.requested";

fn decide(request: &Request) -> PolicyOutcome {
    match request.subject() {
        PolicySubject::Event {
            range: range @ (Range::Session | Range::Global),
            ..
        } => {
            let mut infos = request.infos();
            infos.push(Info::new(REQUESTED_RANGE, Value::Range(range)));
            PolicyOutcome::pass()
                .amend(infos)
                .narrow_range(Range::Namespace)
        }
        PolicySubject::Registration if request.codes().is_empty() => {
            PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS)
                .with_reason("a registration for all codes is denied; name the codes")
        }
        _ => PolicyOutcome::pass(),
    }
}

event_policy!(decide);
