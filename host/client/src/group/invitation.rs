//! An invitation as whoever leads sees it: who has answered, who does not come, and what is decided about those. It does nothing itself.
use super::{Absence, NotFormed, contribution, events::may_be_about};
use peal_model::{Event, Info, Infos, Proc, Range, Value, code, key};
use std::collections::{BTreeMap, BTreeSet};

/// What follows where somebody does not come and nobody decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AbsenceRule {
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
    attendance: AbsenceRule,
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
    /// Who has accepted when they were no longer awaited.
    late: BTreeSet<Proc>,
}

impl Invitation {
    pub(super) fn new(
        me: Proc,
        group: &str,
        procs: Vec<Proc>,
        attendance: AbsenceRule,
        deciding: Deciding,
    ) -> Invitation {
        let mut invitation = Invitation {
            accepted: [(me.clone(), Vec::new())].into(),
            me: me.clone(),
            group: group.to_owned(),
            attendance,
            deciding,
            invited: if procs.contains(&me) {
                Vec::new()
            } else {
                vec![me.clone()]
            },
            to_invite: Vec::new(),
            awaited: BTreeSet::new(),
            absent: Vec::new(),
            told: 0,
            passed_over: 0,
            called_off: false,
            late: BTreeSet::new(),
        };
        invitation.invite(procs);
        invitation
    }

