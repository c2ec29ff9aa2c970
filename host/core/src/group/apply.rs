//! Application of the coordinator's decisions on a server: waiting callers are answered, and
//! established groups are recorded.
use super::{
    DecisionSeq, DepartureReason, Formed, GroupAction, GroupCallResult, GroupDecision,
    GroupFailure, GroupKey, GroupName, GroupOperation, GroupTransition, Groups, Participation,
    established::LocalGroup,
    local_collectives::{CallSelection, LateCallers},
    message::about,
};
use crate::{MonotonicTime, quota::Quota, request_id::RequestId};
use peal_model::{Info, Proc, Value, code, key};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl GroupCallResult {
    /// Returns the result of a successful construct or connect.
    fn formed(key: &GroupKey, formed: Arc<Formed>) -> GroupCallResult {
        match key.name {
            GroupName::Called(_) => GroupCallResult::Formed(formed),
            GroupName::Connected(_) => GroupCallResult::Connected(formed),
        }
    }

    /// Returns the result of a failed operation.
    fn failed(key: &GroupKey, failure: GroupFailure) -> GroupCallResult {
        match (&key.name, failure.status) {
            (GroupName::Called(_), _) => GroupCallResult::Failed(failure),
            // A participant of a connect has ended.
            (GroupName::Connected(_), code::PMIX_GROUP_CONSTRUCT_ABORT) => {
                GroupCallResult::NotConnected(code::PMIX_ERR_LOST_CONNECTION)
            }
            (GroupName::Connected(_), status) => GroupCallResult::NotConnected(status),
        }
    }
}

impl Groups {
    /// Applies a decision and answers the local callers that wait for it.
    pub(super) fn apply(&mut self, outcome: GroupDecision, now: MonotonicTime) {
        let GroupDecision {
            key,
            instance,
            transition,
        } = &outcome;
        // A new coordinator sends some decisions of its predecessor again.
        let is_known = self
            .known
            .get(key)
            .is_some_and(|known| known.instance >= *instance);
        if is_known || self.recent_decisions.contains_key(instance) {
            return;
        }
        // A decision that is sent again after a takeover may be older than the last one.
        self.last_applied = self.last_applied.max(*instance);
        // Past decisions are kept for the next coordinator, and the coordinator itself never
        // reports to one.
        if !self.coordinates() {
            self.recent_decisions
                .insert(*instance, (now, outcome.clone()));
        }
        // A call that was made with knowledge of this decision belongs to a later operation.
        let before = |part: &Participation| part.after < *instance;
        let until = now + self.settings.result_retention;
        match transition {
            GroupTransition::Formed(formed) => {
                // Later callers meet the group, not the failures before it.
                self.collectives
                    .forget_failures(key, GroupOperation::Construct);
                let known = LocalGroup {
                    instance: *instance,
                    formed: formed.clone(),
                    former_members: BTreeSet::new(),
                    leaving: BTreeMap::new(),
                };
                self.forget(key);
                let is_here = known.members_at(self.me, &self.directory).next().is_some();
                if is_here {
                    // Values are stored before any caller is answered, because a get may follow the
                    // answer at once.
                    self.steps.push(GroupAction::Learn(formed.clone()));
                    self.known.insert(key.clone(), known);
                }
                for (to, part) in self
                    .collectives
                    .answered(key, GroupOperation::Construct, before)
                {
                    if part.refusal.is_none() && formed.members.contains(&part.proc) {
                        self.answer(to, GroupCallResult::formed(key, formed.clone()));
                    } else {
                        // To a caller outside of the group its name is taken, unless the caller was
                        // refused itself.
                        let failure = part
                            .refusal
                            .as_ref()
                            .map_or_else(|| GroupFailure::exists(key), GroupFailure::refused);
                        self.fail(key, GroupOperation::Construct, vec![(to, part)], &failure);
                    }
                }
            }
            GroupTransition::NotFormed {
                failure,
                late,
                called,
            } => {
                self.fail_at_host(key, GroupOperation::Construct, failure);
                let answered = self
                    .collectives
                    .answered(key, GroupOperation::Construct, |part| {
                        before(part) && transition.answers(part)
                    });
                // Each proc gets the failure once. Its next call is for another construct.
                let had: BTreeSet<Proc> = answered
                    .iter()
                    .map(|(_, part)| &part.proc)
                    .chain(called)
                    .cloned()
                    .collect();
                let awaited = late
                    .as_ref()
                    .map(|late| late.difference(&had).cloned().collect());
                let selection = match failure.refusal {
                    Some(_) => CallSelection::Concerned(transition.clone()),
                    None => CallSelection::Awaited(awaited),
                };
                let callers = LateCallers {
                    selection,
                    answered: had,
                };
                self.collectives.remember(
                    key,
                    GroupOperation::Construct,
                    failure.clone(),
                    callers,
                    until,
                );
                // Calls that remain belong to another operation. They wait for no local proc any
                // more, so `pass_all_on` sends them to the coordinator.
                self.collectives.disband(key, GroupOperation::Construct);
                self.fail(key, GroupOperation::Construct, answered, failure);
                self.pass_all_on(now);
            }
            GroupTransition::Dissolved => {
                // The last members of other nodes may have ended, so that no answer is needed.
                self.host_calls.abandon(key, GroupOperation::Destruct);
                self.forget(key);
                for (to, _) in self
                    .collectives
                    .answered(key, GroupOperation::Destruct, before)
                {
                    self.answer(to, GroupCallResult::Done);
                }
            }
            GroupTransition::NotDissolved(failure) => {
                self.fail_at_host(key, GroupOperation::Destruct, failure);
                let answered = self
                    .collectives
                    .answered(key, GroupOperation::Destruct, before);
                // A server without members has no late callers to remember the failure for.
                if let Some(known) = self.known.get_mut(key) {
                    // Marks the decision as applied, also where no call waited for it.
                    known.instance = *instance;
                    let had: BTreeSet<Proc> =
                        answered.iter().map(|(_, part)| part.proc.clone()).collect();
                    let members = known.members_at(self.me, &self.directory);
                    let awaited = Some(
                        members
                            .filter(|member| !had.contains(member))
                            .cloned()
                            .collect(),
                    );
                    let callers = LateCallers {
                        selection: CallSelection::Awaited(awaited),
                        answered: had,
                    };
                    self.collectives.remember(
                        key,
                        GroupOperation::Destruct,
                        failure.clone(),
                        callers,
                        until,
                    );
                }
                self.fail(key, GroupOperation::Destruct, answered, failure);
            }
            GroupTransition::Changed(proc, change) => {
                self.changed(key, *instance, proc, change, now)
            }
        }
    }

