//! Clients come and go.
use super::{Action, Credentials, Generation, Peer, PeerId, Refusal, RequestId, Server, Standing, Upcall, reply};
use crate::job::Life;
use peal_model::{Event, Info, Proc, Range, Reply, Status, Value, code, key};
use std::sync::Arc;

impl Server {
    /// Lets a proc connect, or says why not. The first connection of a proc is told to the host environment.
    pub fn admit(&mut self, proc: &Proc, claimed: Credentials) -> Result<(PeerId, Vec<Action>), Refusal> {
        let max = self.settings.max_clones;
        let job = self.jobs.get_mut(&proc.nspace).ok_or_else(|| Refusal::UnknownNspace(proc.nspace.clone()))?;
        let size = job.spec.size;
        let life = job.procs.get_mut(&proc.rank).ok_or_else(|| Refusal::UnknownRank { proc: proc.clone(), size })?;
        let wanted = Credentials { uid: job.spec.uid, gid: job.spec.gid };
        if claimed != wanted {
            return Err(Refusal::WrongUser { proc: proc.clone(), wanted, found: claimed });
        }
        let mut actions = Vec::new();
        *life = match *life {
            Life::Expected => {
                actions.push(Action::Host(Upcall::ClientConnected(proc.clone())));
                Life::Connected(1)
            }
            // A program may finalize and initialize again.
            Life::Finalized => Life::Connected(1),
            Life::Connected(n) if n >= max => return Err(Refusal::TooManyClones { proc: proc.clone(), max }),
            Life::Connected(n) => Life::Connected(n + 1),
            Life::Lost => return Err(Refusal::Ended(proc.clone())),
        };
        self.next_peer += 1;
        let id = PeerId(self.next_peer);
        self.peers.insert(id, Peer { proc: proc.clone(), standing: Standing::Active, interests: Vec::new() });
        Ok((id, actions))
    }

    /// Where a proc is in its life, if it is known.
    pub fn life(&self, proc: &Proc) -> Option<Life> {
        self.jobs.get(&proc.nspace)?.procs.get(&proc.rank).copied()
    }

    pub(super) fn job_data(&mut self, to: RequestId, source: &Proc) -> Vec<Action> {
        match self.jobs.get(&source.nspace) {
            Some(job) => vec![Action::Reply { to, reply: Reply::JobData(job.info.clone()) }],
            None => vec![reply(to, code::PMIX_ERR_NOT_FOUND)],
        }
    }

    pub(super) fn finalize(&mut self, to: RequestId, source: Proc) -> Vec<Action> {
        let mut actions = vec![reply(to, code::PMIX_SUCCESS)];
        let Some(peer) = self.peers.get_mut(&to.peer).filter(|peer| peer.standing == Standing::Active) else {
            return actions;
        };
        peer.standing = Standing::Left;
        peer.interests.clear();
        if self.leave(&source, Life::Finalized) {
            actions.extend(self.departed(&source));
            actions.push(Action::Host(Upcall::ClientFinalized(source)));
        }
        actions
    }

    /// A connection is closed. Its registrations, held gets and reference counts go with it; a proc that had not left in
    /// order becomes an event.
    pub fn disconnected(&mut self, peer: PeerId) -> Vec<Action> {
        let Some(gone) = self.peers.remove(&peer) else { return Vec::new() };
        self.cache.forget(peer);
        self.modex.forget(peer);
        if gone.standing == Standing::Left || !self.leave(&gone.proc, Life::Lost) {
            return Vec::new();
        }
        let mut actions = self.departed(&gone.proc);
        actions.push(Action::Host(Upcall::ClientLost(gone.proc.clone())));
        // The host is told, and its handlers see it; the other procs hear of it when the host knows how the proc ended.
        actions.push(Action::Chain { event: Arc::new(lost(gone.proc)), generation: Generation::ORIGIN });
        actions
    }

    /// The host environment says that a proc has ended, and whether that was abnormal: then `code` says how.
    pub fn proc_ended(&mut self, proc: &Proc, abnormal: Option<(Status, Vec<Info>)>) -> Vec<Action> {
        let mut actions = Vec::new();
        // The end of a connected proc's connection is yet to come, and counts it out.
        if let Some(life) = self.jobs.get_mut(&proc.nspace).and_then(|job| job.procs.get_mut(&proc.rank))
            && *life == Life::Expected
        {
            *life = Life::Lost;
            actions = self.departed(proc);
        }
        if let Some((code, more)) = abnormal {
            let mut infos = vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone()))];
            infos.extend(more);
            actions.extend(
                self.spread(Arc::new(Event { code, source: None, range: Range::Namespace, infos }), Generation::ORIGIN),
            );
        }
        actions
    }

    /// Counts a connection of a proc out. Whether it was the last one.
    fn leave(&mut self, proc: &Proc, after: Life) -> bool {
        let Some(job) = self.jobs.get_mut(&proc.nspace) else { return false };
        let Some(life) = job.procs.get_mut(&proc.rank) else { return false };
        match *life {
            Life::Connected(n) if n > 1 => {
                *life = Life::Connected(n - 1);
                false
            }
            Life::Connected(_) => {
                *life = after;
                true
            }
            Life::Expected | Life::Finalized | Life::Lost => false,
        }
    }

    /// Nobody need wait for this proc any more.
    fn departed(&mut self, proc: &Proc) -> Vec<Action> {
        let unanswered = self.modex.give_up(proc);
        let mut actions: Vec<Action> = unanswered.into_iter().map(|to| reply(to, code::PMIX_ERR_NOT_FOUND)).collect();
        for complete in self.fences.leave(proc) {
            actions.push(self.gather(complete));
        }
        actions
    }
}

fn lost(proc: Proc) -> Event {
    let infos = vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone()))];
    Event { code: code::PMIX_ERR_LOST_CONNECTION, source: Some(proc), range: Range::Namespace, infos }
}
