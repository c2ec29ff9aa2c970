//! State of an invitation at its leader: answers, absent procs, and decisions about these. It
//! performs no input or output.
use super::{Absence, NotFormed, contribution, events::may_be_about};
use peal_model::{Event, Info, Infos, Proc, Range, Value, code, key};
use std::collections::{BTreeMap, BTreeSet};

/// Default if an invited proc does not join and no handler decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AbsenceRule {
    /// The group is not formed.
    Needed,
    /// The group is formed without that proc (`PMIX_GROUP_OPTIONAL`).
    Optional,
}

/// Presence of a handler that may decide about absent procs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DecisionHandler {
    /// There is one.
    Present,
    /// There is none.
    Absent,
}

/// Next step of the leader.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum LeaderStep {
    /// Invite these procs.
    Invite(Vec<Proc>),
    /// Notify the leader's own handlers that this proc does not join.
    NotifyAbsence(Proc),
    /// Wait for events.
    Wait(DecisionHandler),
    /// Announce the group, or that it was not formed.
    End(Result<Vec<Proc>, NotFormed>),
}

/// Progress of an invitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InvitationProgress {
    /// It has no result.
    Open,
    /// The group is announced.
    Announced,
    /// The leader finalizes, and aborts it.
    Abandoned,
}

/// Invitation that its leader does not bring to an end.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Abandoned {
    pub(super) group: String,
    /// All procs that were ever invited.
    pub(super) invited: Vec<Proc>,
}

/// Invitation to a group.
#[derive(Debug)]
pub(super) struct Invitation {
    me: Proc,
    group: String,
    attendance: AbsenceRule,
    deciding: DecisionHandler,
    /// All procs that were ever invited, and the leader, in the order of the members.
    invited: Vec<Proc>,
    /// Procs that are still to be invited.
    to_invite: Vec<Proc>,
    /// Procs that have not answered.
    awaited: BTreeSet<Proc>,
    /// Procs that have accepted, and the infos of their answers.
    accepted: BTreeMap<Proc, Vec<Info>>,
    /// Procs that do not join.
    absent: Vec<(Proc, Absence)>,
    /// Number of absent procs that were reported to the handlers.
    notified: usize,
    /// Number of absent procs without which the group is formed by decision.
    passed_over: usize,
    called_off: bool,
    progress: InvitationProgress,
    /// Procs that accepted after they were no longer awaited.
    late: BTreeSet<Proc>,
}

