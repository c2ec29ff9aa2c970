//! Job control: processing of permitted requests until they have ended.

mod checkpointing;
mod ending;
mod provisioning;

use super::{Action, RequestId, ServerState, Upcall};
use crate::{
    MonotonicTime,
    job_control::{
        self, ControlId, Declaration, JobAction, JobControl, JobControlEnd, JobControlError,
        JobControlOperation, LedgerEntry, NotDone, ParsedJobControl, PendingWork, RequestStage,
        RequestedAction, Requestor,
    },
    policy,
};
use peal_model::{
    DataArray, Event, Info, Proc, Range, Reply, Status, UserIdentity, Value, code, key,
};
use std::collections::BTreeSet;

/// The requester of a job-control request.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ControlRequester {
    /// The request that awaits a reply.
    pub(super) to: RequestId,
    pub(super) requester: Option<Proc>,
    pub(super) identity: Option<UserIdentity>,
    /// The time of the request.
    pub(super) at: MonotonicTime,
}

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
            wanted,
            mail,
            directives,
        } = self.read(&by, targets, directives)?;
        let given = ControlContext {
            by,
            name,
            mail,
            directives,
        };
        match wanted {
            RequestedAction::Act { action, targets } => self.act(given, action, targets),
            RequestedAction::Checkpoint { order, targets } => {
                self.checkpoint(given, order, targets)
            }
            RequestedAction::Preempt {
                action,
                grace,
                targets,
            } => self.preempt(given, action, grace, targets),
            RequestedAction::Provision { nodes, image } => self.provision(given, nodes, image),
            RequestedAction::Cancel(which) => {
                let cancellation = self
                    .ledger
                    .cancellable(&self.requestor(&given.by), &which)?;
                let status = cancellation.status();
                let mut actions: Vec<Action> = cancellation
                    .free
                    .into_iter()
                    .flat_map(|id| self.end(id, JobControlEnd::Cancelled))
                    .collect();
                actions.push(reply_infos(given.by.to, status, cancellation.committed));
                Ok(actions)
            }
            RequestedAction::Declare {
                declaration,
                cleanup,
            } => {
                self.declare(&given.by, declaration)?;
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

    fn read(
        &self,
        by: &ControlRequester,
        targets: &[Proc],
        directives: Vec<Info>,
    ) -> Result<ParsedJobControl, JobControlError> {
        let ranks = |nspace: &_| {
            self.clients
                .job(nspace)
                .map(|job| job.procs.keys().copied().collect::<BTreeSet<_>>())
        };
        job_control::read(by.requester.as_ref(), targets, directives, ranks)
    }

    /// Returns the operation of a valid request.
    pub(super) fn operation(
        &self,
        by: &ControlRequester,
        targets: &[Proc],
        directives: &[Info],
    ) -> Option<JobControlOperation> {
        match self.read(by, targets, directives.to_vec()).ok()?.wanted {
            RequestedAction::Act { action, .. } => Some(JobControlOperation::Act(action)),
            RequestedAction::Checkpoint { order, .. } => {
                Some(JobControlOperation::Checkpoint(order.checkpoint))
            }
            RequestedAction::Preempt { action, .. } => Some(JobControlOperation::Preempt(action)),
            RequestedAction::Provision { nodes, image } => {
                Some(JobControlOperation::Provision { nodes, image })
            }
            RequestedAction::Cancel(_) | RequestedAction::Declare { .. } => None,
        }
    }

    /// Records a denied request in the ledger.
    pub(super) fn control_denied(
        &mut self,
        by: &ControlRequester,
        operation: Option<JobControlOperation>,
        targets: &[Proc],
        why: &str,
    ) {
        let Some(operation) = operation else { return };
        let given = ControlContext {
            by: by.clone(),
            name: None,
            mail: None,
            directives: Vec::new(),
        };
        let infos = vec![policy::reason(why)];
        // The ledger refuses only requests that are still running, and this one has ended.
        let _ = self.record_request(
            given,
            operation,
            targets.to_vec(),
            RequestStage::Ended(JobControlEnd::Denied),
            infos,
        );
    }

    fn declare(
        &mut self,
        by: &ControlRequester,
        declaration: Declaration,
    ) -> Result<(), JobControlError> {
        if declaration.is_empty() {
            return Ok(());
        }
        match &by.requester {
            Some(proc) if self.clients.life(proc).is_some() => {
                self.declared.declare(proc, declaration);
                Ok(())
            }
            Some(proc) => Err(JobControlError::NoProc(proc.clone())),
            None => Err(JobControlError::Nobody),
        }
    }

    /// Passes an action to the host environment. A restart is answered at once, because procs may
    /// take long to end; other actions when they are done.
    fn act(
        &mut self,
        given: ControlContext,
        action: JobAction,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        let control = JobControl {
            action: action.clone(),
            targets: targets.clone(),
            directives: given.directives.clone(),
        };
        let (source, to) = (given.by.requester.clone(), given.by.to);
        let is_long = matches!(action, JobAction::Restart { .. });
        let work = PendingWork::Host((!is_long).then_some(to));
        let id = self.record_request(
            given,
            JobControlOperation::Act(action),
            targets,
            RequestStage::Running(work),
            Vec::new(),
        )?;
        let mut actions = if is_long {
            self.reply_accepted(id, to)
        } else {
            self.mail(id)
        };
        actions.push(Action::Upcall(Upcall::JobControl {
            id,
            source,
            control,
        }));
        Ok(actions)
    }

    /// Records a request in the ledger.
    fn record_request(
        &mut self,
        given: ControlContext,
        operation: JobControlOperation,
        targets: Vec<Proc>,
        stage: RequestStage,
        infos: Vec<Info>,
    ) -> Result<ControlId, JobControlError> {
        let requestor = self.requestor(&given.by);
        let ControlContext {
            by:
                ControlRequester {
                    requester,
                    identity,
                    ..
                },
            name,
            mail,
            directives,
        } = given;
        self.ledger.record(name, |name| LedgerEntry {
            name,
            requestor,
            requester,
            identity,
            operation,
            targets,
            directives,
            mail,
            stage,
            not_done: Vec::new(),
            refusal: None,
            infos,
        })
    }

    fn requestor(&self, by: &ControlRequester) -> Requestor {
        match &by.requester {
            Some(proc) if self.clients.life(proc).is_some() => Requestor::Proc(proc.clone()),
            _ => Requestor::User(by.identity.map(|identity| identity.uid)),
        }
    }

    /// Answers with the name of the request, by which its requester can query it.
    fn reply_accepted(&mut self, id: ControlId, to: RequestId) -> Vec<Action> {
        let name = self
            .ledger
            .get(id)
            .map(|entry| Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&entry.name)));
        let answer = reply_infos(to, code::PMIX_SUCCESS, name.into_iter().collect());
        std::iter::once(answer).chain(self.mail(id)).collect()
    }

    /// Raises an event for procs that a request concerns.
    fn raise_for(
        &mut self,
        id: ControlId,
        code: Status,
        procs: &[Proc],
        more: Vec<Info>,
    ) -> Vec<Action> {
        let Some(entry) = self.ledger.get(id) else {
            return Vec::new();
        };
        let mut infos = vec![
            Info::new(
                key::PMIX_EVENT_CUSTOM_RANGE,
                Value::DataArray(DataArray::procs(procs.iter().cloned())),
            ),
            Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&entry.name)),
        ];
        infos.extend(more);
        let event = Event {
            code,
            source: None,
            range: Range::Custom,
            infos,
        };
        self.notify(event).unwrap_or_default()
    }

    /// Handles the host environment's answer to an [`Upcall::JobControl`] for these procs: those
    /// that were not controlled, or the status if none was.
    pub fn controlled(
        &mut self,
        id: ControlId,
        procs: &[Proc],
        answer: Result<Vec<NotDone>, Status>,
    ) -> Vec<Action> {
        let not_done = answer.unwrap_or_else(|status| {
            let reason = "the host environment does not do it".to_owned();
            procs
                .iter()
                .map(|proc| NotDone {
                    proc: proc.clone(),
                    status,
                    reason: reason.clone(),
                })
                .collect()
        });
        let left = self.ledger.change(id, |entry| match &entry.stage {
            RequestStage::Running(PendingWork::Host(_)) => {
                entry.not_done = not_done;
                Err(if entry.not_done.is_empty() {
                    JobControlEnd::Done
                } else {
                    JobControlEnd::Failed
                })
            }
            _ => Ok(entry
                .checkpoint_mut()
                .map(|checkpoint| checkpoint.try_next_methods(&not_done))
                .unwrap_or_default()),
        });
        match left {
            Some(Ok(triggers)) => {
                let mut actions = self.request_checkpoints(id, triggers);
                actions.extend(self.advance_control(id));
                actions
            }
            Some(Err(end)) => self.end(id, end),
            None => Vec::new(),
        }
    }
}

/// A request with its requester, name, mail and directives.
struct ControlContext {
    by: ControlRequester,
    name: Option<String>,
    mail: Option<Vec<Info>>,
    directives: Vec<Info>,
}

fn reply_infos(to: RequestId, status: Status, infos: Vec<Info>) -> Action {
    Action::Reply {
        to,
        reply: Reply::Infos { status, infos },
    }
}
