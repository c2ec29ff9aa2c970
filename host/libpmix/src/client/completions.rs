//! Completions of the program's event handlers. Most handlers end before their function returns, so
//! that a channel is only made for the others.
use super::tokens::Tokens;
use peal_client::HandlerOutcome;
use std::ffi::c_void;
use tokio::sync::oneshot;

/// Called handlers, by the token that their completion brings.
#[derive(Debug)]
pub(crate) struct HandlerCompletions(Tokens<CalledHandler>);

/// Handler that has been called.
#[derive(Debug)]
enum CalledHandler {
    /// Its function has not returned.
    Running,
    /// It has ended before its function returned.
    Ended(HandlerOutcome),
    /// Its function has returned, and its end is awaited.
    Awaited(oneshot::Sender<HandlerOutcome>),
}

/// Handler whose function has returned.
pub(crate) enum ReturnedHandler {
    /// The handler has ended.
    Ended(HandlerOutcome),
    /// The handler ends later.
    Pending(oneshot::Receiver<HandlerOutcome>),
}

impl HandlerCompletions {
    /// Creates an empty table.
    pub(crate) const fn new() -> HandlerCompletions {
        HandlerCompletions(Tokens::new())
    }

    /// Notes that a handler is called. Returns the token for its completion.
    pub(crate) fn call(&self) -> *mut c_void {
        self.0.keep(CalledHandler::Running)
    }

    /// Notes that the function of a handler has returned.
    pub(crate) fn returned(&self, token: *mut c_void) -> ReturnedHandler {
        let returned = self.0.change(token, |handler| match handler.take() {
            Some(CalledHandler::Ended(outcome)) => ReturnedHandler::Ended(outcome),
            _ => {
                let (complete, completed) = oneshot::channel();
                *handler = Some(CalledHandler::Awaited(complete));
                ReturnedHandler::Pending(completed)
            }
        });
        // A handler without a place cannot complete.
        returned.unwrap_or_else(|| ReturnedHandler::Pending(oneshot::channel().1))
    }

    /// Notes that a handler has ended. Of several completions the first counts.
    pub(crate) fn complete(&self, token: *mut c_void, outcome: HandlerOutcome) {
        let first = self.0.change(token, |handler| match handler.take() {
            Some(CalledHandler::Awaited(complete)) => {
                // The receiver is gone after the finalization.
                let _ = complete.send(outcome);
                true
            }
            Some(CalledHandler::Ended(first)) => {
                *handler = Some(CalledHandler::Ended(first));
                false
            }
            _ => {
                *handler = Some(CalledHandler::Ended(outcome));
                true
            }
        });
        if first != Some(true) {
            tracing::warn!("handler completed twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Status;

    #[test]
    fn first_completion_counts_whenever_it_comes() {
        let completions = HandlerCompletions::new();
        let outcome = |status| HandlerOutcome::status(Status(status));
        let early = completions.call();
        completions.complete(early, outcome(1));
        completions.complete(early, outcome(2));
        let ReturnedHandler::Ended(ended) = completions.returned(early) else {
            panic!("the handler has ended")
        };
        assert_eq!(ended, outcome(1));
        let late = completions.call();
        let ReturnedHandler::Pending(mut completed) = completions.returned(late) else {
            panic!("the handler has not ended")
        };
        assert!(completed.try_recv().is_err());
        completions.complete(early, outcome(3));
        completions.complete(late, outcome(4));
        completions.complete(late, outcome(5));
        assert_eq!(completed.try_recv(), Ok(outcome(4)));
    }
}
