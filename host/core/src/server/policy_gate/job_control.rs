//! Job-control requests between the policy gate and [`JobControlRequests`]: the part of their way
//! that needs both.
use super::{
    denial::{DenialRecipient, DenialReply},
    held::GatedOperation,
    question,
};
#[cfg(doc)]
use crate::server::control::JobControlRequests;
use crate::{
    job_control::{
        ControlId, JobControlError, JobControlOperation, ParsedJobControl, RequestStage,
        RequestedAction, nodes,
    },
    policy::{self, Verdict},
    server::{
        Action, ServerContext, ServerState, Upcall,
        control::{self, ControlContext, ControlRequester, reply_infos},
    },
};
use peal_model::{Hook, Info, PolicyRequest, PolicySubject, Proc, Provision, Status, code};

/// Maximum number of nodes in one request.
const MAX_NODES: usize = 10_000;

// Provisioning needs the policy gate and the ledger. All other actions are carried out by
// `JobControlRequests` alone.
impl ServerState {
    /// Parses a permitted request and begins it.
    pub(super) fn control(
        &mut self,
        by: ControlRequester,
        targets: &[Proc],
        directives: Vec<Info>,
    ) -> Vec<Action> {
        let to = by.to;
        self.begin_control(by, targets, directives)
            .unwrap_or_else(|error| {
                vec![reply_infos(
                    to,
                    error.status(),
                    vec![policy::reason(&error)],
                )]
            })
    }

    fn begin_control(
        &mut self,
        by: ControlRequester,
        targets: &[Proc],
        directives: Vec<Info>,
    ) -> Result<Vec<Action>, JobControlError> {
        let ParsedJobControl {
            name,
            action: wanted,
            mail,
            directives,
        } = control::read(&self.clients, &by, targets, directives)?;
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let given = ControlContext {
            by,
            name,
            mail,
            directives,
        };
        match wanted {
            RequestedAction::Act { action, targets } => {
                self.controls.act(ctx, given, action, targets)
            }
            RequestedAction::Checkpoint { order, targets } => {
                self.controls
                    .checkpoint(ctx, &mut self.events, given, order, targets)
            }
            RequestedAction::Preempt {
                action,
                grace,
                targets,
            } => self
                .controls
                .preempt(ctx, &mut self.events, given, action, grace, targets),
            RequestedAction::Provision { nodes, image } => self.provision(given, nodes, image),
            RequestedAction::Cancel(which) => {
                self.controls
                    .cancel(ctx, &mut self.events, &given.by, &which)
            }
            RequestedAction::Declare {
                declaration,
                cleanup,
            } => {
                self.controls
                    .declare(&self.clients, &given.by, declaration)?;
                let ControlRequester {
                    to,
                    requester,
                    identity,
                    ..
                } = given.by;
                Ok(vec![match cleanup.zip(requester).zip(identity) {
                    Some(((cleanup, source), identity)) => Action::Upcall(Upcall::Cleanup {
                        to,
                        source,
                        identity,
                        cleanup,
                    }),
                    None => reply_infos(to, code::PMIX_SUCCESS, Vec::new()),
                }])
            }
        }
    }

    /// Accepts a request for nodes and calls the provision policies, which answer later.
    fn provision(
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
        let id = self.controls.record_request(
            &self.clients,
            given,
            operation,
            Vec::new(),
            RequestStage::Accepted,
            Vec::new(),
        )?;
        let mut actions = self.controls.reply_accepted(id, by.to);
        actions.extend(self.ask_for_nodes(&by, Provision { nodes, image }, id, directives));
        Ok(actions)
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
        let question = question(
            &self.clients,
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
        if self.gate.is_policed(Hook::Provision) {
            return None;
        }
        let question = question(
            &self.clients,
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
