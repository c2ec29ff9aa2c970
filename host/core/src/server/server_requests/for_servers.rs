//! Requests of other servers about procs of this node.
use super::message::{
    ServerAnswer, ServerReply, ServerRequest, ServerRequestId, ServerRequestMessage,
};
use crate::{
    MonotonicTime,
    group::ServerId,
    job_control::{ControlId, JobControl, NotDone, ServerWork},
    server::{
        Action, MessageRefusal, RecordForServer, ServerContext, ServerState, Upcall,
        control::{ServerOrder, ServerOrderStart},
        policy_gate::GatedRequester,
    },
};
use peal_model::{
    Info, JobControlSubject, Nspace, PolicySubject, Proc, Query, Status, UserIdentity, Value, code,
    key,
};
use std::{collections::BTreeSet, sync::Arc};

impl ServerState {
    /// Handles a message of another server about a request.
    pub(in crate::server) fn request_message(
        &mut self,
        from: ServerId,
        message: ServerRequestMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let taken = match message {
            ServerRequestMessage::Answer { id, answer } => self.answered_by(from, id, answer, now),
            ServerRequestMessage::Withdraw { id } => {
                let withdrawn = ServerReply { server: from, id };
                let ctx = ServerContext::new(&self.clients, &self.settings);
                let events = &mut self.events;
                Ok(self
                    .controls
                    .cancel_orders(ctx, events, |order| order == withdrawn))
            }
            ServerRequestMessage::Ask { id, request } => {
                let to = ServerReply { server: from, id };
                match request {
                    ServerRequest::Control {
                        requester,
                        action,
                        targets,
                    } => {
                        let control = JobControl {
                            action,
                            targets: targets.clone(),
                            directives: Vec::new(),
                        };
                        self.work_for_server(to, requester, ServerWork::Act(control))
                    }
                    ServerRequest::Checkpoint {
                        requester,
                        checkpoint,
                    } => {
                        let work = ServerWork::Checkpoint(checkpoint);
                        self.work_for_server(to, requester, work)
                    }
                    ServerRequest::Declarations(jobs) => self.tell_declarations(to, &jobs),
                    ServerRequest::Query { job, queries } => {
                        self.query_for_server(to, &job, queries)
                    }
                }
            }
        };
        taken.unwrap_or_else(|refusal| vec![Action::MessageRefused { from, refusal }])
    }

    fn answered_by(
        &mut self,
        from: ServerId,
        id: ServerRequestId,
        answer: ServerAnswer,
        now: MonotonicTime,
    ) -> Result<Vec<Action>, MessageRefusal> {
        if let ServerAnswer::Declared(declared) = &answer {
            let mut procs = declared.iter().map(|declared| &declared.proc);
            if let Some(foreign) = procs.find(|proc| !self.groups.may_speak_for(from, proc)) {
                return Err(MessageRefusal::ForeignProc(foreign.clone()));
            }
        }
        let over = self.requests.answered(from, id, answer);
        Ok(self.all_answered(over, now))
    }

    /// Answers a query of another server.
    pub fn answer_server(
        &mut self,
        to: ServerReply,
        answer: Result<Vec<Info>, Status>,
    ) -> Vec<Action> {
        self.requests.release(to.server);
        vec![to.answer(ServerAnswer::Queried(answer))]
    }

    /// Checks that a server may ask about a job: it has procs of it. Returns the user of the job, or
    /// none if this server does not have the job any more.
    fn check_part(
        &self,
        from: ServerId,
        nspace: &Nspace,
    ) -> Result<Option<UserIdentity>, MessageRefusal> {
        let Some(job) = self.clients.job(nspace) else {
            return Ok(None);
        };
        if self.groups.has_procs_at(nspace, from) {
            Ok(Some(job.spec.identity))
        } else {
            Err(MessageRefusal::NoPart(nspace.clone()))
        }
    }

