//! Requests of hosted handlers, executed after their calls have returned: events, job control and
//! log requests. Each is processed like that of a client. Its result is logged, since no caller
//! waits for it.
use crate::{actor::Actor, handle::Raised};
use peal_core::{owner::Owner, server::Action};
use peal_model::Reply;
use peal_sandbox::{DeferredControl, DeferredLog};

/// Request of a hosted handler.
#[derive(Debug)]
pub enum HandlerRequest {
    /// Event that the handler raises.
    Event(Raised),
    /// Job control.
    Control {
        /// Owner of the module.
        owner: Owner,
        /// Name of the module.
        module: String,
        /// Requested control and its targets.
        control: DeferredControl,
    },
    /// Log request.
    Report {
        /// Owner of the module.
        owner: Owner,
        /// Data and directives.
        report: DeferredLog,
    },
}

impl Actor {
    pub(crate) fn process_handler_request(&mut self, request: HandlerRequest) -> Vec<Action> {
        match request {
            HandlerRequest::Event(raised) => self.raised(raised),
            HandlerRequest::Control {
                owner,
                module,
                control:
                    DeferredControl {
                        request,
                        targets,
                        directives,
                    },
            } => {
                let what: Vec<&str> = directives.iter().map(|info| info.key.as_str()).collect();
                tracing::info!(%owner, module, request, ?targets, ?what, "job control requested by module");
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
        self.state
            .raise(event, raiser, allowance)
            .unwrap_or_else(|status| {
                self.metrics.counters().handler_events_refused.count();
                tracing::warn!(request, %code, %status, "event of handler refused");
                Vec::new()
            })
    }

    /// Logs the result of a module's request.
    pub(crate) fn answered(&self, request: u32, reply: &Reply) {
        let status = reply.status();
        if status.is_success() {
            tracing::debug!(request, %status, "request of module succeeded");
            return;
        }
        match reply {
            // A denial has its reasons there.
            Reply::Infos { infos, .. } => {
                tracing::warn!(request, %status, ?infos, "request of module failed")
            }
            _ => tracing::warn!(request, %status, "request of module failed"),
        }
    }
}
