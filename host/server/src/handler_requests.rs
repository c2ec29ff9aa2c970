//! What hosted handlers want once their calls have returned: events, job control, log requests. Each goes where that of a client
//! goes; nobody waits for what becomes of it, which is traced.
use crate::{actor::Actor, handle::Raised};
use peal_core::{owner::Owner, server::Action};
use peal_model::Reply;
use peal_sandbox::{DeferredControl, DeferredLog};

/// What a hosted handler wants.
#[derive(Debug)]
pub enum HandlerRequest {
    /// To raise an event.
    Event(Raised),
    /// To have procs controlled.
    Control {
        /// Whose handler it is ...
        owner: Owner,
        /// ... and what it is called.
        module: String,
        /// What is to be done to whom.
        asked: DeferredControl,
    },
    /// To have something logged.
    Report {
        /// Whose handler it is.
        owner: Owner,
        /// What.
        report: DeferredLog,
    },
}

impl Actor {
    pub(crate) fn wanted(&mut self, wanted: HandlerRequest) -> Vec<Action> {
        match wanted {
            HandlerRequest::Event(raised) => self.raised(raised),
            HandlerRequest::Control {
                owner,
                module,
                asked:
                    DeferredControl {
                        request,
                        targets,
                        directives,
                    },
            } => {
                let what: Vec<&str> = directives.iter().map(|info| info.key.as_str()).collect();
                tracing::info!(%owner, module, request, ?targets, ?what, "a module asks for job control");
                self.state
                    .control_for(&owner, request, targets, directives, self.now())
            }
            HandlerRequest::Report {
                owner,
                report:
                    DeferredLog {
                        request,
                        data,
                        directives,
                    },
            } => self.state.log_for(&owner, request, data, directives),
        }
    }

    fn raised(&mut self, raised: Raised) -> Vec<Action> {
        let Raised {
            event,
            raiser,
            allowance,
            request,
        } = raised;
        let code = event.code;
        self.state.raise(event, raiser, allowance).unwrap_or_else(|status| {
            self.metrics.counters().handler_events_refused.count();
            tracing::warn!(request, %code, %status, "an event that a handler raised is refused");
            Vec::new()
        })
    }

    /// What became of a module's request of this number.
    pub(crate) fn answered(&self, request: u32, reply: &Reply) {
        let status = reply.status();
        if status.is_success() {
            tracing::debug!(request, %status, "what a module asked for is done");
            return;
        }
        match reply {
            Reply::Infos { infos, .. } => {
                tracing::warn!(request, %status, ?infos, "what a module asked for is not done")
            }
            _ => tracing::warn!(request, %status, "what a module asked for is not done"),
        }
    }
}
