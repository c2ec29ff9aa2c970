//! Keeps what happens in a job within the job. An event that is meant for more goes to the source's namespace alone, and says so
//! (`peal.discreet.asked`, the range that was asked for). Nobody may listen to all codes.
use peal_sdk::{Info, Matter, PolicyOutcome, Range, Request, Value, event_policy, status};

/// The key under which an event says which range it was raised with.
const ASKED: &str = "peal.discreet.asked";

fn decide(request: &Request) -> PolicyOutcome {
    match request.matter() {
        Matter::Event {
            range: range @ (Range::Session | Range::Global),
            ..
        } => {
            let mut infos = request.infos();
            infos.push(Info::new(ASKED, Value::Range(range)));
            PolicyOutcome::pass().amend(infos).narrow(Range::Namespace)
        }
        Matter::Registration if request.codes().is_empty() => {
            PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS)
                .because("say which codes you want to hear")
        }
        _ => PolicyOutcome::pass(),
    }
}

event_policy!(decide);