    fn changed(
        &mut self,
        key: &GroupKey,
        instance: DecisionSeq,
        proc: &Proc,
        change: &DepartureReason,
        now: MonotonicTime,
    ) {
        let Some(known) = self.known.get_mut(key) else {
            return;
        };
        known.instance = instance;
        known.former_members.insert(proc.clone());
        known.leaving.remove(proc);
        self.collectives.left(key, proc);
        let here: Vec<Proc> = known
            .members_at(self.me, &self.directory)
            .cloned()
            .collect();
        let telling = match (&key.name, change) {
            (GroupName::Called(_), DepartureReason::Left(_)) => Some(code::PMIX_GROUP_LEFT),
            // The end of a member is an event only where the construct requested it.
            (GroupName::Called(_), DepartureReason::Failed) => known
                .formed
                .notifies
                .then_some(code::PMIX_GROUP_MEMBER_FAILED),
            // A connect is no group to its procs, so no group event tells them of it.
            (GroupName::Connected(_), _) => None,
        };
        let infos = about(key, proc, known.members());
        if here.is_empty() {
            self.forget(key);
        } else if let Some(code) = telling {
            // The event of the member that left has notified these already.
            let was_notified = |member: &Proc| matches!(change, DepartureReason::Left(notified) if notified.contains(member));
            let unnotified: Vec<Proc> = here
                .into_iter()
                .filter(|member| !was_notified(member))
                .collect();
            if !unnotified.is_empty() {
                self.notify(unnotified, code, infos);
            }
        } else if let (GroupName::Connected(_), DepartureReason::Failed) = (&key.name, change) {
            // Procs of the same job are notified by the host environment.
            let others: Vec<Proc> = here
                .into_iter()
                .filter(|other| other.nspace != proc.nspace)
                .collect();
            let infos = vec![Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            )];
            if !others.is_empty() {
                self.notify(others, code::PMIX_ERR_PROC_TERM_WO_SYNC, infos);
            }
        }
        // A destruct may have waited for the call of the departed member only.
        self.pass_all_on(now);
    }

    /// Removes a group that has no local members any more or is replaced. Drops the data of jobs
    /// that share no group with this server any more.
    fn forget(&mut self, key: &GroupKey) {
        let estranged = self
            .known
            .remove(key)
            .map(|known| self.unshared_jobs(&known))
            .unwrap_or_default();
        if !estranged.is_empty() {
            self.steps.push(GroupAction::Forget(estranged));
        }
    }

    /// Answers waiting callers with a failure. If the reason is a refusal, an event with its
    /// details precedes the answer.
    pub(super) fn fail(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        waited: Vec<(RequestId, Participation)>,
        failure: &GroupFailure,
    ) {
        // Without callers on this server, none of its procs has to hear of the refusal.
        if let (Some(refusal), GroupOperation::Construct, false) =
            (&failure.refusal, operation, waited.is_empty())
        {
            let procs = waited.iter().map(|(_, part)| part.proc.clone()).collect();
            self.notify(
                procs,
                code::PMIX_GROUP_CONSTRUCT_ABORT,
                refusal.event_infos(key),
            );
        }
        for (to, _) in waited {
            if failure.is_full() {
                self.refusals.count(key.uid, Quota::Groups);
            }
            self.answer(to, GroupCallResult::failed(key, failure.clone()));
        }
    }
}
