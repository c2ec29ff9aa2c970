//! What comes from servers, and what is decided about it and told to those concerned.
use super::{
    Groups, Message, Part, Scene, ServerId, Step, Upward,
    board::{Board, Decided},
};
use crate::Time;
use peal_model::{Info, Nspace, Proc, Status};
use std::collections::BTreeMap;

impl Groups {
    /// Something came from a server, or from ourselves.
    pub(super) fn take(&mut self, from: ServerId, message: Message, now: Time) {
        match message {
            Message::Job { nspace, facts } => {
                self.directory.add(nspace.clone(), from, facts);
                self.knows_job(&nspace, now);
            }
            Message::JobGone(nspace) => {
                let procs = self.directory.remove(&nspace);
                self.watches.forget_job(&nspace);
                self.bury(&procs, now);
            }
            Message::Watch(nspace) if self.directory.is_at(&nspace, self.me) => {
                self.watches.add(nspace, from)
            }
            Message::Watch(_) => {}
            Message::Lost(proc) => self.tell_lost(&[proc]),
            Message::Upward(upward) => self.coordinate(from, upward, now),
            Message::Report(report) => self.reported(from, report, now),
            Message::Down(outcome) => self.apply(outcome, now),
            Message::Refuse {
                key,
                operation,
                calls,
                failure,
            } => {
                let meant = |part: &Part| {
                    calls
                        .iter()
                        .any(|(proc, after)| part.proc == *proc && part.after == *after)
                };
                let refused = self.lobby.answered(&key, operation, meant);
                self.fail(&key, operation, refused, &failure);
            }
            Message::Tell { procs, code, infos } => self.tell(procs, code, infos),
        }
    }

    /// What is for the coordinator. Whoever sends it knows already that we are that.
    pub(super) fn coordinate(&mut self, from: ServerId, upward: Upward, now: Time) {
        if !self.coordinates() {
            self.early.push((from, upward));
            return;
        }
        match &upward {
            Upward::Ended(proc) => drop(self.directory.end(proc)),
            Upward::Back(proc) => drop(self.directory.unend(proc)),
            _ => {}
        }
        self.decide(now, |board, at| match upward {
            Upward::Ended(proc) => board.bury(&[proc], at),
            Upward::Back(_) => Vec::new(),
            Upward::Brings(contribution) => board.contribute(from, contribution, at),
            Upward::Announce { key, announced } => board.announce(&key, announced, at),
            Upward::Leave {
                key,
                proc,
                notified,
            } => board.leave(&key, &proc, notified, at),
            Upward::Say { key, by, saying } => board.say(&key, &by, saying, at),
        });
    }

    /// A job has become known.
    pub(super) fn knows_job(&mut self, nspace: &Nspace, now: Time) {
        if self.coordinates() {
            self.decide(now, |board, at| board.knows_job(nspace, at));
        }
    }

    /// Procs are gone with their job or server.
    pub(super) fn bury(&mut self, procs: &[Proc], now: Time) {
        if self.coordinates() {
            self.decide(now, |board, at| board.bury(procs, at));
        }
    }

    /// Whether we decide, and know what there is to know.
    pub(super) fn coordinates(&self) -> bool {
        self.coordinator() == self.me && self.takeover.is_none()
    }

    /// Does something at the board, and tells those concerned what is decided by that.
    pub(super) fn decide(
        &mut self,
        now: Time,
        what: impl FnOnce(&mut Board, &Scene<'_>) -> Vec<Decided>,
    ) {
        let Groups {
            board,
            directory,
            settings,
            ..
        } = self;
        for decided in what(
            board,
            &Scene {
                directory,
                settings,
                now,
            },
        ) {
            self.carry_out(decided, now);
        }
    }

    fn carry_out(&mut self, decided: Decided, now: Time) {
        match decided {
            Decided::Outcome(servers, outcome) => {
                let to = servers.unwrap_or_else(|| self.servers.clone());
                for server in to {
                    self.hand(server, Message::Down(outcome.clone()), now);
                }
            }
            Decided::Refuse(to, key, operation, calls, failure) => {
                self.hand(
                    to,
                    Message::Refuse {
                        key,
                        operation,
                        calls,
                        failure,
                    },
                    now,
                );
            }
            Decided::Tell(procs, code, infos) => {
                let mut at: BTreeMap<ServerId, Vec<Proc>> = BTreeMap::new();
                for proc in procs {
                    if let Some(server) = self.directory.home(&proc.nspace) {
                        at.entry(server).or_default().push(proc);
                    }
                }
                for (server, procs) in at {
                    self.hand(
                        server,
                        Message::Tell {
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

    /// Gives a server a message. Ours comes when all that is decided now is on its way: what follows from it is decided later, and
    /// every server hears of both in that order.
    pub(super) fn hand(&mut self, to: ServerId, message: Message, now: Time) {
        if to == self.me {
            self.own.push_back((message, now));
        } else if self.servers.contains(&to) {
            self.send(to, message);
        }
    }

    pub(super) fn tell(&mut self, procs: Vec<Proc>, code: Status, infos: Vec<Info>) {
        self.steps.push(Step::Tell { procs, code, infos });
    }
}
