//! Start and end of servers, jobs and procs.
use super::{CoordinatorRequest, GroupAction, GroupMessage, Groups, JobSummary, ServerId};
use crate::{MonotonicTime, job::NodeRoute, rank_ranges::RankRanges};
use peal_model::{Nspace, Proc};

impl Groups {
    /// Gives this server a number that is greater than its last one. It knows no other server: those
    /// that it knew have left.
    pub fn enroll(&mut self, id: ServerId) {
        let old = std::mem::replace(&mut self.me, id);
        self.servers = [id].into();
        self.directory.renumber(old, id);
        self.state.renumber(id);
    }

    /// Adds another server and sends it the jobs of this one. If it coordinates from now on, it gets the
    /// groups that this one has formed alone.
    pub fn server_joined(&mut self, server: ServerId) -> Vec<GroupAction> {
        let before = self.coordinator();
        self.servers.insert(server);
        for (nspace, facts, ranks) in self.directory.of(self.me) {
            self.send(
                server,
                GroupMessage::Job {
                    nspace,
                    facts,
                    ranks,
                },
            );
        }
        if server < before && before == self.me {
            self.hand_over();
        }
        self.take_actions()
    }

    /// Removes another server and its procs. No message of it may follow.
    pub fn server_left(&mut self, server: ServerId, now: MonotonicTime) -> Vec<GroupAction> {
        // Read before the server is removed: the coordinator is the server with the lowest id.
        let before = self.coordinator();
        if server == self.me || !self.servers.remove(&server) {
            return Vec::new();
        }
        // Its requests are for procs that end below.
        self.early.retain(|(from, _)| *from != server);
        self.watches.forget_server(server);
        for (nspace, _, _) in self.directory.of(server) {
            // Before the directory forgets the jobs, which tells their owners.
            let theirs = self.directory.procs_at(&nspace, server);
            self.report_lost(&theirs);
        }
        self.watches.forget_watched_at(server);
        let procs = self.directory.server_left(server);
        if before == self.me {
            self.remove_terminated(&procs, now);
            // The takeover may have waited for nothing but the report of this server.
            if self.takeover.is_some() {
                self.take_over(now);
            }
        } else if before == server {
            // The next coordinator needs what this server knows.
            self.report(now);
        }
        self.take_actions()
    }

    /// Adds a job with these ranks on this server.
    pub fn job_added(
        &mut self,
        nspace: &Nspace,
        facts: JobSummary,
        ranks: RankRanges,
        others: NodeRoute,
    ) -> Vec<GroupAction> {
        let arrived = self.directory.claim_own(nspace, self.me, facts, &ranks);
        if others == NodeRoute::HostEnvironment {
            self.directory.reach_by_host(nspace, self.me);
        }
        // The job may be known of another server that still has procs of it.
        for rank in arrived {
            self.directory
                .mark_running(&Proc::new(nspace.clone(), rank));
        }
        self.broadcast(&GroupMessage::Job {
            nspace: nspace.clone(),
            facts,
            ranks,
        });
        self.knows_job(nspace, self.clock);
        self.take_actions()
    }

    /// Removes a job and its procs. Its waiting callers get no answer.
    pub fn job_removed(&mut self, nspace: &Nspace) -> Vec<GroupAction> {
        let now = self.clock;
        let procs = self.directory.remove(nspace, self.me);
        self.watches.forget_watchers(nspace);
        self.host_calls.forget_job(nspace);
        for proc in &procs {
            self.collectives.leave(proc);
        }
        self.broadcast(&GroupMessage::JobGone(nspace.clone()));
        self.remove_terminated(&procs, now);
        self.pass_all_on(now);
        self.take_actions()
    }

    /// Marks a proc of this server as ended or finalized. It takes part in nothing any more.
    pub fn ended(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<GroupAction> {
        self.clock = now;
        // A proc that has finalized ends later, too. It is reported once.
        if self.directory.end(proc) {
            self.collectives.leave(proc);
            self.up(CoordinatorRequest::Ended(proc.clone()), now);
            self.pass_all_on(now);
        }
        self.take_actions()
    }

    /// Marks an ended proc as running again.
    pub fn back(&mut self, proc: &Proc) -> Vec<GroupAction> {
        if self.directory.mark_running(proc) {
            self.up(CoordinatorRequest::Back(proc.clone()), self.clock);
        }
        self.take_actions()
    }
}
