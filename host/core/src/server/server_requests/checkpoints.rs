//! Checkpoints and preemptions of procs of several nodes, which their servers make.
use super::{
    message::ServerRequest,
    open::{CollectedAnswers, DeclarationsElsewhere, MissingAnswer},
};
use crate::{
    MonotonicTime,
    group::ServerId,
    job_control::{
        ControlId, Declared, JobControlError, JobControlOperation, NotDone, ServerCheckpoint,
    },
    server::{Action, ServerContext, ServerState, control::ControlContext},
};
use peal_model::{Nspace, Proc, code};
use std::collections::{BTreeMap, BTreeSet};

impl ServerState {
    /// Begins a checkpoint or preemption of procs of this node. If they have not declared here what it
    /// needs, another proc of their job may have declared it at its server.
    pub(in crate::server) fn checkpoint_of_node(
        &mut self,
        given: ControlContext,
        operation: JobControlOperation,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let now = given.by.at;
        match self.controls.plan(ctx, &operation, &targets, now) {
            Err(JobControlError::NoMethod(_) | JobControlError::NotPreemptible(_))
                if !self.other_servers_of(&targets).is_empty() =>
            {
                let id = self
                    .controls
                    .accept(&self.clients, given, operation, targets)?;
                Ok(self.ask_declarations(id, now))
            }
            planned => {
                self.controls
                    .checkpoint(ctx, &mut self.events, given, operation, targets, planned?)
            }
        }
    }

    /// Returns the other servers that have procs of the jobs of these procs, each with these jobs.
    fn other_servers_of(&self, procs: &[Proc]) -> BTreeMap<ServerId, BTreeSet<Nspace>> {
        let jobs: BTreeSet<&Nspace> = procs.iter().map(|proc| &proc.nspace).collect();
        let mut found: BTreeMap<ServerId, BTreeSet<Nspace>> = BTreeMap::new();
        for job in jobs {
            for server in self.groups.servers_of(&Proc::all(job.clone())) {
                if server != self.groups.me() {
                    found.entry(server).or_default().insert(job.clone());
                }
            }
        }
        found
    }

    /// Asks the other servers of the targets' jobs what procs have declared.
    pub(super) fn ask_declarations(&mut self, id: ControlId, now: MonotonicTime) -> Vec<Action> {
        let Some(order) = self.controls.accepted_over_nodes(id) else {
            return Vec::new();
        };
        let mut procs = self.procs_of_servers(&order.elsewhere);
        let targets = [order.local, order.elsewhere].concat();
        let servers = if order.operation.needs_declarations() {
            self.other_servers_of(&targets)
        } else {
            BTreeMap::new()
        };
        let answers = DeclarationsElsewhere {
            jobs: servers.values().flatten().cloned().collect(),
            declared: Declared::default(),
            missing: procs.not_reached(),
        };
        let asked = servers
            .keys()
            .map(|server| (*server, procs.reached.remove(server).unwrap_or_default()))
            .collect();
        let answers = CollectedAnswers::Declarations(id, answers);
        let until = now + self.settings.server_answer_timeout;
        self.ask_servers(answers, asked, until, now, |server, _| {
            ServerRequest::Declarations(servers.get(&server).cloned().unwrap_or_default())
        })
    }

    /// Begins a checkpoint or preemption on all nodes. The declarations of their procs are known.
    /// Nothing begins if one of the procs cannot take part.
    pub(super) fn checkpoint_by_servers(
        &mut self,
        id: ControlId,
        declarations: DeclarationsElsewhere,
        now: MonotonicTime,
    ) -> Vec<Action> {
        // The requester may have cancelled it.
        let Some(order) = self.controls.accepted_over_nodes(id) else {
            return Vec::new();
        };
        let DeclarationsElsewhere {
            declared,
            mut missing,
            ..
        } = declarations;
        let procs = self.procs_of_servers(&order.elsewhere);
        if missing.is_empty() {
            // A server or a job may have gone since it answered.
            let left = MissingAnswer::Left;
            let gone = procs.unreached.iter().cloned();
            missing.extend(NotDone::each(gone, left.status(), left.text()));
            let all = order.local.iter().chain(&order.elsewhere);
            let ended = all
                .filter(|proc| !self.clients.has_job(&proc.nspace))
                .cloned();
            let reason = "its job has ended";
            missing.extend(NotDone::each(ended, code::PMIX_ERR_NOT_FOUND, reason));
        }
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let events = &mut self.events;
        if !missing.is_empty() {
            return self.controls.cannot_begin(ctx, events, id, missing);
        }
        let planned = self
            .controls
            .plan_over_nodes(ctx, id, declared, &order, now);
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(error) => return self.controls.refuse(ctx, events, id, &error),
        };
        let mut orders = BTreeMap::new();
        let mut asked = procs.reached;
        // Procs without a method have the grace period alone.
        asked.retain(|server, procs| {
            let methods = planned.take(procs.iter());
            procs.retain(|proc| methods.contains_key(proc));
            orders.insert(*server, ServerCheckpoint::group(&methods));
            !procs.is_empty()
        });
        let name = planned.name.clone();
        let request = self.controls.name_of(id).unwrap_or_default().to_owned();
        let timeout = planned.timeout;
        let until = planned.deadline + self.settings.server_answer_timeout;
        let begun = self.controls.begin_beside_servers(ctx, events, id, planned);
        let requester = self.known_elsewhere(order.requester);
        let answers = CollectedAnswers::Control(id, Vec::new());
        let asks = self.ask_servers(answers, asked, until, now, |server, _| {
            ServerRequest::Checkpoint {
                requester: requester.clone(),
                checkpoint: ServerCheckpoint {
                    request: request.clone(),
                    name: name.clone(),
                    timeout,
                    procs: orders.get(&server).cloned().unwrap_or_default(),
                },
            }
        });
        begun.into_iter().chain(asks).collect()
    }
}
