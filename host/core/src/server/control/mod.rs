//! Job control: processing of permitted requests until they have ended.

mod checkpoints;
mod for_servers;
mod over_nodes;

use super::{
    Action, EventDelivery, ProcDeclaration, RequestId, ServerAnswer, ServerContext, Upcall,
    clients::ClientTable,
};
use crate::{
    MonotonicTime,
    job_control::{
        self, ControlId, ControlPart, ControlReply, ControlUpcallId, Declaration, Declared,
        JobAction, JobControl, JobControlEnd, JobControlError, JobControlLedger,
        JobControlOperation, LedgerEntry, NotDone, ParsedJobControl, PendingWork, RequestSelector,
        RequestStage, RequestedAction, Requestor, STATUS,
    },
    policy,
    quota::QuotaReport,
    targets::ResolvedTargets,
};
pub(super) use checkpoints::PlannedCheckpoint;
pub(super) use for_servers::{ServerOrder, ServerOrderStart};
use peal_model::{
    DataArray, Event, Info, Infos, LogRequest, Nspace, Proc, Query, Range, Reply, Size, Status,
    Text, UserIdentity, Value, code, key,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The requester of a job-control request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct ControlRequester {
    /// The request that awaits a reply.
    pub(super) to: RequestId,
    pub(super) requester: Option<Proc>,
    pub(super) identity: Option<UserIdentity>,
    /// The time of the request.
    pub(super) at: MonotonicTime,
}

/// The job-control requests of a server, and what procs declared for them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobControlRequests {
    ledger: JobControlLedger,
    declared: Declared,
}

impl JobControlRequests {
    /// Creates the state with a limit on open requests.
    pub(super) fn new(max: usize) -> JobControlRequests {
        JobControlRequests {
            ledger: JobControlLedger::new(max),
            declared: Declared::default(),
        }
    }

    pub(super) fn set_limit(&mut self, max: usize) {
        self.ledger.set_limit(max);
    }