impl Invitation {
    pub(super) fn new(
        me: Proc,
        group: &str,
        procs: Vec<Proc>,
        attendance: AbsenceRule,
        deciding: DecisionHandler,
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
            notified: 0,
            passed_over: 0,
            called_off: false,
            progress: InvitationProgress::Open,
            late: BTreeSet::new(),
        };
        invitation.invite(procs);
        invitation
    }

    /// Adds procs to the invitation, each once.
    fn invite(&mut self, procs: Vec<Proc>) {
        for proc in procs {
            // The leader counts as accepted from the start, but takes its place among the invited
            // all the same. An absent proc can be invited again.
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

    /// Updates the invitation by an event.
    pub(super) fn see(&mut self, event: &Event) {
        // This event names no group, and names the proc as affected instead of as its source.
        if event.code == code::PMIX_PROC_TERMINATED {
            event
                .affected()
                .iter()
                .for_each(|proc| self.mark_absent(proc, Absence::Ended));
            return;
        }
        let Some(source) = event
            .source
            .as_ref()
            .filter(|_| may_be_about(event, &self.group))
        else {
            return;
        };
        // An event that other procs receive too may belong to an earlier invitation to a group of
        // that name.
        let decides = *source == self.me && event.range == Range::ProcLocal;
        match event.code {
            code::PMIX_GROUP_INVITE_ACCEPTED if self.awaited.remove(source) => {
                self.accepted
                    .insert(source.clone(), contribution::owned_by(source, &event.infos));
            }
            code::PMIX_GROUP_INVITE_ACCEPTED
                if self.invited.contains(source) && !self.accepted.contains_key(source) =>
            {
                self.late.insert(source.clone());
            }
            code::PMIX_GROUP_INVITE_DECLINED => self.mark_absent(source, Absence::Declined),
            code::PMIX_GROUP_CONSTRUCT_ABORT if decides => self.called_off = true,
            code::PMIX_GROUP_MEMBERSHIP_UPDATE if decides => {
                // The decision covers the absent procs that the handlers know of, and none that
                // came later.
                self.passed_over = self.notified;
                let others = event
                    .infos
                    .value_of(key::PMIX_GROUP_ADD_MEMBERS)
                    .and_then(Value::as_procs);
                self.invite(others.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn mark_absent(&mut self, proc: &Proc, why: Absence) {
        // A proc may end or decline after it has accepted.
        if *proc != self.me && (self.awaited.remove(proc) || self.accepted.remove(proc).is_some()) {
            self.to_invite.retain(|other| other != proc);
            self.absent.push((proc.clone(), why));
        }
    }

    /// Marks procs that have not answered as silent, and ends the time for decisions.
    pub(super) fn expire_answers(&mut self) {
        let awaited = std::mem::take(&mut self.awaited);
        self.absent
            .extend(awaited.into_iter().map(|proc| (proc, Absence::Silent)));
        self.deciding = DecisionHandler::Absent;
    }

    /// Applies the default to absent procs: no handler has decided in time.
    pub(super) fn expire_decision(&mut self) {
        match self.attendance {
            AbsenceRule::Optional => self.passed_over = self.notified,
            AbsenceRule::Needed => self.deciding = DecisionHandler::Absent,
        }
    }

    /// Returns the next step of the leader.
    pub(super) fn next(&mut self) -> LeaderStep {
        if self.called_off {
            return LeaderStep::End(Err(NotFormed::CalledOff(self.me.clone())));
        }
        if !self.to_invite.is_empty() {
            return LeaderStep::Invite(std::mem::take(&mut self.to_invite));
        }
        if let Some((proc, _)) = self.absent.get(self.notified) {
            self.notified += 1;
            return LeaderStep::NotifyAbsence(proc.clone());
        }
        if self.passed_over < self.absent.len() {
            match (self.deciding, self.attendance) {
                (DecisionHandler::Present, _) => return LeaderStep::Wait(DecisionHandler::Present),
                (DecisionHandler::Absent, AbsenceRule::Optional) => {
                    self.passed_over = self.absent.len()
                }
                (DecisionHandler::Absent, AbsenceRule::Needed) => {
                    let unborne = self.absent.split_off(self.passed_over);
                    return LeaderStep::End(Err(NotFormed::Absent(unborne)));
                }
            }
        }
        if !self.awaited.is_empty() {
            return LeaderStep::Wait(DecisionHandler::Absent);
        }
        LeaderStep::End(Ok(self
            .invited
            .iter()
            .filter(|proc| self.accepted.contains_key(*proc))
            .cloned()
            .collect()))
    }

    /// Returns all procs that were invited, and the leader.
    pub(super) fn all_invited(&self) -> &[Proc] {
        &self.invited
    }

    /// Notes that the group is announced.
    pub(super) fn conclude(&mut self) {
        self.progress = InvitationProgress::Announced;
    }

    /// Ends an open invitation without a result. Returns what is to be aborted, if anything is.
    pub(super) fn abandon(&mut self) -> Option<Abandoned> {
        if self.progress != InvitationProgress::Open {
            return None;
        }
        self.progress = InvitationProgress::Abandoned;
        let others = self.invited.iter().filter(|proc| **proc != self.me);
        Some(Abandoned {
            group: self.group.clone(),
            invited: others.cloned().collect(),
        })
    }

    /// Reports whether the leader has abandoned the invitation.
    pub(super) fn is_abandoned(&self) -> bool {
        self.progress == InvitationProgress::Abandoned
    }

    /// Returns the procs that accepted too late and wait for the result.
    pub(super) fn late(&self) -> Vec<Proc> {
        self.late
            .iter()
            .filter(|proc| !self.accepted.contains_key(*proc))
            .cloned()
            .collect()
    }

    /// Returns the infos of all acceptances.
    pub(super) fn contributions(&self) -> Vec<Info> {
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
            leader_infos: Vec::new(),
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

    /// Returns an invitation of rank 0 to ranks 1 and 2.
    fn invited(attendance: AbsenceRule, deciding: DecisionHandler) -> Invitation {
        let mut invitation = Invitation::new(
            proc(0),
            "crew",
            vec![proc(2), proc(1), proc(2)],
            attendance,
            deciding,
        );
        assert_eq!(
            invitation.next(),
            LeaderStep::Invite(vec![proc(2), proc(1)]),
            "each once"
        );
        assert_eq!(invitation.next(), LeaderStep::Wait(DecisionHandler::Absent));
        invitation
    }

    fn see(invitation: &mut Invitation, events: impl IntoIterator<Item = Event>) -> LeaderStep {
        events.into_iter().for_each(|event| invitation.see(&event));
        invitation.next()
    }

    #[test]
    fn invitation_ends_with_all_answers_in_order_of_invitation() {
        let mut invitation = invited(AbsenceRule::Needed, DecisionHandler::Absent);
        let others = [
            answer(1, "other", code::PMIX_GROUP_INVITE_ACCEPTED),
            accepts(7),
            declines(0),
            ends(9),
        ];
        assert_eq!(
            see(&mut invitation, others),
            LeaderStep::Wait(DecisionHandler::Absent),
            "not meant, or not asked"
        );
        // Early releases do not name the group.
        let mut unnamed = accepts(1);
        unnamed.infos.retain(|info| info.key != key::PMIX_GROUP_ID);
        assert_eq!(
            see(&mut invitation, [unnamed]),
            LeaderStep::Wait(DecisionHandler::Absent)
        );
        assert_eq!(
            see(&mut invitation, [accepts(2)]),
            LeaderStep::End(Ok(vec![proc(0), proc(2), proc(1)]))
        );
    }

    #[test]
    fn missing_required_member_ends_invitation() {
        let mut needed = invited(AbsenceRule::Needed, DecisionHandler::Absent);
        assert_eq!(
            see(&mut needed, [accepts(1), ends(1)]),
            LeaderStep::NotifyAbsence(proc(1)),
            "who accepted may end, too"
        );
        assert_eq!(
            needed.next(),
            LeaderStep::End(Err(NotFormed::Absent(vec![(proc(1), Absence::Ended)])))
        );

        let mut optional = invited(AbsenceRule::Optional, DecisionHandler::Absent);
        assert_eq!(
            see(&mut optional, [declines(1)]),
            LeaderStep::NotifyAbsence(proc(1))
        );
        assert_eq!(
            optional.next(),
            LeaderStep::Wait(DecisionHandler::Absent),
            "there is somebody else"
        );
        optional.expire_answers();
        assert_eq!(
            see(&mut optional, [accepts(2)]),
            LeaderStep::NotifyAbsence(proc(2))
        );
        assert_eq!(optional.next(), LeaderStep::End(Ok(vec![proc(0)])));
        assert_eq!(optional.late(), [proc(2)], "they are to be told");
    }

    #[test]
    fn leader_continues_replaces_or_cancels_after_absence() {
        let decided = |decision: AbsenceDecision| {
            let mut invitation = invited(AbsenceRule::Needed, DecisionHandler::Present);
            assert_eq!(
                see(&mut invitation, [accepts(2), declines(1)]),
                LeaderStep::NotifyAbsence(proc(1))
            );
            assert_eq!(
                invitation.next(),
                LeaderStep::Wait(DecisionHandler::Present)
            );
            // Another proc cannot decide, and an event to other procs is not a decision.
            let no_decisions = [
                Event {
                    range: Range::ProcLocal,
                    ..event(2, decision.event("crew"))
                },
                event(0, decision.event("crew")),
            ];
            assert_eq!(
                see(&mut invitation, no_decisions),
                LeaderStep::Wait(DecisionHandler::Present)
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
            LeaderStep::End(Ok(vec![proc(0), proc(2)]))
        );
        assert_eq!(
            decided(AbsenceDecision::CallOff).1,
            LeaderStep::End(Err(NotFormed::CalledOff(proc(0))))
        );
        let (mut invitation, todo) = decided(AbsenceDecision::Replace(vec![proc(3), proc(2)]));
        assert_eq!(todo, LeaderStep::Invite(vec![proc(3)]), "2 has accepted");
        assert_eq!(
            see(&mut invitation, [accepts(3)]),
            LeaderStep::End(Ok(vec![proc(0), proc(2), proc(3)]))
        );
    }

    #[test]
    fn open_invitation_is_abandoned_once_and_announced_one_never() {
        let mut open = invited(AbsenceRule::Needed, DecisionHandler::Absent);
        let others = Abandoned {
            group: "crew".to_owned(),
            invited: vec![proc(2), proc(1)],
        };
        assert_eq!(open.abandon(), Some(others));
        assert!(open.is_abandoned());
        assert_eq!(open.abandon(), None);

        let mut announced = invited(AbsenceRule::Needed, DecisionHandler::Absent);
        announced.conclude();
        assert_eq!(announced.abandon(), None);
        assert!(!announced.is_abandoned());
    }

    #[test]
    fn a_decision_that_does_not_come_is_the_default() {
        let undecided = |attendance| {
            let mut invitation = invited(attendance, DecisionHandler::Present);
            see(&mut invitation, [accepts(2), declines(1)]);
            assert_eq!(
                invitation.next(),
                LeaderStep::Wait(DecisionHandler::Present)
            );
            invitation.expire_decision();
            invitation.next()
        };
        assert_eq!(
            undecided(AbsenceRule::Optional),
            LeaderStep::End(Ok(vec![proc(0), proc(2)]))
        );
        let absent = vec![(proc(1), Absence::Declined)];
        assert_eq!(
            undecided(AbsenceRule::Needed),
            LeaderStep::End(Err(NotFormed::Absent(absent)))
        );
    }

    #[test]
    fn infos_of_members_are_collected_without_other_answer_data() {
        let mut invitation = invited(AbsenceRule::Needed, DecisionHandler::Absent);
        let infos_of = |whose| {
            contribution::info_array(
                &proc(whose),
                vec![Info::new(key::PMIX_GROUP_LOCAL_CID, Value::Size(5))],
            )
        };
        let mut accepted = accepts(1);
        accepted
            .infos
            .extend(infos_of(1).into_iter().chain(infos_of(2)));
        invitation.see(&accepted);
        assert_eq!(
            invitation.contributions(),
            [infos_of(1).unwrap()],
            "nobody speaks for another"
        );
    }
}