    fn work_for_server(
        &mut self,
        reply: ServerReply,
        requester: Option<Proc>,
        work: ServerWork,
    ) -> Result<Vec<Action>, MessageRefusal> {
        if let Some(proc) = requester.as_ref()
            && (self.clients.life(proc).is_some() || !self.groups.may_speak_for(reply.server, proc))
        {
            return Err(MessageRefusal::ForeignProc(proc.clone()));
        }
        let targets = work.procs();
        let mut owner = None;
        for target in &targets {
            owner = self.check_part(reply.server, &target.nspace)?.or(owner);
        }
        if !work.is_valid() {
            let reason = "the order has a wrong name, signal or checkpoint method";
            let not_done = NotDone::each(targets, code::PMIX_ERR_BAD_PARAM, reason);
            return Ok(vec![reply.answer(ServerAnswer::Controlled(not_done))]);
        }
        let subject = PolicySubject::JobControl(JobControlSubject {
            directives: work.directives(),
            ..JobControlSubject::default()
        });
        let order = ServerOrder {
            reply,
            requester,
            owner,
            work,
        };
        let requester = GatedRequester {
            proc: order.requester.clone(),
            identity: owner,
            groups: Arc::new([]),
        };
        let (id, known) = match self.controls.accept_for_server(&self.clients, order) {
            ServerOrderStart::Accepted { id, known } => (id, known),
            ServerOrderStart::Over(answer) => return Ok(vec![answer]),
        };
        let request = self.policy_request(subject, requester, &known);
        Ok(vec![Action::Upcall(Upcall::RecordForServer(
            RecordForServer {
                id,
                number: self.gate.number(),
                from: reply.server,
                request: Arc::new(request),
            },
        ))])
    }

    /// Begins an operation for another server that is recorded, or that cannot be. The answer to an
    /// [`Upcall::RecordForServer`].
    pub fn recorded_for_server(
        &mut self,
        id: ControlId,
        recorded: Result<(), Status>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.controls
            .recorded_for_server(ctx, &mut self.events, id, recorded, now)
    }

    fn tell_declarations(
        &mut self,
        to: ServerReply,
        jobs: &BTreeSet<Nspace>,
    ) -> Result<Vec<Action>, MessageRefusal> {
        let mut declared = Vec::new();
        for job in jobs {
            self.check_part(to.server, job)?;
            declared.extend(self.controls.declarations_of(job));
        }
        Ok(vec![to.answer(ServerAnswer::Declared(declared))])
    }

    fn query_for_server(
        &mut self,
        to: ServerReply,
        job: &Nspace,
        queries: Vec<Query>,
    ) -> Result<Vec<Action>, MessageRefusal> {
        let owner = self.check_part(to.server, job)?;
        let refused = |status| vec![to.answer(ServerAnswer::Queried(Err(status)))];
        for query in &queries {
            match named_jobs(query) {
                Ok(named) => {
                    if let Some(foreign) = named.into_iter().find(|named| named != job) {
                        return Err(MessageRefusal::NoPart(foreign));
                    }
                }
                Err(status) => return Ok(refused(status)),
            }
        }
        let Some(identity) = owner else {
            return Ok(refused(code::PMIX_ERR_NOT_FOUND));
        };
        if !self.requests.hold(to.server) {
            return Ok(refused(code::PMIX_ERR_OUT_OF_RESOURCE));
        }
        Ok(vec![Action::Upcall(Upcall::ServerQuery {
            to,
            identity,
            queries,
        })])
    }
}

/// Returns the jobs that a query names. One that names none would be about all jobs of the user.
fn named_jobs(query: &Query) -> Result<Vec<Nspace>, Status> {
    let names = [key::PMIX_NSPACE, key::PMIX_PROCID];
    let is_name = |info: &&Info| names.iter().any(|name| info.key == *name);
    let named = query.qualifiers.iter().filter(is_name);
    let named = named.map(|info| match &info.value {
        Value::Proc(proc) => Ok(proc.nspace.clone()),
        Value::Nspace(nspace) => Ok(nspace.clone()),
        value => {
            let name = value.as_str().and_then(|name| Nspace::new(name).ok());
            name.ok_or(code::PMIX_ERR_BAD_PARAM)
        }
    });
    let named = named.collect::<Result<Vec<Nspace>, Status>>()?;
    if named.is_empty() {
        Err(code::PMIX_ERR_BAD_PARAM)
    } else {
        Ok(named)
    }
}
