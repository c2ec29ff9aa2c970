//! Termination requests of the Standard: handlers of the event of a proc's abnormal end decide how
//! its job continues.
use peal_model::{ChainResult, Info, Value, key};

/// A termination request: an info among a handler's results whose value is true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminationRequest {
    /// `PMIX_EVENT_WANT_TERMINATION`: the job ends.
    Termination,
    /// `PMIX_EVENT_NO_TERMINATION`: the failure has been dealt with, and the job continues.
    NoTermination,
}

impl TerminationRequest {
    /// Returns the name of the request.
    pub fn name(self) -> &'static str {
        match self {
            TerminationRequest::Termination => "termination",
            TerminationRequest::NoTermination => "no termination",
        }
    }

    fn of(info: &Info) -> Option<TerminationRequest> {
        let request = if info.key == key::PMIX_EVENT_WANT_TERMINATION {
            TerminationRequest::Termination
        } else if info.key == key::PMIX_EVENT_NO_TERMINATION {
            TerminationRequest::NoTermination
        } else {
            return None;
        };
        (info.value == Value::Bool(true)).then_some(request)
    }
}

/// Returns the effective request among the results of one chain, with its step: the last one. Later
/// handlers see the requests of earlier ones, and a handler that must decide can be placed last, or
/// end the chain.
pub fn last_request(steps: &[ChainResult]) -> Option<(&ChainResult, TerminationRequest)> {
    steps.iter().rev().find_map(|step| {
        let request = step.infos.iter().rev().find_map(TerminationRequest::of)?;
        Some((step, request))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{KeyName, code};

    const WANT: KeyName = key::PMIX_EVENT_WANT_TERMINATION;
    const NO: KeyName = key::PMIX_EVENT_NO_TERMINATION;

    fn step(name: &str, infos: &[(KeyName, Value)]) -> ChainResult {
        let infos = infos
            .iter()
            .map(|(key, value)| Info::new(*key, value.clone()))
            .collect();
        ChainResult {
            name: name.into(),
            status: code::PMIX_EVENT_NO_ACTION_TAKEN,
            infos,
        }
    }

    #[test]
    fn last_handler_with_a_request_decides() {
        let yes = || Value::Bool(true);
        let wants = step("wants", &[(WANT, yes())]);
        let spares = step("spares", &[(NO, yes())]);
        let says_nothing = step(
            "quiet",
            &[
                (WANT, Value::Bool(false)),
                (NO, Value::Uint32(1)),
                (key::PMIX_RANGE, yes()),
            ],
        );
        let changes_its_mind = step("moody", &[(WANT, yes()), (NO, yes())]);
        for (steps, expected) in [
            (vec![], None),
            (vec![says_nothing.clone()], None),
            (
                vec![wants.clone(), says_nothing.clone()],
                Some(("wants", TerminationRequest::Termination)),
            ),
            (
                vec![wants.clone(), spares.clone(), says_nothing],
                Some(("spares", TerminationRequest::NoTermination)),
            ),
            (
                vec![spares, wants],
                Some(("wants", TerminationRequest::Termination)),
            ),
            (
                vec![changes_its_mind],
                Some(("moody", TerminationRequest::NoTermination)),
            ),
        ] {
            let found = last_request(&steps);
            assert_eq!(
                found.map(|(step, request)| (&*step.name, request)),
                expected,
                "{steps:?}"
            );
        }
    }
}