    /// Invites these as well, each once.
    fn invite(&mut self, procs: Vec<Proc>) {
        for proc in procs {
            if !self.awaited.contains(&proc)
                && (proc == self.me || !self.accepted.contains_key(&proc))
            {
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
            event
                .affected()
                .iter()
                .for_each(|proc| self.misses(proc, Absence::Ended));
            return;
        }
        let Some(source) = event
            .source
            .as_ref()
            .filter(|_| may_be_about(event, &self.group))
        else {
            return;
        };
        // What others are told as well may be of an earlier invitation to a group of that name.
        let decides = *source == self.me && event.range == Range::ProcLocal;
        match event.code {
            code::PMIX_GROUP_INVITE_ACCEPTED if self.awaited.remove(source) => {
                self.accepted
                    .insert(source.clone(), contribution::by(source, &event.infos));
            }
            code::PMIX_GROUP_INVITE_ACCEPTED
                if self.invited.contains(source) && !self.accepted.contains_key(source) =>
            {
                self.late.insert(source.clone());
            }
            code::PMIX_GROUP_INVITE_DECLINED => self.misses(source, Absence::Declined),
            code::PMIX_GROUP_CONSTRUCT_ABORT if decides => self.called_off = true,
            code::PMIX_GROUP_MEMBERSHIP_UPDATE if decides => {
                self.passed_over = self.told;
                let others = event
                    .infos
                    .value_of(key::PMIX_GROUP_ADD_MEMBERS)
                    .and_then(Value::as_procs);
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
        self.absent
            .extend(awaited.into_iter().map(|proc| (proc, Absence::Silent)));
        self.deciding = Deciding::Nobody;
    }

    /// Nobody has decided in time about those who do not come.
    pub(super) fn is_undecided(&mut self) {
        match self.attendance {
            AbsenceRule::Optional => self.passed_over = self.told,
            AbsenceRule::Needed => self.deciding = Deciding::Nobody,
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
                (Deciding::Nobody, AbsenceRule::Optional) => self.passed_over = self.absent.len(),
                (Deciding::Nobody, AbsenceRule::Needed) => {
                    let unborne = self.absent.split_off(self.passed_over);
                    return Todo::End(Err(NotFormed::Absent(unborne)));
                }
            }
        }
        if !self.awaited.is_empty() {
            return Todo::Wait(Deciding::Nobody);
        }
        Todo::End(Ok(self
            .invited
            .iter()
            .filter(|proc| self.accepted.contains_key(*proc))
            .cloned()
            .collect()))
    }

    /// Everybody who was invited, and who leads.
    pub(super) fn everybody(&self) -> &[Proc] {
        &self.invited
    }

    /// Who has accepted too late, and waits for what becomes of it.
    pub(super) fn late(&self) -> Vec<Proc> {
        self.late
            .iter()
            .filter(|proc| !self.accepted.contains_key(*proc))
            .cloned()
            .collect()
    }

    /// What came with the acceptances.
    pub(super) fn brought(&self) -> Vec<Info> {
        self.accepted.values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{AbsenceDecision, Invited};
    use peal_model::{Nspace, Rank, Status};

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn event(source: u32, (code, infos): (Status, Vec<Info>)) -> Event {
        Event {
            code,
            source: Some(proc(source)),
            range: Range::Custom,
            infos,
        }
    }

    fn answer(source: u32, group: &str, code: Status) -> Event {
        let invited = Invited {
            group: group.to_owned(),
            leader: proc(0),
            said: Vec::new(),
        };
        event(source, (code, invited.acceptance().1))
    }

    fn accepts(source: u32) -> Event {
        answer(source, "crew", code::PMIX_GROUP_INVITE_ACCEPTED)
    }

    fn declines(source: u32) -> Event {
        answer(source, "crew", code::PMIX_GROUP_INVITE_DECLINED)
    }

    fn ends(rank: u32) -> Event {
        let infos = vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(proc(rank)),
        )];
        Event {
            code: code::PMIX_PROC_TERMINATED,
            source: None,
            range: Range::Session,
            infos,
        }
    }

    /// Rank 0 has invited ranks 1 and 2.
    fn invited(attendance: AbsenceRule, deciding: Deciding) -> Invitation {
        let mut invitation = Invitation::new(
            proc(0),
            "crew",
            vec![proc(2), proc(1), proc(2)],
            attendance,
            deciding,
        );
        assert_eq!(
            invitation.next(),
            Todo::Invite(vec![proc(2), proc(1)]),
            "each once"
        );
        assert_eq!(invitation.next(), Todo::Wait(Deciding::Nobody));
        invitation
    }

    fn see(invitation: &mut Invitation, events: impl IntoIterator<Item = Event>) -> Todo {
        events.into_iter().for_each(|event| invitation.see(&event));
        invitation.next()
    }

    #[test]
    fn invitation_ends_with_all_answers_in_order_of_invitation() {
        let mut invitation = invited(AbsenceRule::Needed, Deciding::Nobody);
        let others = [
            answer(1, "other", code::PMIX_GROUP_INVITE_ACCEPTED),
            accepts(7),
            declines(0),
            ends(9),
        ];
        assert_eq!(
            see(&mut invitation, others),
            Todo::Wait(Deciding::Nobody),
            "not meant, or not asked"
        );
        // Early releases do not name the group.
        let mut unnamed = accepts(1);
        unnamed.infos.retain(|info| info.key != key::PMIX_GROUP_ID);
        assert_eq!(
            see(&mut invitation, [unnamed]),
            Todo::Wait(Deciding::Nobody)
        );
        assert_eq!(
            see(&mut invitation, [accepts(2)]),
            Todo::End(Ok(vec![proc(0), proc(2), proc(1)]))
        );
    }

    #[test]
    fn missing_required_member_ends_invitation() {
        let mut needed = invited(AbsenceRule::Needed, Deciding::Nobody);
        assert_eq!(
            see(&mut needed, [accepts(1), ends(1)]),
            Todo::Tell(proc(1)),
            "who accepted may end, too"
        );
        assert_eq!(
            needed.next(),
            Todo::End(Err(NotFormed::Absent(vec![(proc(1), Absence::Ended)])))
        );

        let mut optional = invited(AbsenceRule::Optional, Deciding::Nobody);
        assert_eq!(see(&mut optional, [declines(1)]), Todo::Tell(proc(1)));
        assert_eq!(
            optional.next(),
            Todo::Wait(Deciding::Nobody),
            "there is somebody else"
        );
        optional.is_late();
        assert_eq!(see(&mut optional, [accepts(2)]), Todo::Tell(proc(2)));
        assert_eq!(optional.next(), Todo::End(Ok(vec![proc(0)])));
        assert_eq!(optional.late(), [proc(2)], "they are to be told");
    }

    #[test]
    fn leader_asked_about_absence_continues_replaces_or_cancels() {
        let decided = |decision: AbsenceDecision| {
            let mut invitation = invited(AbsenceRule::Needed, Deciding::Asked);
            assert_eq!(
                see(&mut invitation, [accepts(2), declines(1)]),
                Todo::Tell(proc(1))
            );
            assert_eq!(invitation.next(), Todo::Wait(Deciding::Asked));
            // Nobody else decides, and what all are told is no decision.
            let no_decisions = [
                Event {
                    range: Range::ProcLocal,
                    ..event(2, decision.event("crew"))
                },
                event(0, decision.event("crew")),
            ];
            assert_eq!(
                see(&mut invitation, no_decisions),
                Todo::Wait(Deciding::Asked)
            );
            let todo = see(
                &mut invitation,
                [Event {
                    range: Range::ProcLocal,
                    ..event(0, decision.event("crew"))
                }],
            );
            (invitation, todo)
        };
        assert_eq!(
            decided(AbsenceDecision::GoOn).1,
            Todo::End(Ok(vec![proc(0), proc(2)]))
        );
        assert_eq!(
            decided(AbsenceDecision::CallOff).1,
            Todo::End(Err(NotFormed::CalledOff(proc(0))))
        );
        let (mut invitation, todo) = decided(AbsenceDecision::Replace(vec![proc(3), proc(2)]));
        assert_eq!(todo, Todo::Invite(vec![proc(3)]), "2 has accepted");
        assert_eq!(
            see(&mut invitation, [accepts(3)]),
            Todo::End(Ok(vec![proc(0), proc(2), proc(3)]))
        );
    }

    #[test]
    fn a_decision_that_does_not_come_is_the_default() {
        let undecided = |attendance| {
            let mut invitation = invited(attendance, Deciding::Asked);
            see(&mut invitation, [accepts(2), declines(1)]);
            assert_eq!(invitation.next(), Todo::Wait(Deciding::Asked));
            invitation.is_undecided();
            invitation.next()
        };
        assert_eq!(
            undecided(AbsenceRule::Optional),
            Todo::End(Ok(vec![proc(0), proc(2)]))
        );
        let absent = vec![(proc(1), Absence::Declined)];
        assert_eq!(
            undecided(AbsenceRule::Needed),
            Todo::End(Err(NotFormed::Absent(absent)))
        );
    }

    #[test]
    fn infos_of_members_are_collected_without_other_answer_data() {
        let mut invitation = invited(AbsenceRule::Needed, Deciding::Nobody);
        let said = |whose| {
            contribution::said(
                &proc(whose),
                vec![Info::new(key::PMIX_GROUP_LOCAL_CID, Value::Size(5))],
            )
        };
        let mut accepted = accepts(1);
        accepted.infos.extend(said(1).into_iter().chain(said(2)));
        invitation.see(&accepted);
        assert_eq!(
            invitation.brought(),
            [said(1).unwrap()],
            "nobody speaks for another"
        );
    }
}