    /// Returns the time at which the next request expires.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.ledger.deadline()
    }

    /// Adds the open requests of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        self.ledger.report_quotas(report);
    }

    /// Drops the declarations of a proc.
    pub(super) fn drop_proc(&mut self, proc: &Proc) {
        self.declared.drop_proc(proc);
    }

    /// Drops the declarations of the procs of a job.
    pub(super) fn drop_job(&mut self, nspace: &Nspace) {
        self.declared.drop_job(nspace);
    }

    /// Ends requests that their requester cancels.
    pub(super) fn cancel(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        by: &ControlRequester,
        which: &RequestSelector,
    ) -> Result<Vec<Action>, JobControlError> {
        let requestor = requestor(ctx.clients, by);
        let cancellation = self.ledger.cancellable(&requestor, which)?;
        let status = cancellation.status();
        // Only these can end: the host environment was not told to act on them.
        let mut actions: Vec<Action> = cancellation
            .free
            .into_iter()
            .flat_map(|id| self.end(ctx, events, id, JobControlEnd::Cancelled))
            .collect();
        // Committed requests go on. The reply names them with the reasons.
        actions.push(reply_infos(by.to, status, cancellation.committed));
        Ok(actions)
    }

    /// Checks a cancellation. Returns its status, the names of the requests that it would end, and infos
    /// about those that can no longer be cancelled.
    pub(super) fn check_cancel(
        &self,
        clients: &ClientTable,
        by: &ControlRequester,
        which: &RequestSelector,
    ) -> Result<(Status, Vec<Text>, Vec<Info>), JobControlError> {
        let requestor = requestor(clients, by);
        let cancellation = self.ledger.cancellable(&requestor, which)?;
        let free = cancellation.free.iter();
        let names = free.filter_map(|id| Some(self.ledger.get(*id)?.name.as_str().into()));
        Ok((
            cancellation.status(),
            names.collect(),
            cancellation.committed,
        ))
    }

    /// Checks that the ledger would record a request.
    pub(super) fn check_record(
        &self,
        clients: &ClientTable,
        given: &ControlContext,
    ) -> Result<(), JobControlError> {
        let ControlContext { by, name, .. } = given;
        let uid = by.identity.map(|identity| identity.uid);
        self.ledger
            .check(&requestor(clients, by), uid, name.as_deref())
    }

    /// Records a denied request in the ledger.
    pub(super) fn record_denied(
        &mut self,
        clients: &ClientTable,
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
            clients,
            given,
            operation,
            ResolvedTargets::of_node(targets.to_vec()),
            RequestStage::Ended(JobControlEnd::Denied),
            infos,
        );
    }

    /// Records the declaration of a requester about its own checkpoints and preemption.
    pub(super) fn declare(
        &mut self,
        clients: &ClientTable,
        by: &ControlRequester,
        declaration: Declaration,
    ) -> Result<(), JobControlError> {
        if let Some(proc) = declarant(clients, by, &declaration)? {
            self.declared.declare(proc, declaration);
        }
        Ok(())
    }

    /// Returns what the procs of a job have declared to this server.
    pub(super) fn declarations_of(&self, nspace: &Nspace) -> impl Iterator<Item = ProcDeclaration> {
        let of_job = self.declared.of_job(nspace);
        of_job.map(|(rank, declaration)| ProcDeclaration {
            proc: Proc::new(nspace.clone(), rank),
            declaration: declaration.clone(),
        })
    }

    /// Passes an action to the host environment. A restart is answered at once, because procs may
    /// take long to end; other actions when they are done.
    pub(super) fn act(
        &mut self,
        ctx: ServerContext<'_>,
        given: ControlContext,
        action: JobAction,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        let control = JobControl {
            action: action.clone(),
            targets: targets.clone(),
            directives: given.directives.clone(),
        };
        let source = given.by.requester.clone();
        let is_long = matches!(action, JobAction::Restart { .. });
        let id = self.record_request(
            ctx.clients,
            given,
            JobControlOperation::Act(action),
            ResolvedTargets::of_node(targets),
            RequestStage::Running(PendingWork::Host),
            Vec::new(),
        )?;
        let mut actions = if is_long {
            self.reply_accepted(id)
        } else {
            // The reply comes at the end. The mail reports the beginning as well.
            self.mail(id)
        };
        actions.push(Action::Upcall(Upcall::JobControl {
            id: id.part(ControlPart::Action),
            source,
            control,
        }));
        Ok(actions)
    }

    /// Records a request in the ledger.
    pub(super) fn record_request(
        &mut self,
        clients: &ClientTable,
        given: ControlContext,
        operation: JobControlOperation,
        targets: ResolvedTargets,
        stage: RequestStage,
        infos: Vec<Info>,
    ) -> Result<ControlId, JobControlError> {
        let requestor = requestor(clients, &given.by);
        let ControlContext {
            by:
                ControlRequester {
                    to,
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
            awaits_servers: false,
            reply: ControlReply::Client(to),
            not_done: Vec::new(),
            answer: None,
            infos,
        })
    }

    /// Answers a client with the name of its request, by which it can query the request. An event
    /// reports the end.
    pub(super) fn reply_accepted(&mut self, id: ControlId) -> Vec<Action> {
        let answer = self.ledger.change(id, |entry| {
            let ControlReply::Client(to) = entry.reply else {
                return None;
            };
            entry.reply = ControlReply::Given;
            let name = Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&entry.name));
            Some(reply_infos(to, code::PMIX_SUCCESS, vec![name]))
        });
        answer.flatten().into_iter().chain(self.mail(id)).collect()
    }

    /// Raises an event for procs of this server that a request concerns.
    fn raise_here(
        &self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        code: Status,
        procs: &[Proc],
        more: Vec<Info>,
    ) -> Vec<Action> {
        let event = self.event_for(id, code, procs, more);
        // A refused event changes nothing: the request continues, and a query shows its state.
        event
            .and_then(|event| events.notify_here(ctx, event, ctx.settings.allowance).ok())
            .unwrap_or_default()
    }

    /// Raises an event for procs of any server that a request concerns. Where one event would be larger
    /// than events may be, several are raised, each for a part of the procs.
    fn raise_everywhere(
        &self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        code: Status,
        procs: &[Proc],
        more: Vec<Info>,
    ) -> Vec<Action> {
        if procs.is_empty() {
            return Vec::new();
        }
        let Some(event) = self.event_for(id, code, procs, more.clone()) else {
            return Vec::new();
        };
        let fits = Size::of_event(&event).bytes <= ctx.settings.max_event_bytes;
        if fits || procs.len() == 1 {
            let raised = events.notify(ctx, event, ctx.settings.allowance);
            return raised.unwrap_or_default();
        }
        let (first, rest) = procs.split_at(procs.len() / 2);
        let mut actions = self.raise_everywhere(ctx, events, id, code, first, more.clone());
        actions.extend(self.raise_everywhere(ctx, events, id, code, rest, more));
        actions
    }

    /// Returns an event for procs that a request concerns.
    fn event_for(
        &self,
        id: ControlId,
        code: Status,
        procs: &[Proc],
        more: Vec<Info>,
    ) -> Option<Event> {
        let entry = self.ledger.get(id)?;
        let mut infos = vec![
            Info::new(
                key::PMIX_EVENT_CUSTOM_RANGE,
                Value::DataArray(DataArray::procs(procs.iter().cloned())),
            ),
            Info::new(key::PMIX_JOB_CTRL_ID, Value::string(&entry.name)),
        ];
        infos.extend(more);
        Some(Event {
            code,
            source: None,
            range: Range::Custom,
            infos,
        })
    }

    /// Handles the host environment's answer to an [`Upcall::JobControl`] for these procs: those
    /// that were not controlled, or the status if none was.
    pub(super) fn controlled(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlUpcallId,
        procs: &[Proc],
        answer: Result<Vec<NotDone>, Status>,
    ) -> Vec<Action> {
        let ControlUpcallId { request: id, part } = id;
        let not_done = answer.unwrap_or_else(|status| {
            let reason = "the host environment does not do it";
            NotDone::each(procs.iter().cloned(), status, reason)
        });
        let triggers = self.ledger.change(id, |entry| match (part, &entry.stage) {
            (ControlPart::Action, RequestStage::Running(PendingWork::Host)) => {
                entry.not_done.extend(not_done);
                entry.stage = RequestStage::Running(PendingWork::Elsewhere);
                Vec::new()
            }
            (ControlPart::Action, _) => Vec::new(),
            // The checkpoint may be over before its signals are answered.
            (ControlPart::CheckpointSignal, _) => entry
                .checkpoint_mut()
                .map(|checkpoint| checkpoint.try_next_methods(&not_done))
                .unwrap_or_default(),
        });
        let mut actions = self.request_checkpoints(ctx, events, id, triggers.unwrap_or_default());
        actions.extend(self.advance_control(ctx, events, id));
        actions
    }

    /// Ends a request whose nodes are provided, with the infos of the policies.
    pub(super) fn provided(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        answer: Vec<Info>,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| entry.infos = answer);
        self.end(ctx, events, id, JobControlEnd::Done)
    }

    /// Ends a request whose nodes are not provided, with the reasons.
    pub(super) fn not_provided(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        status: Status,
        reasons: &[Info],
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| {
            entry.infos = reasons.to_vec();
            entry.answer = Some(status);
        });
        self.end(ctx, events, id, JobControlEnd::Denied)
    }

    /// Ends a request: records it, answers a waiting requester or raises an event for it, and sends
    /// mail if it requested one.
    pub(super) fn end(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        end: JobControlEnd,
    ) -> Vec<Action> {
        // `change` is for open requests only, so that each request ends once.
        let ended = self.ledger.change(id, |entry| {
            entry.stage = RequestStage::Ended(end);
        });
        let (Some(()), Some(entry)) = (ended, self.ledger.get(id)) else {
            return Vec::new();
        };
        let targets = entry.targets.all();
        let status = match end {
            JobControlEnd::Cancelled => code::PMIX_ERR_JOB_CANCELED,
            JobControlEnd::Denied => entry.answer.unwrap_or(code::PMIX_ERR_NO_PERMISSIONS),
            JobControlEnd::Done | JobControlEnd::Failed => entry
                .answer
                .unwrap_or_else(|| job_control::status_of(targets.len(), &entry.not_done)),
        };
        let operation = entry.operation.clone();
        let request_infos = entry.infos_for_event();
        let requester = entry.requester.clone();
        let mut actions = vec![Action::JobControlEnded {
            requester: requester.clone(),
            operation,
            targets,
            status,
        }];
        match (entry.reply, requester) {
            (ControlReply::Server(reply), _) => {
                let mut not_done = entry.not_done.clone();
                if end == JobControlEnd::Cancelled {
                    let procs = entry.targets.all();
                    not_done = NotDone::each(procs, status, "the request was cancelled there");
                }
                actions.push(reply.answer(ServerAnswer::Controlled(not_done)));
            }
            (ControlReply::Client(to), _) => {
                let not_done = entry.not_done.iter().map(NotDone::info);
                let infos = not_done.chain(entry.infos.iter().cloned()).collect();
                actions.push(reply_infos(to, status, infos));
            }
            (ControlReply::Given, Some(requester)) => {
                let more = [
                    vec![Info::new(STATUS, Value::Status(status))],
                    request_infos,
                ]
                .concat();
                actions.extend(self.raise_here(
                    ctx,
                    events,
                    id,
                    Status::PEAL_JOB_CONTROL_ENDED,
                    &[requester],
                    more,
                ));
            }
            (ControlReply::Given, None) => {}
        }
        actions.extend(self.mail(id));
        actions
    }

    /// Mails the state of a request to the recipients that its requester named.
    pub(super) fn mail(&self, id: ControlId) -> Vec<Action> {
        let Some(entry) = self.ledger.get(id) else {
            return Vec::new();
        };
        let Some(mail) = &entry.mail else {
            return Vec::new();
        };
        let mut mail = mail.clone();
        let state = entry.state();
        let what = entry.operation.to_string();
        let subject = format!("{what}: {state}");
        let lines = entry
            .not_done
            .iter()
            .map(|not_done| format!("{}: {}", not_done.proc, not_done.reason));
        let all = entry.targets.all();
        let targets = all
            // A mail shows the beginning of long lists; a query has all of them.
            .iter()
            .take(32)
            .map(Proc::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let head = format!(
            "Request {:?}, {what} of {} procs ({targets}): {state}.",
            entry.name,
            all.len()
        );
        let text = std::iter::once(head)
            // Long lists are cut here, too.
            .chain(lines.take(100))
            .collect::<Vec<_>>()
            .join("\n");
        if mail.value_of(key::PMIX_LOG_EMAIL_SUBJECT).is_none() {
            mail.push(Info::new(
                key::PMIX_LOG_EMAIL_SUBJECT,
                Value::string(&subject),
            ));
        }
        // The text of the requester, if any, precedes the report.
        let own = mail
            .value_of(key::PMIX_LOG_EMAIL_MSG)
            .and_then(Value::as_str)
            .map(|own| format!("{own}\n\n{text}"));
        mail.retain(|info| info.key != key::PMIX_LOG_EMAIL_MSG);
        mail.push(Info::new(
            key::PMIX_LOG_EMAIL_MSG,
            Value::string(&own.unwrap_or(text)),
        ));
        let data = vec![Info::new(
            key::PMIX_LOG_EMAIL,
            Value::DataArray(DataArray::infos(mail)),
        )];
        let source = entry.requester.clone();
        let identity = entry.identity;
        let request = LogRequest {
            source,
            identity,
            timestamp: None,
            data,
            directives: Vec::new(),
        };
        vec![Action::Log {
            // No client waits for the result of the mail.
            to: None,
            request: Arc::new(request),
        }]
    }

    /// Answers queries about job-control requests (`PMIX_JOB_CTRL_ID`): all that the requester may
    /// see, or the one named.
    pub(super) fn query(&self, identity: UserIdentity, queries: &[Query]) -> Option<Info> {
        let is_about_requests = |query: &&Query| {
            query
                .keys
                .iter()
                .flatten()
                .any(|name| name.as_bytes() == key::PMIX_JOB_CTRL_ID.0.as_bytes())
        };
        let query = queries.iter().find(is_about_requests)?;
        let name = query
            .qualifiers
            .value_of(key::PMIX_JOB_CTRL_ID)
            .and_then(Value::as_str);
        let requests = self.ledger.describe(identity, name);
        Some(Info::new(
            key::PMIX_JOB_CTRL_ID,
            Value::DataArray(DataArray::infos(requests)),
        ))
    }
}

