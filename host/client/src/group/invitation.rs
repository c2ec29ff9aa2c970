//! An invitation as whoever leads sees it: who has answered, who does not come, and what is decided about those. It does nothing itself.
use super::{Absence, NotFormed, events::may_be_about};
use peal_model::{Event, Info, Infos, Proc, Value, code, key};
use std::collections::{BTreeMap, BTreeSet};

/// What follows where somebody does not come and nobody decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attendance {
    /// Nothing comes of it.
    Needed,
    /// The group is formed without them (`PMIX_GROUP_OPTIONAL`).
    Optional,
}

/// Whether somebody listens who may decide about those who do not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deciding {
    /// There is.
    Asked,
    /// There is not.
    Nobody,
}

/// What whoever leads has to do.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Todo {
    /// Invite these.
    Invite(Vec<Proc>),
    /// Tell our own handlers that this one does not come.
    Tell(Proc),
    /// Wait.
    Wait(Deciding),
    /// Announce the group, or that there is none.
    End(Result<Vec<Proc>, NotFormed>),
}

/// An invitation.
#[derive(Debug)]
pub(super) struct Invitation {
    me: Proc,
    group: String,
    attendance: Attendance,
    deciding: Deciding,
    /// Everybody who was ever invited, and who leads, in the order that members will have.
    invited: Vec<Proc>,
    /// Who is to be invited yet.
    to_invite: Vec<Proc>,
    /// Who has not answered.
    awaited: BTreeSet<Proc>,
    /// Who has accepted, and what came with that.
    accepted: BTreeMap<Proc, Vec<Info>>,
    /// Who does not come.
    absent: Vec<(Proc, Absence)>,
    /// Of how many of them our handlers have been told.
    told: usize,
    /// Of how many of them it is decided that the group is formed without them.
    passed_over: usize,
    called_off: bool,
}

impl Invitation {
    pub(super) fn new(
        me: Proc,
        group: &str,
        procs: Vec<Proc>,
        attendance: Attendance,
        deciding: Deciding,
    ) -> Invitation {
        let mut invitation = Invitation {
            accepted: [(me.clone(), Vec::new())].into(),
            me: me.clone(),
            group: group.to_owned(),
            attendance,
            deciding,
            invited: if procs.contains(&me) { Vec::new() } else { vec![me.clone()] },
            to_invite: Vec::new(),
            awaited: BTreeSet::new(),
            absent: Vec::new(),
            told: 0,
            passed_over: 0,
            called_off: false,
        };
        invitation.invite(procs);
        invitation
    }

    /// Invites these as well, each once.
    fn invite(&mut self, procs: Vec<Proc>) {
        for proc in procs {
            if !self.awaited.contains(&proc) && (proc == self.me || !self.accepted.contains_key(&proc)) {
                if !self.invited.contains(&proc) {
                    self.invited.push(proc.clone());
                }
                if proc != self.me {
                    self.to_invite.push(proc.clone());
                    self.awaited.insert(proc);
                }
            }
        }
    }

    /// An event has come.
    pub(super) fn see(&mut self, event: &Event) {
        if event.code == code::PMIX_PROC_TERMINATED {
            event.affected().iter().for_each(|proc| self.misses(proc, Absence::Ended));
            return;
        }
        let Some(source) = event.source.as_ref().filter(|_| may_be_about(event, &self.group)) else { return };
        match event.code {
            code::PMIX_GROUP_INVITE_ACCEPTED if self.awaited.remove(source) => {
                self.accepted.insert(source.clone(), event.infos.clone());
            }
            code::PMIX_GROUP_INVITE_DECLINED => self.misses(source, Absence::Declined),
            code::PMIX_GROUP_CONSTRUCT_ABORT if *source == self.me => self.called_off = true,
            code::PMIX_GROUP_MEMBERSHIP_UPDATE if *source == self.me => {
                self.passed_over = self.told;
                let others = event.infos.value_of(key::PMIX_GROUP_ADD_MEMBERS).and_then(Value::as_procs);
                self.invite(others.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn misses(&mut self, proc: &Proc, why: Absence) {
        if *proc != self.me && (self.awaited.remove(proc) || self.accepted.remove(proc).is_some()) {
            self.to_invite.retain(|other| other != proc);
            self.absent.push((proc.clone(), why));
        }
    }

    /// Time is over for those who have not answered, and for deciding about anybody.
    pub(super) fn is_late(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        self.absent.extend(awaited.into_iter().map(|proc| (proc, Absence::Silent)));
        self.deciding = Deciding::Nobody;
    }

    /// Nobody has decided in time about those who do not come.
    pub(super) fn is_undecided(&mut self) {
        match self.attendance {
            Attendance::Optional => self.passed_over = self.told,
            Attendance::Needed => self.deciding = Deciding::Nobody,
        }
    }

    /// What is to be done next.
    pub(super) fn next(&mut self) -> Todo {
        if self.called_off {
            return Todo::End(Err(NotFormed::CalledOff(self.me.clone())));
        }
        if !self.to_invite.is_empty() {
            return Todo::Invite(std::mem::take(&mut self.to_invite));
        }
        if let Some((proc, _)) = self.absent.get(self.told) {
            self.told += 1;
            return Todo::Tell(proc.clone());
        }
        if self.passed_over < self.absent.len() {
            match (self.deciding, self.attendance) {
                (Deciding::Asked, _) => return Todo::Wait(Deciding::Asked),
                (Deciding::Nobody, Attendance::Optional) => self.passed_over = self.absent.len(),
                (Deciding::Nobody, Attendance::Needed) => {
                    let unborne = self.absent.split_off(self.passed_over);
                    return Todo::End(Err(NotFormed::Absent(unborne)));
                }
            }
        }
        if !self.awaited.is_empty() {
            return Todo::Wait(Deciding::Nobody);
        }
        Todo::End(Ok(self.invited.iter().filter(|proc| self.accepted.contains_key(*proc)).cloned().collect()))
    }

    /// Everybody who was invited, and who leads.
    pub(super) fn everybody(&self) -> &[Proc] {
        &self.invited
    }

    /// What came with the acceptances.
    pub(super) fn brought(&self) -> Vec<Info> {
        let brought = self.accepted.values().flatten();
        let meant = [key::PMIX_GROUP_INFO, key::PMIX_PROC_INFO_ARRAY];
        brought.filter(|info| meant.iter().any(|key| info.key == *key)).cloned().collect()
    }
}
