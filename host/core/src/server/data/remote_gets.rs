//! Gets of values of procs that other servers have: direct modex between servers.
//!
//! A get asks the server of the proc, once for each value that gets wait for. There the request
//! waits until the proc puts the value or leaves, or the time of the get is over: both servers then
//! forget it.
use super::{Action, DataExchange};
use crate::{
    MonotonicTime,
    deadlines::Deadlines,
    group::{Groups, ServerId},
    message_refusal::MessageRefusal,
    modex::PutSnapshot,
    put_values::SoughtValue,
    server::{ServerContext, clients::ClientTable, reply},
    server_message::InterServerMessage,
};
use peal_model::{Nspace, Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Largest number of requests of one server that wait for procs here. That server has bounded the
/// gets of its clients; this bounds what one that does not can make others hold.
const MAX_WAITING: usize = 65_536;

/// A message about values of a proc.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ModexMessage {
    /// Asks for the values that a proc of the receiver has put for procs of other nodes.
    Request {
        /// The proc.
        proc: Proc,
        /// The value that must be among them; without one, any.
        sought: Option<SoughtValue>,
        /// The time that the sender waits, because servers do not share a clock.
        left: Duration,
    },
    /// Answers a request.
    Values {
        /// The proc.
        proc: Proc,
        /// The value that was sought.
        sought: Option<SoughtValue>,
        /// The values, or the reason why there are none.
        values: Result<PutSnapshot, Status>,
    },
}

/// A request that waits: at its server for an answer, or at the proc's server for the value.
#[derive(Debug, Serialize, Deserialize)]
struct OpenGet {
    sought: Option<SoughtValue>,
    /// The other server; none while the server of the proc is not known.
    server: Option<ServerId>,
    until: MonotonicTime,
}

/// Requests that wait, by their procs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OpenGets {
    of: BTreeMap<Proc, Vec<OpenGet>>,
    deadlines: Deadlines,
}

impl OpenGets {
    fn add(&mut self, proc: &Proc, request: OpenGet) {
        self.deadlines.add(request.until);
        self.of.entry(proc.clone()).or_default().push(request);
    }

    /// Takes the requests about a proc that the filter accepts.
    fn take(&mut self, proc: &Proc, is_meant: impl Fn(&OpenGet) -> bool) -> Vec<OpenGet> {
        let Some(open) = self.of.get_mut(proc) else {
            return Vec::new();
        };
        let taken: Vec<OpenGet> = open.extract_if(.., |request| is_meant(request)).collect();
        if open.is_empty() {
            self.of.remove(proc);
        }
        for request in &taken {
            self.deadlines.remove(request.until);
        }
        taken
    }

    /// Takes the requests about procs of a job, or of all jobs, that the filter accepts.
    fn take_all(
        &mut self,
        nspace: Option<&Nspace>,
        is_meant: impl Fn(&OpenGet) -> bool + Copy,
    ) -> Vec<(Proc, OpenGet)> {
        let procs = self.of.keys();
        let procs = procs.filter(|proc| nspace.is_none_or(|nspace| proc.nspace == *nspace));
        let procs: Vec<Proc> = procs.cloned().collect();
        let taken = procs.into_iter().flat_map(|proc| {
            let taken = self.take(&proc, is_meant);
            taken
                .into_iter()
                .map(move |request| (proc.clone(), request))
        });
        taken.collect()
    }

    /// Takes the requests whose time is over.
    fn expire(&mut self, now: MonotonicTime) -> Vec<(Proc, OpenGet)> {
        if self.deadlines.next().is_some_and(|next| next <= now) {
            self.take_all(None, |request| request.until <= now)
        } else {
            Vec::new()
        }
    }
}

/// Requests between this server and others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RemoteGets {
    /// Requests of this server.
    asked: OpenGets,
    /// Requests of other servers for values of local procs.
    waiting: OpenGets,
    /// Number of the latter of each server.
    held_by: BTreeMap<ServerId, usize>,
}

