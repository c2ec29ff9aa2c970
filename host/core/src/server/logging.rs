//! Log requests: taken in here, and handed on to whoever writes them.
use super::{Action, RequestId, ServerState};
use peal_model::{Info, LogRequest, Proc, key};

impl ServerState {
    /// A client wants something logged. Zero is no timestamp.
    pub(super) fn log(
        &mut self,
        to: RequestId,
        source: Proc,
        timestamp: u64,
        mut data: Vec<Info>,
        mut directives: Vec<Info>,
    ) -> Vec<Action> {
        // Who the source is nobody may say of themselves.
        for infos in [&mut data, &mut directives] {
            infos.retain(|info| info.key != key::PMIX_LOG_SOURCE);
        }
        let timestamp = Some(timestamp).filter(|seconds| *seconds > 0);
        let identity = self.identity_of(to.peer);
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
