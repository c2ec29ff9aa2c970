//! Job-control requests between the policy gate and [`JobControlRequests`]: the part of their way
//! that needs both.
use super::{
    denial::{DenialRecipient, DenialReply, deny},
    held::{GatedOperation, GatedRequester},
};
#[cfg(doc)]
use crate::server::control::JobControlRequests;
use crate::{
    defaults::{self, RuleRequest},
    job_control::{
        CHECK, Cleanup, ControlId, ExtendedDirectives, JobControlError, JobControlOperation,
        ParsedJobControl, RequestStage, RequestedAction, nodes,
    },
    policy,
    server::{
        Action, ServerContext, ServerState, Upcall,
        control::{self, ControlContext, ControlRequester, reply_infos},
    },
    targets::ResolvedTargets,
};
use peal_model::{
    ControlExtent, DataArray, Hook, Info, PolicySubject, Proc, ProvisionSubject, Value, code,
};

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
        directives: ExtendedDirectives,
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
        directives: ExtendedDirectives,
    ) -> Result<Vec<Action>, JobControlError> {
        let ExtendedDirectives { extent, directives } = directives;
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
        if extent == ControlExtent::Check {
            return self.check_control(&given, wanted);
        }
        match wanted {
            RequestedAction::Operate { operation, targets } => {
                self.operate(given, operation, targets)
            }
            RequestedAction::Provision { nodes, image } => self.provision(given, nodes, image),
            RequestedAction::Cancel(which) => {
                let mut actions = self
                    .controls
                    .cancel(ctx, &mut self.events, &given.by, &which)?;
                actions.extend(self.withdraw_requests());
                Ok(actions)
            }
            RequestedAction::Declare {
                declaration,
                cleanup,
            } => {
                let cleanup = cleanup
                    .map(|cleanup| cleanup_upcall(&given.by, cleanup))
                    .transpose()?;
                // Before the cleanup is requested, so that an invalid declaration refuses the whole
                // request.
                self.controls
                    .declare(&self.clients, &given.by, declaration)?;
                // Without a cleanup the host environment has nothing to do.
                let done = || reply_infos(given.by.to, code::PMIX_SUCCESS, Vec::new());
                Ok(vec![cleanup.map_or_else(done, Action::Upcall)])
            }
        }
    }

    /// Checks a request without carrying it out. The reply has what the request would reach.
    fn check_control(
        &self,
        given: &ControlContext,
        wanted: RequestedAction,
    ) -> Result<Vec<Action>, JobControlError> {
        let by = &given.by;
        let (status, reached, mut infos) = match wanted {
            RequestedAction::Operate { operation, targets } => {
                let is_planned = !matches!(operation, JobControlOperation::Act(_));
                // Servers plan the checkpoints of their own procs.
                if is_planned && targets.elsewhere.is_empty() {
                    let ctx = ServerContext::new(&self.clients, &self.settings);
                    self.controls.plan(ctx, &operation, &targets.local, by.at)?;
                }
                self.controls.check_record(&self.clients, given)?;
                let procs = DataArray::procs(targets.all());
                (code::PMIX_SUCCESS, procs, Vec::new())
            }
            RequestedAction::Provision { nodes, image } => {
                let nodes = nodes::expand(&nodes, MAX_NODES)?;
                let names = DataArray::strings(nodes.iter().map(|node| node.as_str().into()));
                let subject = provision_subject(given, nodes, image);
                if let Some(denied) = self.no_provisioner(by, &subject) {
                    return Ok(denied);
                }
                self.controls.check_record(&self.clients, given)?;
                (code::PMIX_SUCCESS, names, Vec::new())
            }
            RequestedAction::Cancel(which) => {
                let (status, names, committed) =
                    self.controls.check_cancel(&self.clients, by, &which)?;
                (status, DataArray::strings(names), committed)
            }
            RequestedAction::Declare {
                declaration,
                cleanup,
            } => {
                let cleanup = cleanup.map(|cleanup| cleanup_upcall(by, cleanup));
                cleanup.transpose()?;
                control::declarant(&self.clients, by, &declaration)?;
                (code::PMIX_SUCCESS, DataArray::procs([]), Vec::new())
            }
        };
        infos.push(Info::new(CHECK, Value::DataArray(reached)));
        Ok(vec![reply_infos(by.to, status, infos)])
    }

    /// Begins an operation on procs.
    fn operate(
        &mut self,
        given: ControlContext,
        operation: JobControlOperation,
        targets: ResolvedTargets,
    ) -> Result<Vec<Action>, JobControlError> {
        if !targets.elsewhere.is_empty() {
            return self
                .controls
                .operate_over_nodes(&self.clients, given, operation, targets);
        }
        let ctx = ServerContext::new(&self.clients, &self.settings);
        match operation {
            JobControlOperation::Act(action) => {
                self.controls.act(ctx, given, action, targets.local)
            }
            operation => self.checkpoint_of_node(given, operation, targets.local),
        }
    }

    /// Accepts a request for nodes and calls the provision policies, which answer later.
    fn provision(
        &mut self,
        given: ControlContext,
        description: String,
        image: Option<String>,
    ) -> Result<Vec<Action>, JobControlError> {
        // A malformed description is refused before any policy is called.
        let nodes = nodes::expand(&description, MAX_NODES)?;
        let by = given.by.clone();
        let subject = provision_subject(&given, nodes, image.clone());
        if let Some(denied) = self.no_provisioner(&by, &subject) {
            return Ok(denied);
        }
        let operation = JobControlOperation::Provision {
            nodes: description,
            image,
        };
        let id = self.controls.record_request(
            &self.clients,
            given,
            operation,
            ResolvedTargets::default(),
            RequestStage::Accepted,
            Vec::new(),
        )?;
        let mut actions = self.controls.reply_accepted(id);
        actions.extend(self.request_nodes(id, &by, subject));
        Ok(actions)
    }

    /// Calls the provision policies.
    fn request_nodes(
        &mut self,
        id: ControlId,
        by: &ControlRequester,
        subject: PolicySubject,
    ) -> Vec<Action> {
        let requester = GatedRequester {
            proc: by.requester.clone(),
            identity: by.identity,
            groups: self.clients.groups_of(by.to.peer),
        };
        let request = self.policy_request(subject, requester, &[]);
        // The requester has a reply already; the end of the request is reported by an event.
        let recipient = DenialRecipient::of(&request, DenialReply::Silent);
        self.hold_for_policies(request, recipient, GatedOperation::Provision(id))
    }

    /// Denies a request if no policy provides nodes and the default denies.
    fn no_provisioner(
        &self,
        by: &ControlRequester,
        subject: &PolicySubject,
    ) -> Option<Vec<Action>> {
        if self.gate.is_policed(Hook::Provision) {
            return None;
        }
        let case = RuleRequest {
            requester: by.requester.as_ref(),
            identity: by.identity,
            server: self.clients.server(),
            targets: &[],
            hook: Hook::Provision,
            rule: subject.rule(),
        };
        let default = self.settings.defaults.of(Hook::Provision);
        let denied = defaults::decide(default, &case).err()?;
        let reply = DenialReply::Infos(by.to);
        let recipient =
            DenialRecipient::new(Hook::Provision, by.requester.clone(), by.identity, reply);
        Some(deny(recipient, denied.into()))
    }
}

fn provision_subject(
    given: &ControlContext,
    nodes: Vec<String>,
    image: Option<String>,
) -> PolicySubject {
    PolicySubject::Provision(ProvisionSubject {
        nodes,
        image,
        directives: given.directives.clone(),
    })
}

/// Returns the upcall that registers files for removal. It needs a proc in whose name it is made and
/// a user with whose rights files are removed.
fn cleanup_upcall(by: &ControlRequester, cleanup: Cleanup) -> Result<Upcall, JobControlError> {
    let source = by
        .requester
        .clone()
        .ok_or(JobControlError::NoCleanupRequester)?;
    let identity = by.identity.ok_or(JobControlError::NoCleanupRequester)?;
    Ok(Upcall::Cleanup {
        to: by.to,
        source,
        identity,
        cleanup,
    })
}
