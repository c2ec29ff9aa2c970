//! Provisioning of nodes, by policies of the `provision` hook.
use super::{ControlContext, ControlRequester, reply_infos};
use crate::{
    job_control::{
        ControlId, JobControlEnd, JobControlError, JobControlOperation, RequestStage, nodes,
    },
    policy::{self, Verdict},
    server::{
        Action, ServerState,
        denial::{DenialRecipient, DenialReply},
        policy_gate::GatedOperation,
    },
};
use peal_model::{Hook, Info, PolicyRequest, PolicySubject, Provision, Status};

/// Maximum number of nodes in one request.
const MAX_NODES: usize = 10_000;

impl ServerState {
    /// Accepts a request for nodes and calls the provision policies, which answer later.
    pub(super) fn provision(
        &mut self,
        given: ControlContext,
        description: String,
        image: Option<String>,
    ) -> Result<Vec<Action>, JobControlError> {
        let nodes = nodes::expand(&description, MAX_NODES)?;
        let (by, directives) = (given.by.clone(), given.directives.clone());
        if let Some((status, reasons)) = self.no_provisioner(&by) {
            return Ok(vec![reply_infos(by.to, status, reasons)]);
        }
        let operation = JobControlOperation::Provision {
            nodes: description,
            image: image.clone(),
        };
        let id = self.record_request(
            given,
            operation,
            Vec::new(),
            RequestStage::Accepted,
            Vec::new(),
        )?;
        let mut actions = self.reply_accepted(id, by.to);
        actions.extend(self.ask_for_nodes(&by, Provision { nodes, image }, id, directives));
        Ok(actions)
    }

    /// Ends a request whose nodes are provided, with the infos of the policies.
    pub(in crate::server) fn provided(&mut self, id: ControlId, answer: Vec<Info>) -> Vec<Action> {
        self.ledger.change(id, |entry| entry.infos = answer);
        self.end(id, JobControlEnd::Done)
    }

    /// Ends a request whose nodes are not provided, with the reasons.
    pub(in crate::server) fn not_provided(
        &mut self,
        id: ControlId,
        status: Status,
        reasons: &[Info],
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| {
            entry.infos = reasons.to_vec();
            entry.refusal = Some(status);
        });
        self.end(id, JobControlEnd::Denied)
    }

    /// Calls the provision policies.
    fn ask_for_nodes(
        &mut self,
        by: &ControlRequester,
        provision: Provision,
        id: ControlId,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        let hook = Hook::Provision;
        let question = self.question(
            PolicySubject::Provision,
            by.requester.clone(),
            by.identity,
            &[],
        );
        let groups = self.clients.groups_of(by.to.peer);
        let request = PolicyRequest {
            provision: Some(provision),
            groups,
            directives,
            ..question
        };
        // The requester has a reply already; the end of the request is reported by an event.
        let (requester, identity) = (by.requester.clone(), by.identity);
        let asker = DenialRecipient::new(hook, requester, identity, DenialReply::Silent);
        self.hold_for_policies(request, asker, GatedOperation::Provision(id))
    }

    /// Returns the status and reasons if no policy provides nodes and the built-in rule denies.
    fn no_provisioner(&self, by: &ControlRequester) -> Option<(Status, Vec<Info>)> {
        if self.gate.policed.contains(&Hook::Provision) {
            return None;
        }
        let question = self.question(
            PolicySubject::Provision,
            by.requester.clone(),
            by.identity,
            &[],
        );
        match policy::by_default(self.settings.defaults.of(Hook::Provision), &question) {
            Verdict::Denied {
                status, reasons, ..
            } => Some((status, reasons)),
            Verdict::Granted { .. } => None,
        }
    }
}
