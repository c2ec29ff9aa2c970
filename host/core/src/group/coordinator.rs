//! The coordinator's part of [`Groups`]: messages of servers, decisions about them, and their
//! distribution to the servers concerned.
use super::{
    CoordinatorContext, CoordinatorRequest, GroupAction, GroupMessage, Groups, JobSummary,
    Participation, ServerId,
    coordinator_state::{CoordinatorAction, CoordinatorState},
    directory::ClaimRefusal,
};
use crate::{MonotonicTime, message_refusal::MessageRefusal, rank_ranges::RankRanges};
use peal_model::{Info, Nspace, Proc, Status};
use std::collections::BTreeMap;

impl Groups {
    /// Handles a message of another server or of this one.
    pub(super) fn take(&mut self, from: ServerId, message: GroupMessage, now: MonotonicTime) {
        match message {
            GroupMessage::Job {
                nspace,
                facts,
                ranks,
            } => self.learn_job(from, &nspace, facts, &ranks, now),
            GroupMessage::JobGone(nspace) => {
                // First, so that the decisions below find the procs ended.
                let procs = self.directory.remove(&nspace, from);
                self.watches.forget_watched(&nspace, from);
                self.remove_terminated(&procs, now);
            }
            GroupMessage::Watch(nspace) if self.directory.has_procs_at(&nspace, self.me) => {
                self.watches.add(nspace, from)
            }
            // The job was removed while the message was on its way.
            GroupMessage::Watch(_) => {}
            GroupMessage::Lost(proc) => self.report_lost(&[proc]),
            GroupMessage::Upward(upward) => self.coordinate(from, upward, now),
            GroupMessage::Report(report) => self.reported(from, report, now),
            GroupMessage::Down(outcome) => self.apply(outcome, now),
            GroupMessage::Refuse {
                key,
                operation,
                calls,
                failure,
            } => {
                // `after` distinguishes the refused call from a later one of the same proc.
                let meant = |part: &Participation| {
                    calls
                        .iter()
                        .any(|(proc, after)| part.proc == *proc && part.after == *after)
                };
                let refused = self.collectives.answered(&key, operation, meant);
                self.fail(&key, operation, refused, &failure);
            }
            GroupMessage::Notify { procs, code, infos } => self.notify(procs, code, infos),
        }
    }

    /// Handles another server's announcement of a job.
    fn learn_job(
        &mut self,
        from: ServerId,
        nspace: &Nspace,
        facts: JobSummary,
        ranks: &RankRanges,
        now: MonotonicTime,
    ) {
        match self.directory.claim(nspace, from, facts, ranks) {
            Ok(arrived) => {
                // Procs of an earlier job of this name may have ended there.
                for rank in arrived {
                    self.directory
                        .mark_running(&Proc::new(nspace.clone(), rank));
                }
                self.knows_job(nspace, now);
            }
            Err(refusal) => {
                let refusal = match refusal {
                    ClaimRefusal::OtherJob => MessageRefusal::OtherJob(nspace.clone()),
                    ClaimRefusal::TakenRank(rank) => {
                        MessageRefusal::TakenProc(Proc::new(nspace.clone(), rank))
                    }
                    ClaimRefusal::NoRank(rank) => {
                        MessageRefusal::NoProc(Proc::new(nspace.clone(), rank))
                    }
                };
                self.refuse_message(from, refusal);
            }
        }
    }

    /// Handles a coordinator request. It is kept for later if this server does not coordinate yet:
    /// the sender may have learned first that it will.
    pub(super) fn coordinate(
        &mut self,
        from: ServerId,
        upward: CoordinatorRequest,
        now: MonotonicTime,
    ) {
        if !self.coordinates() {
            self.early.push((from, upward));
            return;
        }
        // The directory changes first, because decisions ask it which procs live. The results are
        // ignored: for procs of this server it knew before the request was sent.
        match &upward {
            CoordinatorRequest::Ended(proc) => drop(self.directory.end(proc)),
            CoordinatorRequest::Back(proc) => drop(self.directory.mark_running(proc)),
            _ => {}
        }
        self.decide(now, |board, at| match upward {
            CoordinatorRequest::Ended(proc) => board.remove_terminated(&[proc], at),
            // Only the directory changes. The new process calls for itself.
            CoordinatorRequest::Back(_) => Vec::new(),
            CoordinatorRequest::Brings(contribution) => board.contribute(from, contribution, at),
            CoordinatorRequest::Announce { key, announced, .. } => {
                board.announce(&key, announced, at)
            }
            CoordinatorRequest::Leave {
                key,
                proc,
                notified,
            } => board.leave(&key, &proc, notified, at),
            CoordinatorRequest::Respond { key, by, saying } => {
                board.resolve_failure(&key, &by, saying, at)
            }
        });
    }

