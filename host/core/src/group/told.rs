//! What becomes here of what is decided: whoever waits for it is answered, and groups are known.
use super::{
    Answer, Change, Failure, Formed, GroupKey, GroupName, Groups, Instance, Operation, Outcome,
    Part, Refusal, Step, What,
    lobby::{Latecomers, Whom},
    message::about,
    standing::Known,
};
use crate::{Time, server::RequestId};
use peal_model::{Info, Proc, Value, code, key};
use std::{collections::BTreeSet, sync::Arc};

impl Answer {
    /// A group is there.
    fn formed(key: &GroupKey, formed: Arc<Formed>) -> Answer {
        match key.name {
            GroupName::Called(_) => Answer::Formed(formed),
            GroupName::Connected(_) => Answer::Connected(formed),
        }
    }

    /// Something came to nothing.
    fn failed(key: &GroupKey, failure: Failure) -> Answer {
        match (&key.name, failure.status) {
            (GroupName::Called(_), _) => Answer::Failed(failure),
            // Somebody has ended.
            (GroupName::Connected(_), code::PMIX_GROUP_CONSTRUCT_ABORT) => {
                Answer::NotConnected(code::PMIX_ERR_LOST_CONNECTION)
            }
            (GroupName::Connected(_), status) => Answer::NotConnected(status),
        }
    }
}

impl Groups {
    /// Something is decided: those who wait for it here are answered.
    pub(super) fn apply(&mut self, outcome: Outcome, now: Time) {
        let Outcome {
            key,
            instance,
            what,
        } = &outcome;
        // A coordinator that begins tells some of it again.
        let is_known = self
            .known
            .get(key)
            .is_some_and(|known| known.instance >= *instance);
        if is_known || self.past.contains_key(instance) {
            return;
        }
        self.seen = self.seen.max(*instance);
        // Nobody comes after who coordinates and wants to know of it.
        if !self.coordinates() {
            self.past.insert(*instance, (now, outcome.clone()));
        }
        let before = |part: &Part| part.after < *instance;
        let until = now + self.settings.result_retention;
        match what {
            What::Formed(formed) => {
                self.lobby.nobody_is_late(key, Operation::Construct);
                let known = Known {
                    instance: *instance,
                    formed: formed.clone(),
                    gone: BTreeSet::new(),
                };
                self.forget(key);
                let is_here = known.members_at(self.me, &self.directory).next().is_some();
                if is_here {
                    self.steps.push(Step::Learn(formed.clone()));
                    self.known.insert(key.clone(), known);
                }
                for (to, part) in self.lobby.answered(key, Operation::Construct, before) {
                    if part.refusal.is_none() && formed.members.contains(&part.proc) {
                        self.answer(to, Answer::formed(key, formed.clone()));
                    } else {
                        let failure = part
                            .refusal
                            .as_ref()
                            .map_or_else(|| Failure::exists(key), Refusal::failure);
                        self.fail(key, Operation::Construct, vec![(to, part)], &failure);
                    }
                }
            }
            What::NotFormed {
                failure,
                late,
                called,
            } => {
                let answered = self.lobby.answered(key, Operation::Construct, |part| {
                    before(part) && what.answers(part)
                });
                let had: BTreeSet<Proc> = answered
                    .iter()
                    .map(|(_, part)| &part.proc)
                    .chain(called)
                    .cloned()
                    .collect();
                let awaited = late
                    .as_ref()
                    .map(|late| late.difference(&had).cloned().collect());
                let whom = match failure.refusal {
                    Some(_) => Whom::Concerned(what.clone()),
                    None => Whom::Awaited(awaited),
                };
                let whom = Latecomers {
                    whom,
                    answered: had,
                };
                self.lobby
                    .remember(key, Operation::Construct, failure.clone(), whom, until);
                self.lobby.disband(key, Operation::Construct);
                self.fail(key, Operation::Construct, answered, failure);
                self.pass_all_on(now);
            }
            What::Dissolved => {
                self.forget(key);
                for (to, _) in self.lobby.answered(key, Operation::Destruct, before) {
                    self.answer(to, Answer::Done);
                }
            }
            What::NotDissolved(failure) => {
                let answered = self.lobby.answered(key, Operation::Destruct, before);
                if let Some(known) = self.known.get_mut(key) {
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
                    let whom = Latecomers {
                        whom: Whom::Awaited(awaited),
                        answered: had,
                    };
                    self.lobby
                        .remember(key, Operation::Destruct, failure.clone(), whom, until);
                }
                self.fail(key, Operation::Destruct, answered, failure);
            }
            What::Changed(proc, change) => self.changed(key, *instance, proc, change, now),
        }
    }

    fn changed(
        &mut self,
        key: &GroupKey,
        instance: Instance,
        proc: &Proc,
        change: &Change,
        now: Time,
    ) {
        let Some(known) = self.known.get_mut(key) else {
            return;
        };
        known.instance = instance;
        known.gone.insert(proc.clone());
        self.lobby.left(key, proc);
        let here: Vec<Proc> = known
            .members_at(self.me, &self.directory)
            .cloned()
            .collect();
        let telling = match (&key.name, change) {
            (GroupName::Called(_), Change::Left(_)) => Some(code::PMIX_GROUP_LEFT),
            (GroupName::Called(_), Change::Failed) => known
                .formed
                .notifies
                .then_some(code::PMIX_GROUP_MEMBER_FAILED),
            (GroupName::Connected(_), _) => None,
        };
        let infos = about(key, proc, known.members());
        if here.is_empty() {
            self.forget(key);
        } else if let Some(code) = telling {
            let hears_otherwise =
                |member: &Proc| matches!(change, Change::Left(notified) if notified.holds(member));
            let untold: Vec<Proc> = here
                .into_iter()
                .filter(|member| !hears_otherwise(member))
                .collect();
            if !untold.is_empty() {
                self.tell(untold, code, infos);
            }
        } else if let (GroupName::Connected(_), Change::Failed) = (&key.name, change) {
            // Those of its own job the host tells.
            let others: Vec<Proc> = here
                .into_iter()
                .filter(|other| other.nspace != proc.nspace)
                .collect();
            let infos = vec![Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            )];
            if !others.is_empty() {
                self.tell(others, code::PMIX_ERR_PROC_TERM_WO_SYNC, infos);
            }
        }
        // Who waited for them to call for its end does not any more.
        self.pass_all_on(now);
    }

    /// A group is not here any more, or another one instead.
    fn forget(&mut self, key: &GroupKey) {
        let estranged = self
            .known
            .remove(key)
            .map(|known| self.estranged(&known))
            .unwrap_or_default();
        if !estranged.is_empty() {
            self.steps.push(Step::Forget(estranged));
        }
    }

    /// Tells those who waited why it came to nothing; of a refusal they hear before they are answered.
    pub(super) fn fail(
        &mut self,
        key: &GroupKey,
        operation: Operation,
        waited: Vec<(RequestId, Part)>,
        failure: &Failure,
    ) {
        if let (Some(refusal), Operation::Construct, false) =
            (&failure.refusal, operation, waited.is_empty())
        {
            let procs = waited.iter().map(|(_, part)| part.proc.clone()).collect();
            self.tell(procs, code::PMIX_GROUP_CONSTRUCT_ABORT, refusal.told(key));
        }
        for (to, _) in waited {
            self.answer(to, Answer::failed(key, failure.clone()));
        }
    }
}
