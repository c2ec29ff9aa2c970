//! Log requests of clients, before the log policies.
use super::{Action, RequestId, ServerState};
use peal_model::{Info, LogRequest, Proc, key};

impl ServerState {
    /// Submits a client's log request to the log policies. A timestamp of zero is none.
    pub(super) fn log(
        &mut self,
        to: RequestId,
        source: Proc,
        timestamp: u64,
        mut data: Vec<Info>,
        mut directives: Vec<Info>,
    ) -> Vec<Action> {
        // Clients must not claim another source.
        for infos in [&mut data, &mut directives] {
            infos.retain(|info| info.key != key::PMIX_LOG_SOURCE);
        }
        let timestamp = Some(timestamp).filter(|seconds| *seconds > 0);
        let identity = self.clients.identity_of(to.peer);
        self.permit_log(
            to,
            LogRequest {
                source: Some(source),
                identity,
                timestamp,
                data,
                directives,
            },
        )
    }
}