impl RemoteGets {
    /// Returns the time at which the next request is forgotten.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let both = [self.asked.deadlines.next(), self.waiting.deadlines.next()];
        both.into_iter().flatten().min()
    }

    /// Forgets the requests whose time is over. Their gets have expired at the same time.
    pub(super) fn expire(&mut self, now: MonotonicTime) {
        self.asked.expire(now);
        let expired = self.waiting.expire(now);
        self.release(expired.iter().map(|(_, request)| request));
    }

    /// Takes the requests of other servers about a proc that the filter accepts.
    fn take_waiting(&mut self, proc: &Proc, is_meant: impl Fn(&OpenGet) -> bool) -> Vec<OpenGet> {
        let taken = self.waiting.take(proc, is_meant);
        self.release(taken.iter());
        taken
    }

    /// Takes the requests of other servers about procs of a job that the filter accepts.
    fn take_waiting_of_job(
        &mut self,
        nspace: &Nspace,
        is_meant: impl Fn(&OpenGet) -> bool + Copy,
    ) -> Vec<(Proc, OpenGet)> {
        let taken = self.waiting.take_all(Some(nspace), is_meant);
        self.release(taken.iter().map(|(_, request)| request));
        taken
    }

    fn release<'a>(&mut self, taken: impl Iterator<Item = &'a OpenGet>) {
        for server in taken.filter_map(|request| request.server) {
            if let Some(count) = self.held_by.get_mut(&server) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.held_by.remove(&server);
                }
            }
        }
    }

    /// Notes that a get waits for a value. Returns false if a request waits as long already.
    fn ask(
        &mut self,
        proc: &Proc,
        sought: Option<&SoughtValue>,
        server: Option<ServerId>,
        until: MonotonicTime,
    ) -> bool {
        let same = |request: &OpenGet| request.sought.as_ref() == sought;
        let open = self.asked.of.get(proc).into_iter().flatten();
        let mut open = open.filter(|request| same(request));
        if open.any(|request| request.until >= until && request.server == server) {
            return false;
        }
        self.asked.take(proc, same);
        let request = OpenGet {
            sought: sought.cloned(),
            server,
            until,
        };
        self.asked.add(proc, request);
        true
    }
}

/// The server of the get.
impl DataExchange {
    /// Asks the server of a proc for a value for which a get waits until its deadline. If the
    /// server is not known yet, it is asked when it has announced the proc.
    pub(super) fn ask_server(
        &mut self,
        groups: &Groups,
        proc: &Proc,
        sought: Option<&SoughtValue>,
        until: MonotonicTime,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let server = groups.server_of(proc);
        if !self.remote_gets.ask(proc, sought, server, until) {
            return Vec::new();
        }
        let request = server.map(|to| modex_request(to, proc, sought, until, now));
        request.into_iter().collect()
    }

    /// Handles a message of another server about values.
    pub(in crate::server) fn modex_message(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        from: ServerId,
        message: ModexMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        match message {
            ModexMessage::Request { proc, sought, left } => {
                self.value_requested(ctx.clients, groups, from, proc, sought, now + left)
            }
            ModexMessage::Values {
                proc,
                sought,
                values,
            } => self.values_arrived(ctx, groups, from, &proc, sought, values),
        }
    }

    fn values_arrived(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        from: ServerId,
        proc: &Proc,
        sought: Option<SoughtValue>,
        values: Result<PutSnapshot, Status>,
    ) -> Vec<Action> {
        let is_of_proc = values
            .as_ref()
            .map_or(true, |snapshot| snapshot.values.proc == *proc);
        if groups.server_of(proc) != Some(from) || !is_of_proc {
            let refusal = MessageRefusal::ForeignProc(proc.clone());
            return vec![Action::MessageRefused { from, refusal }];
        }
        self.remote_gets
            .asked
            .take(proc, |request| request.sought == sought);
        let missing = match values {
            Ok(snapshot) => {
                self.modex.learn(snapshot);
                code::PMIX_ERR_NOT_FOUND
            }
            Err(status) => status,
        };
        let answered = self.modex.answered(proc);
        let mut actions = self.answer_gets(ctx, groups, proc, answered);
        let unanswered = self.modex.give_up_sought(proc, sought.as_ref()).into_iter();
        actions.extend(unanswered.map(|to| reply(to, missing)));
        actions
    }