/// Parses a request.
///
/// # Errors
///
/// Fails if the request is invalid.
pub(super) fn read(
    clients: &ClientTable,
    by: &ControlRequester,
    targets: &[Proc],
    directives: Vec<Info>,
) -> Result<ParsedJobControl, JobControlError> {
    let ranks = |nspace: &_| clients.ranks_of(nspace);
    job_control::read(by.requester.as_ref(), targets, directives, ranks)
}

/// Returns the operation of a valid request.
pub(super) fn operation(
    clients: &ClientTable,
    by: &ControlRequester,
    targets: &[Proc],
    directives: &[Info],
) -> Option<JobControlOperation> {
    // An invalid request is refused before it has an operation to record.
    match read(clients, by, targets, directives.to_vec()).ok()?.action {
        RequestedAction::Operate { operation, .. } => Some(operation),
        RequestedAction::Provision { nodes, image } => {
            Some(JobControlOperation::Provision { nodes, image })
        }
        // Both are done at once, so the ledger has nothing to keep.
        RequestedAction::Cancel(_) | RequestedAction::Declare { .. } => None,
    }
}

/// Returns the proc that declares something; `None` if nothing is declared.
pub(super) fn declarant<'a>(
    clients: &ClientTable,
    by: &'a ControlRequester,
    declaration: &Declaration,
) -> Result<Option<&'a Proc>, JobControlError> {
    // Nothing is declared, so it does not matter whether the requester is a known proc.
    if declaration.is_empty() {
        return Ok(None);
    }
    match &by.requester {
        Some(proc) if clients.life(proc).is_some() => Ok(Some(proc)),
        Some(proc) => Err(JobControlError::NoProc(proc.clone())),
        None => Err(JobControlError::NoTargets),
    }
}

fn requestor(clients: &ClientTable, by: &ControlRequester) -> Requestor {
    match &by.requester {
        Some(proc) if clients.life(proc).is_some() => Requestor::Proc(proc.clone()),
        _ => Requestor::User(by.identity.map(|identity| identity.uid)),
    }
}

/// A request with its requester, name, mail and directives.
#[derive(Debug)]
pub(super) struct ControlContext {
    pub(super) by: ControlRequester,
    pub(super) name: Option<String>,
    pub(super) mail: Option<Vec<Info>>,
    pub(super) directives: Vec<Info>,
}

/// Returns a reply with a status and infos.
pub(super) fn reply_infos(to: RequestId, status: Status, infos: Vec<Info>) -> Action {
    Action::Reply {
        to,
        reply: Reply::Infos { status, infos },
    }
}
