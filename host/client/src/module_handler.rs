//! Components as handlers of a client.
use crate::handler::{ExternalHandler, ExternalResult, Handler, RaisedEvent};
use peal_core::chain::{HandlerOutcome, PendingHandler};
use peal_sandbox::{EventCall, Module};
use std::sync::Arc;

impl Handler {
    /// Creates a handler of a component.
    pub fn component(module: Arc<Module>) -> Handler {
        Handler::External {
            handler: module,
            tag: 0,
        }
    }
}

impl ExternalHandler for Module {
    fn name(&self) -> &str {
        Module::name(self)
    }

    fn handle(&self, call: &PendingHandler<Handler>, tag: u32) -> ExternalResult {
        let result = Module::handle(
            self,
            EventCall {
                number: 0,
                registration: call.member().id.0,
                tag,
                event: call.event_with_object(),
                identity: None,
                steps: call.steps().clone(),
            },
        );
        if !result.controls.is_empty() || !result.reports.is_empty() {
            tracing::warn!(
                module = self.name(),
                "component's job control and log requests ignored: not supported in a client"
            );
        }
        let raised = result.notifications.into_iter().map(|event| RaisedEvent {
            code: event.code,
            range: event.range,
            infos: event.infos,
        });
        ExternalResult {
            outcome: HandlerOutcome {
                status: result.status,
                infos: result.infos,
            },
            raised: raised.collect(),
            changes: result.changes,
        }
    }
}
