//! Takeover after the loss of the coordinator. The next one collects reports of known decisions and
//! pending calls, and continues from there. A server that joins reports the same to the coordinator.
use super::{
    CoordinatorRequest, DecisionSeq, GroupDecision, GroupKey, GroupMessage, GroupTransition,
    Groups, ReportedJob, ServerId, TakeoverReport, coordinator_state::CoordinatorState,
    established::EstablishedGroup,
};
use crate::{MonotonicTime, message_refusal::MessageRefusal};
use peal_model::{NamedProcs, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a new coordinator that waits for reports.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Takeover {
    reports: BTreeMap<ServerId, TakeoverReport>,
}

impl Groups {
    /// Handles a server's report. It may arrive before this server knows that it coordinates.
    pub(super) fn reported(&mut self, from: ServerId, report: TakeoverReport, now: MonotonicTime) {
        if self.coordinates() {
            self.adopt(from, report, now);
        } else {
            self.collect(from, report, now);
        }
    }

    /// Keeps a server's report until all have come.
    fn collect(&mut self, from: ServerId, report: TakeoverReport, now: MonotonicTime) {
        self.takeover
            .get_or_insert_default()
            .reports
            .insert(from, report);
        self.take_over(now);
    }

    /// Sends a report to the next coordinator after the loss of the last one.
    pub(super) fn report(&mut self, now: MonotonicTime) {
        let jobs = self.directory.of(self.me).map(|(nspace, facts, ranks)| {
            let ended = self.directory.ended_of(&nspace, self.me);
            let job = ReportedJob {
                facts,
                ranks,
                ended,
            };
            (nspace, job)
        });
        let known = self.known.iter();
        let report = TakeoverReport {
            jobs: jobs.collect(),
            known: known
                .map(|(k, v)| {
                    (
                        k.clone(),
                        (v.instance, v.formed.clone(), v.former_members.clone()),
                    )
                })
                .collect(),
            recent_decisions: self
                .recent_decisions
                .values()
                .map(|(_, outcome)| outcome.clone())
                .collect(),
            open: self
                .collectives
                .open()
                .into_iter()
                // The clocks of servers differ, so durations are sent and no times.
                .map(|open| open.with_time_left(now))
                .collect(),
        };
        match self.coordinator() {
            me if me == self.me => self.collect(me, report, now),
            other => self.send(other, GroupMessage::Report(report)),
        }
        self.repeat_leaves(now);
    }

    /// Tells the next coordinator of leaves that the last one may not have decided.
    fn repeat_leaves(&mut self, now: MonotonicTime) {
        let leaves = self.known.iter().flat_map(|(key, known)| {
            let leaving = known.leaving.iter();
            leaving.map(|(proc, notified)| CoordinatorRequest::Leave {
                key: key.clone(),
                proc: proc.clone(),
                notified: notified.clone(),
            })
        });
        for leave in leaves.collect::<Vec<_>>() {
            self.up(leave, now);
        }
    }

    /// Reports to the coordinator of servers that this one has joined. Its decisions count from their
    /// beginning: this server has numbered its own ones while it was alone.
    pub(super) fn hand_over(&mut self) {
        self.state.reset();
        self.recent_decisions.clear();
        self.last_applied = DecisionSeq::default();
        self.collectives.forget_decisions();
        for known in self.known.values_mut() {
            known.instance = DecisionSeq::default();
        }
        // Also without groups and calls: a coordinator that takes over at this time waits for the reports of
        // all servers, and this one may never have known the lost coordinator.
        self.report(self.clock);
    }

    /// Takes over the groups and calls of a server that has joined. Of two groups with one name the
    /// coordinator's stays.
    fn adopt(&mut self, from: ServerId, report: TakeoverReport, now: MonotonicTime) {
        let TakeoverReport {
            jobs, known, open, ..
        } = report;
        self.end_reported(from, &jobs);
        for (key, (_, formed, gone)) in known {
            let members: NamedProcs = formed
                .members
                .iter()
                .filter(|member| !gone.contains(member))
                .cloned()
                .collect();
            // A server is believed only about itself.
            let is_own = |proc: &Proc| self.directory.server_of(proc) == Some(from);
            if let Some(foreign) = members.iter().find(|proc| !is_own(proc)) {
                self.refuse_message(from, MessageRefusal::ForeignProc(foreign.clone()));
            } else if self.state.has(&key) {
                let members: Vec<Proc> = members.iter().cloned().collect();
                self.decide(now, |board, at| board.dissolve_at(from, &key, &members, at));
            } else {
                let standing = EstablishedGroup::new(DecisionSeq::default(), members);
                self.state.inherit(key, standing);
            }
        }
        self.decide(now, CoordinatorState::remove_ended_members);
        for open in open {
            match self.check_contribution(from, &open) {
                Ok(()) => self.decide(now, |board, at| board.contribute(from, open, at)),
                Err(refusal) => self.refuse_message(from, refusal),
            }
        }
    }

    /// Marks the procs as ended that a server reports as such.
    fn end_reported(&mut self, from: ServerId, jobs: &BTreeMap<Nspace, ReportedJob>) {
        for (nspace, job) in jobs {
            // What the server may not claim was refused when it announced the job.
            if self
                .directory
                .claim(nspace, from, job.facts, &job.ranks)
                .is_err()
            {
                continue;
            }
            for rank in job.ended.iter().filter(|rank| job.ranks.contains(**rank)) {
                self.directory.end(&Proc::new(nspace.clone(), *rank));
            }
        }
    }

    /// Continues as coordinator once all remaining servers have reported.
    pub(super) fn take_over(&mut self, now: MonotonicTime) {
        let all = self.coordinator() == self.me
            && self.takeover.as_ref().is_some_and(|takeover| {
                self.servers
                    .iter()
                    .all(|server| takeover.reports.contains_key(server))
            });
        if !all {
            return;
        }
        let Some(Takeover { mut reports }) = self.takeover.take() else {
            return;
        };
        // A server may be lost after its report. Its jobs and calls must not return with it.
        reports.retain(|server, _| self.servers.contains(server));
        // Decisions of the lost coordinator come from the reports.
        self.state.reset();
        for (server, report) in &reports {
            self.end_reported(*server, &report.jobs);
        }
        let past = all_past(&reports);
        for (key, standing) in standing(&reports, &past) {
            self.state.inherit(key, standing);
        }
        // Old decisions precede new ones, so that each server applies both in their order.
        self.resend_decisions(&reports, &past, now);
        self.decide(now, CoordinatorState::remove_ended_members);
        for (server, report) in reports {
            for open in report.open {
                self.decide(now, |board, at| board.contribute(server, open, at));
            }
        }
        // A server sends its report before other requests, so the calls in the reports come first.
        for (from, message) in std::mem::take(&mut self.early) {
            self.coordinate(from, message, now);
        }
    }

    /// Sends known decisions again to servers that missed them: those about groups that they have
    /// or wait for, and those for all servers.
    fn resend_decisions(
        &mut self,
        reports: &BTreeMap<ServerId, TakeoverReport>,
        past: &BTreeMap<DecisionSeq, GroupDecision>,
        now: MonotonicTime,
    ) {
        for (server, report) in reports {
            let concerned: BTreeSet<&GroupKey> = report
                .open
                .iter()
                .map(|open| &open.key)
                .chain(report.known.keys())
                .collect();
            let had: BTreeSet<DecisionSeq> = report
                .recent_decisions
                .iter()
                .map(|outcome| outcome.instance)
                .collect();
            let concerns = |outcome: &&GroupDecision| {
                outcome.transition.is_for_all() || concerned.contains(&outcome.key)
            };
            for outcome in past.values().filter(concerns) {
                // Also where the server has it: the lost coordinator recorded all that it had sent.
                self.state.record_sent(
                    outcome,
                    Some(&[*server].into()),
                    now + self.settings.sent_retention(),
                );
                if !had.contains(&outcome.instance) {
                    self.hand(*server, GroupMessage::Down(outcome.clone()), now);
                }
            }
        }
    }
}

/// Returns all decisions that any server knows, in their order.
fn all_past(reports: &BTreeMap<ServerId, TakeoverReport>) -> BTreeMap<DecisionSeq, GroupDecision> {
    let all = reports.values().flat_map(|report| &report.recent_decisions);
    all.map(|outcome| (outcome.instance, outcome.clone()))
        .collect()
}

/// Returns the established groups: the latest known state of each, with the decisions since.
fn standing(
    reports: &BTreeMap<ServerId, TakeoverReport>,
    past: &BTreeMap<DecisionSeq, GroupDecision>,
) -> BTreeMap<GroupKey, EstablishedGroup> {
    let mut groups: BTreeMap<GroupKey, EstablishedGroup> = BTreeMap::new();
    for (key, (instance, formed, gone)) in reports.values().flat_map(|report| &report.known) {
        let left = formed
            .members
            .iter()
            .filter(|member| !gone.contains(member))
            .cloned();
        let known = EstablishedGroup::new(*instance, left.collect());
        match groups.get(key) {
            Some(other) if other.instance >= known.instance => {}
            _ => drop(groups.insert(key.clone(), known)),
        }
    }
    // Decisions are sorted, so each is applied to the state that the ones before it left.
    for (
        instance,
        GroupDecision {
            key, transition, ..
        },
    ) in past
    {
        if groups
            .get(key)
            .is_some_and(|known| known.instance >= *instance)
        {
            continue;
        }
        match transition {
            GroupTransition::Formed(formed) => {
                groups.insert(
                    key.clone(),
                    EstablishedGroup::new(*instance, formed.members.named().clone()),
                );
            }
            // A construct can fail only where no established group has its name.
            GroupTransition::NotFormed { .. } | GroupTransition::Dissolved => {
                drop(groups.remove(key))
            }
            // The group stays as it was, since only its destruct has failed.
            GroupTransition::NotDissolved(_) => {
                groups
                    .entry(key.clone())
                    .and_modify(|known| known.instance = *instance);
            }
            GroupTransition::Changed(proc, _) => {
                groups.entry(key.clone()).and_modify(|known| {
                    known.instance = *instance;
                    known.members.check_off(proc);
                });
            }
        }
    }
    // An empty group could not be destructed, and its name would stay taken.
    groups.retain(|_, standing| !standing.members.is_empty());
    groups
}
