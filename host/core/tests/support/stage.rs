//! A server's state with connected procs, stepped by hand. Each file of tests adds the requests that it makes.
#![allow(dead_code, reason = "no file of tests uses all of it")]
use peal_core::{
    MonotonicTime,
    job::JobSpec,
    server::{Action, PeerId, RequestId, ServerState, StateSettings, Upcall},
};
use peal_model::{Nspace, Proc, Rank, Request, UserIdentity};

/// A server's state, its clock, and the peers that are connected to it.
pub struct Stage {
    pub server: ServerState,
    /// The procs of all jobs, in the order of the jobs and of their ranks.
    pub peers: Vec<PeerId>,
    /// The tag of the last request.
    pub tag: u32,
    pub now: MonotonicTime,
    /// Change of the state after each request: none, or another process takes it over.
    pub then: fn(&mut ServerState),
}

impl Stage {
    /// A state with these jobs, each with its number of procs and its user; all procs are connected.
    pub fn with_jobs(settings: StateSettings, jobs: &[(&str, u32, UserIdentity)]) -> Stage {
        let mut server = ServerState::new(settings);
        let mut procs = Vec::new();
        for &(name, size, user) in jobs {
            let nspace = Nspace::new(name).unwrap();
            server.add_job(JobSpec::new(nspace.clone(), size, "node", user));
            procs.extend((0..size).map(|rank| (Proc::new(nspace.clone(), Rank(rank)), user)));
        }
        let peers = procs
            .iter()
            .map(|(proc, user)| server.admit(proc, *user).unwrap().0)
            .collect();
        Stage {
            server,
            peers,
            tag: 100,
            now: MonotonicTime(0),
            then: |_| {},
        }
    }

    /// Makes a request of a peer, with a tag of its own.
    pub fn request(&mut self, peer: PeerId, request: Request) -> (RequestId, Vec<Action>) {
        self.tag += 1;
        let id = RequestId {
            peer,
            tag: self.tag,
        };
        let actions = self.server.request(id, request, self.now);
        (self.then)(&mut self.server);
        (id, actions)
    }

    /// Makes a request of the proc at this place among the peers.
    pub fn request_of(&mut self, rank: usize, request: Request) -> Vec<Action> {
        self.request(self.peers[rank], request).1
    }

    /// Carries out the actions of a host environment that accepts every registration at once, and returns the others.
    pub fn accept_registrations(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let answer = |action| match action {
            Action::Upcall(Upcall::RegisterEvents { id, .. }) => {
                self.server.host_registered(id, Ok(()))
            }
            action => vec![action],
        };
        actions.into_iter().flat_map(answer).collect()
    }
}