    /// Handles a job that has become known.
    pub(super) fn knows_job(&mut self, nspace: &Nspace, now: MonotonicTime) {
        if self.coordinates() {
            self.decide(now, |board, at| board.knows_job(nspace, at));
        }
    }

    /// Handles the end of procs with their job or server.
    pub(super) fn remove_terminated(&mut self, procs: &[Proc], now: MonotonicTime) {
        if self.coordinates() {
            self.decide(now, |board, at| board.remove_terminated(procs, at));
        }
    }

    /// Returns true if this server decides and has all reports that it needs for that.
    pub(super) fn coordinates(&self) -> bool {
        self.coordinator() == self.me && self.takeover.is_none()
    }

    /// Runs an operation on the coordinator's state and distributes the resulting decisions.
    pub(super) fn decide(
        &mut self,
        now: MonotonicTime,
        what: impl FnOnce(&mut CoordinatorState, &CoordinatorContext<'_>) -> Vec<CoordinatorAction>,
    ) {
        // Apart from each other, so that the state can change while it reads the directory.
        let Groups {
            state: board,
            directory,
            settings,
            ..
        } = self;
        for decided in what(
            board,
            &CoordinatorContext {
                directory,
                settings,
                now,
            },
        ) {
            self.carry_out(decided, now);
        }
    }

    fn carry_out(&mut self, decided: CoordinatorAction, now: MonotonicTime) {
        match decided {
            CoordinatorAction::Outcome(servers, outcome) => {
                // Decisions without servers are failed constructs, which procs of any server may
                // call late.
                let to = servers.unwrap_or_else(|| self.servers.clone());
                for server in to {
                    self.hand(server, GroupMessage::Down(outcome.clone()), now);
                }
            }
            CoordinatorAction::Refuse(to, key, operation, calls, failure) => {
                self.hand(
                    to,
                    GroupMessage::Refuse {
                        key,
                        operation,
                        calls,
                        failure,
                    },
                    now,
                );
            }
            CoordinatorAction::Notify(procs, code, infos) => {
                // One message for each server, with all of its procs.
                let mut at: BTreeMap<ServerId, Vec<Proc>> = BTreeMap::new();
                for proc in procs {
                    // Procs of a removed job have no server, and nobody to tell.
                    if let Some(server) = self.directory.home(&proc) {
                        at.entry(server).or_default().push(proc);
                    }
                }
                for (server, procs) in at {
                    self.hand(
                        server,
                        GroupMessage::Notify {
                            procs,
                            code,
                            infos: infos.clone(),
                        },
                        now,
                    );
                }
            }
        }
    }

    /// Passes a message to a server. Messages to this server are queued until all current decisions
    /// are sent. Decisions that follow from them come later, so all servers receive both in the
    /// same order.
    pub(super) fn hand(&mut self, to: ServerId, message: GroupMessage, now: MonotonicTime) {
        if to == self.me {
            self.own.push_back((message, now));
        // The procs of a server that has left were removed with it.
        } else if self.servers.contains(&to) {
            self.send(to, message);
        }
    }

    /// Reports a message of another server that is refused.
    pub(super) fn refuse_message(&mut self, from: ServerId, refusal: MessageRefusal) {
        self.steps
            .push(GroupAction::RefuseMessage { from, refusal });
    }

    pub(super) fn notify(&mut self, procs: Vec<Proc>, code: Status, infos: Vec<Info>) {
        self.steps.push(GroupAction::Notify { procs, code, infos });
    }
}