    /// Continues gets after a change of the servers that have procs of a job: asks a server that has
    /// become known, and ends the gets of procs that are lost with their server.
    pub(super) fn gets_of_changed(
        &mut self,
        groups: &Groups,
        nspace: &Nspace,
        lost: Option<ServerId>,
    ) -> Vec<Action> {
        let now = self.clock;
        let mut actions = Vec::new();
        if let Some(lost) = lost {
            let is_theirs = |request: &OpenGet| request.server == Some(lost);
            self.remote_gets.take_waiting_of_job(nspace, is_theirs);
            for (proc, request) in self.remote_gets.asked.take_all(Some(nspace), is_theirs) {
                let waiting = self.modex.give_up_sought(&proc, request.sought.as_ref());
                let waiting = waiting.into_iter();
                actions.extend(waiting.map(|to| reply(to, code::PMIX_ERR_NOT_FOUND)));
            }
        }
        let unknown = |request: &OpenGet| request.server.is_none();
        for (proc, request) in self.remote_gets.asked.take_all(Some(nspace), unknown) {
            let sought = request.sought.as_ref();
            actions.extend(self.ask_server(groups, &proc, sought, request.until, now));
        }
        actions
    }
}

/// The server of the proc.
impl DataExchange {
    fn value_requested(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        from: ServerId,
        proc: Proc,
        sought: Option<SoughtValue>,
        until: MonotonicTime,
    ) -> Vec<Action> {
        // Only a server of the job has procs that may ask.
        if !groups.has_procs_at(&proc.nspace, from) {
            let refusal = MessageRefusal::NoPart(proc.nspace);
            return vec![Action::MessageRefused { from, refusal }];
        }
        let values = if let Some(values) = self.modex.sought_for_others(&proc, sought.as_ref()) {
            Ok(values)
        } else if self.modex.has_for_node_only(&proc, sought.as_ref()) || !clients.may_put(&proc) {
            Err(code::PMIX_ERR_NOT_FOUND)
        } else if self.remote_gets.held_by.get(&from) >= Some(&MAX_WAITING) {
            Err(code::PMIX_ERR_OUT_OF_RESOURCE)
        } else {
            // A server that asks again waits longer.
            let is_same =
                |request: &OpenGet| request.server == Some(from) && request.sought == sought;
            self.remote_gets.take_waiting(&proc, is_same);
            *self.remote_gets.held_by.entry(from).or_default() += 1;
            let request = OpenGet {
                sought,
                server: Some(from),
                until,
            };
            self.remote_gets.waiting.add(&proc, request);
            return Vec::new();
        };
        vec![modex_values(from, proc, sought, values)]
    }

    /// Answers requests of other servers that the values of a proc satisfy now. Those that are left
    /// get this status, if the proc puts no more.
    pub(super) fn answer_servers(&mut self, proc: &Proc, left: Option<Status>) -> Vec<Action> {
        let modex = &self.modex;
        let is_ready = |request: &OpenGet| {
            left.is_some() || modex.has_for_others(proc, request.sought.as_ref())
        };
        let ready = self.remote_gets.take_waiting(proc, is_ready);
        let answer = |OpenGet { sought, server, .. }| {
            let values = self.modex.sought_for_others(proc, sought.as_ref());
            let values = values.ok_or(left.unwrap_or(code::PMIX_ERR_NOT_FOUND));
            Some(modex_values(server?, proc.clone(), sought, values))
        };
        ready.into_iter().filter_map(answer).collect()
    }

    /// Refuses the requests of other servers that wait for procs of a removed job, and forgets those
    /// of this server for its procs.
    pub(super) fn drop_remote_gets(&mut self, nspace: &Nspace) -> Vec<Action> {
        self.remote_gets.asked.take_all(Some(nspace), |_| true);
        let waiting = self.remote_gets.take_waiting_of_job(nspace, |_| true);
        let refusal = |(proc, OpenGet { sought, server, .. })| {
            let unknown = Err(code::PMIX_ERR_INVALID_NAMESPACE);
            Some(modex_values(server?, proc, sought, unknown))
        };
        waiting.into_iter().filter_map(refusal).collect()
    }
}

fn modex_request(
    to: ServerId,
    proc: &Proc,
    sought: Option<&SoughtValue>,
    until: MonotonicTime,
    now: MonotonicTime,
) -> Action {
    let message = ModexMessage::Request {
        proc: proc.clone(),
        sought: sought.cloned(),
        left: Duration::from_millis(until.0.saturating_sub(now.0)),
    };
    Action::Send {
        to,
        message: InterServerMessage::Modex(message),
    }
}

fn modex_values(
    to: ServerId,
    proc: Proc,
    sought: Option<SoughtValue>,
    values: Result<PutSnapshot, Status>,
) -> Action {
    let message = ModexMessage::Values {
        proc,
        sought,
        values,
    };
    Action::Send {
        to,
        message: InterServerMessage::Modex(message),
    }
}
