//! Groups with members on nodes that only the host environment reaches. When all local participants
//! have called, the host environment is asked; its answer brings the participants of other nodes,
//! which this server's own coordinator then counts like callers.
//!
//! A server that has met others asks no host environment: the servers of the other nodes bring the
//! participants. Some of them may not have announced their procs yet, which a construct waits for.
use super::{
    ConstructRequest, Contribution, CoordinatorRequest, GroupAction, GroupFailure, GroupKey,
    GroupMessage, GroupOperation, Groups, JobSummary, Participation, forming::AnswerOfHost,
    host_calls::CallStage,
};
use crate::{MonotonicTime, rank_ranges::RankRanges};
use peal_model::{Info, NamedProcs, Nspace, Proc, RankData, Status, code};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Contribution of one participant for those of other nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeParticipant {
    /// The participant.
    pub proc: Proc,
    /// Infos for the other members (`PMIX_GROUP_INFO`).
    pub infos: Vec<Info>,
    /// The values that it has put for procs of other nodes.
    pub data: Option<RankData>,
}

/// The reason for which an operation has failed on a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeFailure {
    /// The status.
    pub status: Status,
    /// The reason, as text.
    pub reason: String,
}

/// Contribution of one node to an operation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeContribution {
    /// The participants of the node.
    pub participants: Vec<NodeParticipant>,
    /// The failure of the operation on the node.
    pub failure: Option<NodeFailure>,
}

/// An operation on a group that the host environment carries out with the servers of other nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostGroupRequest {
    /// The group.
    pub key: GroupKey,
    /// The operation.
    pub operation: GroupOperation,
    /// The participants on all nodes, as they were named.
    pub procs: Vec<Proc>,
    /// The infos of the first caller.
    pub infos: Vec<Info>,
    /// True if a context id is requested.
    pub wants_context_id: bool,
    /// The status of the operation on this node (`PMIX_LOCAL_COLLECTIVE_STATUS`).
    pub status: Status,
    /// The contribution of this node.
    pub own: NodeContribution,
}

/// The host environment's answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostGroupAnswer {
    /// The contributions of all nodes together, as far as their servers have sent any.
    pub nodes: NodeContribution,
    /// The context id that the host environment has assigned.
    pub context_id: Option<u64>,
    /// Further infos.
    pub infos: Vec<Info>,
}

impl Groups {
    /// Records which ranks of a job of this server are on this node now. A proc that was on another
    /// one has been restarted here.
    pub fn place_job(
        &mut self,
        nspace: &Nspace,
        facts: JobSummary,
        ranks: RankRanges,
    ) -> Vec<GroupAction> {
        let arrived = self.directory.claim_own(nspace, self.me, facts, &ranks);
        self.broadcast(&GroupMessage::Job {
            nspace: nspace.clone(),
            facts,
            ranks,
        });
        let mut actions = self.take_actions();
        for rank in arrived {
            actions.extend(self.back(&Proc::new(nspace.clone(), rank)));
        }
        actions
    }

    /// Returns true if some procs of a job of this server are on nodes that only its host environment
    /// reaches.
    pub fn has_other_nodes(&self, nspace: &Nspace) -> bool {
        self.directory.is_placed(nspace)
    }

    /// Asks the host environment, if an operation has participants on other nodes and all local ones
    /// have called.
    pub(super) fn ask_host(&mut self, contribution: &Contribution) {
        if !self.is_alone() {
            return;
        }
        let key = &contribution.key;
        let Some(first) = contribution.parts.first() else {
            return;
        };
        let operation = GroupOperation::of(first.construct.as_deref());
        let Some(named) = self.participants(key, operation) else {
            return;
        };
        let local = self.directory.living_at(self.me, &named);
        // An operation that is not pending is decided already, as after a conflict.
        if self.directory.on_other_nodes(&named).is_empty()
            || !self.state.is_pending(key, operation)
        {
            return;
        }
        let Some(calls) = self.collectives.passed(key, operation, &local) else {
            return;
        };
        let participants = calls.parts.iter().map(|part| {
            let construct = part.construct.as_ref();
            NodeParticipant {
                proc: part.proc.clone(),
                infos: construct
                    .map(|construct| construct.infos.clone())
                    .unwrap_or_default(),
                data: construct.and_then(|construct| construct.data.clone()),
            }
        });
        let mut constructs = calls
            .parts
            .iter()
            .filter_map(|part| part.construct.as_ref());
        let request = HostGroupRequest {
            key: key.clone(),
            operation,
            procs: named.iter().cloned().collect(),
            infos: calls.infos.to_vec(),
            wants_context_id: constructs.any(|construct| construct.directives.context_id),
            status: if self.directory.has_ended(&named) {
                code::PMIX_ERR_PARTIAL_SUCCESS
            } else {
                code::PMIX_SUCCESS
            },
            own: NodeContribution {
                participants: participants.collect(),
                failure: None,
            },
        };
        self.state.host_asked(key);
        self.call_host(request, CallStage::Awaited);
    }

    /// Ends the part of the host environment in an operation that has failed here. The servers of other
    /// nodes would wait for this one, so it contributes its failure.
    pub(super) fn fail_at_host(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        failure: &GroupFailure,
    ) {
        let Some(named) = self.participants(key, operation) else {
            return;
        };
        if self.directory.on_other_nodes(&named).is_empty()
            || !self.host_calls.abandon(key, operation)
            || !self.is_alone()
        {
            return;
        }
        let request = HostGroupRequest {
            key: key.clone(),
            operation,
            procs: named.iter().cloned().collect(),
            infos: Vec::new(),
            wants_context_id: false,
            status: failure.status,
            own: NodeContribution {
                participants: Vec::new(),
                failure: Some(NodeFailure {
                    status: failure.status,
                    reason: failure.reason.clone(),
                }),
            },
        };
        self.call_host(request, CallStage::Abandoned);
    }

    fn call_host(&mut self, request: HostGroupRequest, stage: CallStage) {
        let now = self.host_calls.begin(Box::new(request), stage);
        self.steps.extend(now.map(GroupAction::AskHost));
    }

    /// Handles the host environment's answer to a [`HostGroupRequest`].
    pub fn host_answered(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        answer: Result<HostGroupAnswer, Status>,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        if self.host_calls.answered(key, operation) {
            let failure = match answer {
                Ok(answer) => self.bring_other_nodes(key, operation, answer, now),
                Err(status) => {
                    let reason = "the host environment has not carried it out";
                    Some(GroupFailure::new(status, reason))
                }
            };
            if let Some(failure) = failure {
                self.decide(now, |board, at| board.fail(key, operation, failure, at));
            }
        }
        // Before the call ends: a failure that the answer brings is not contributed again.
        self.process_own_messages();
        // The next operation of this name has waited for the answer to the one before.
        if let Some(next) = self.host_calls.end(key, operation) {
            let stage = match next.own.failure {
                Some(_) => CallStage::Abandoned,
                None => CallStage::Awaited,
            };
            self.call_host(*next, stage);
        }
        self.take_actions()
    }

    /// Counts the participants of other nodes as callers. Returns the failure of the operation on one of
    /// the nodes.
    fn bring_other_nodes(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        answer: HostGroupAnswer,
        now: MonotonicTime,
    ) -> Option<GroupFailure> {
        let HostGroupAnswer {
            nodes,
            context_id,
            infos,
        } = answer;
        let NodeContribution {
            mut participants,
            failure,
        } = nodes;
        if let Some(NodeFailure { status, reason }) = failure {
            return Some(GroupFailure::new(status, reason));
        }
        let named = self.participants(key, operation)?;
        let role = self.collectives.role(key);
        let after = self.last_applied;
        // A host environment that exchanges no data names no participants.
        let are_named = !participants.is_empty();
        let mut absent = Vec::new();
        let mut parts = Vec::new();
        for proc in self.directory.on_other_nodes(&named) {
            let at = participants.iter().position(|other| other.proc == proc);
            let brought = at.map(|at| participants.swap_remove(at));
            if are_named && brought.is_none() && operation == GroupOperation::Construct {
                absent.push(proc);
                continue;
            }
            let construct = role.as_ref().map(|role| {
                let (infos, data) = brought
                    .map(|brought| (brought.infos, brought.data))
                    .unwrap_or_default();
                Arc::new(ConstructRequest {
                    infos,
                    data: data.filter(|data| data.proc == proc),
                    ..ConstructRequest::of(role.clone())
                })
            });
            parts.push(Participation {
                proc,
                after,
                construct: construct.filter(|_| operation == GroupOperation::Construct),
                refusal: None,
            });
        }
        self.state
            .host_answered(key, AnswerOfHost { context_id, infos });
        self.state.leave_out(key, absent);
        let contribution = Contribution {
            key: key.clone(),
            parts,
            deadline: None,
            left: None,
        };
        self.up(CoordinatorRequest::Brings(contribution), now);
        None
    }

    /// Returns the procs that an operation is about, as far as a local call waits for it.
    fn participants(&self, key: &GroupKey, operation: GroupOperation) -> Option<NamedProcs> {
        match operation {
            GroupOperation::Construct => self.collectives.named(key),
            GroupOperation::Destruct => self.known.get(key).map(|known| known.left()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NodeRoute;
    use crate::{
        group::{
            ConstructRole, Formed, GroupCall, GroupCallResult, GroupName, GroupSettings,
            JobSummary, ServerId,
        },
        server::{PeerId, RequestId},
    };
    use peal_model::{KeyName, Rank, UserIdentity, Value, code};

    const NOW: MonotonicTime = MonotonicTime(0);

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn key() -> GroupKey {
        GroupKey {
            uid: 1,
            name: GroupName::Called("group".into()),
        }
    }

    /// Returns the groups of a node that has the ranks 0 and 1 of a job of four.
    fn groups() -> Groups {
        let mut groups = Groups::new(ServerId(0), GroupSettings::default());
        let owner = UserIdentity { uid: 1, gid: 1 };
        let nspace = Nspace::new("job").unwrap();
        let local = [Rank(0), Rank(1)].into_iter().collect();
        let facts = JobSummary { size: 4, owner };
        groups.job_added(&nspace, facts, local, NodeRoute::HostEnvironment);
        groups
    }

    fn call(groups: &mut Groups, rank: u32, operation: GroupOperation) -> Vec<GroupAction> {
        let construct = || {
            let named = vec![Proc::all(Nspace::new("job").unwrap())].into();
            let mut construct = ConstructRequest::of(ConstructRole::Leader(named));
            construct.directives.context_id = true;
            Arc::new(construct)
        };
        let call = GroupCall {
            to: RequestId {
                peer: PeerId(u64::from(rank)),
                tag: 1,
            },
            key: key(),
            proc: proc(rank),
            construct: (operation == GroupOperation::Construct).then(construct),
            infos: vec![order()],
            timeout: None,
            refusal: None,
        };
        groups.call(call, NOW)
    }

    /// An info of the callers.
    fn order() -> Info {
        Info::new(KeyName("test.order"), Value::Bool(true))
    }

    /// Returns the only action, which asks the host environment.
    fn asked(mut actions: Vec<GroupAction>) -> HostGroupRequest {
        match actions.pop() {
            Some(GroupAction::AskHost(request)) if actions.is_empty() => *request,
            other => panic!("the host environment should be asked: {other:?}"),
        }
    }

    /// Makes the calls of both local procs, and returns what the host environment is asked.
    fn ask(groups: &mut Groups, operation: GroupOperation) -> HostGroupRequest {
        assert_eq!(call(groups, 0, operation), []);
        asked(call(groups, 1, operation))
    }

    fn results(actions: Vec<GroupAction>) -> Vec<GroupCallResult> {
        let answer = |action| match action {
            GroupAction::Answer { answer, .. } => Some(answer),
            _ => None,
        };
        actions.into_iter().filter_map(answer).collect()
    }

    /// Returns the groups that callers got.
    fn formed(actions: Vec<GroupAction>) -> Vec<Arc<Formed>> {
        let results = results(actions).into_iter().map(|result| match result {
            GroupCallResult::Formed(formed) => formed,
            other => panic!("the group should be formed: {other:?}"),
        });
        results.collect()
    }

    /// Returns the statuses of failed calls.
    fn statuses(actions: Vec<GroupAction>) -> Vec<Status> {
        let statuses = results(actions).into_iter().map(|result| match result {
            GroupCallResult::Failed(failure) => failure.status,
            other => panic!("the call should fail: {other:?}"),
        });
        statuses.collect()
    }

    /// Returns the answer with these participants of other nodes.
    fn answer(ranks: &[u32]) -> HostGroupAnswer {
        let participants = ranks.iter().map(|rank| NodeParticipant {
            proc: proc(*rank),
            infos: Vec::new(),
            data: None,
        });
        HostGroupAnswer {
            nodes: NodeContribution {
                participants: participants.collect(),
                failure: None,
            },
            ..HostGroupAnswer::default()
        }
    }

    const CONSTRUCT: GroupOperation = GroupOperation::Construct;

    #[test]
    fn group_over_nodes_is_formed_and_dissolved_by_host_answers() {
        let mut groups = groups();
        let asked = ask(&mut groups, CONSTRUCT);
        assert!(asked.wants_context_id);
        assert_eq!(asked.infos, [order()]);
        assert_eq!(asked.status, code::PMIX_SUCCESS);
        let own = asked.own.participants.iter().map(|own| &own.proc);
        assert_eq!(own.collect::<Vec<_>>(), [&proc(0), &proc(1)]);
        let note = Info::new(KeyName("test.note"), Value::Bool(true));
        let mut answer = answer(&[2, 3]);
        answer.nodes.participants[1].infos.push(note.clone());
        answer.context_id = Some(9);
        answer.infos.push(order());
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer), NOW);
        let formed = formed(actions);
        assert_eq!(formed.len(), 2);
        for formed in formed {
            assert_eq!(formed.members.iter().count(), 4);
            assert_eq!(formed.context_id, Some(9));
            assert_eq!(formed.infos, [(proc(3), vec![note.clone()])]);
            assert_eq!(formed.host_infos, [order()]);
        }
        let asked = ask(&mut groups, GroupOperation::Destruct);
        assert!(asked.procs.contains(&proc(3)));
        let destruct = GroupOperation::Destruct;
        let actions = groups.host_answered(&key(), destruct, Ok(HostGroupAnswer::default()), NOW);
        let done = [GroupCallResult::Done, GroupCallResult::Done];
        assert_eq!(results(actions), done);
    }

    /// Returns the messages for other servers. Nothing else is done.
    fn sent(actions: Vec<GroupAction>) -> Vec<GroupMessage> {
        let sent = actions.into_iter().map(|action| match action {
            GroupAction::Send { message, .. } => message,
            other => panic!("only messages should follow: {other:?}"),
        });
        sent.collect()
    }

    #[test]
    fn among_servers_a_construct_waits_for_announcements() {
        let mut groups = groups();
        let mut others = Groups::new(ServerId(1), GroupSettings::default());
        sent(groups.server_joined(ServerId(1)));
        sent(others.server_joined(ServerId(0)));
        let owner = UserIdentity { uid: 1, gid: 1 };
        let facts = JobSummary { size: 4, owner };
        let ranks = [Rank(2), Rank(3)].into_iter().collect();
        let nspace = Nspace::new("job").unwrap();
        let mut messages =
            sent(others.job_added(&nspace, facts, ranks, NodeRoute::HostEnvironment));
        // The other server has announced nothing yet, and the host environment is not asked.
        assert_eq!(sent(call(&mut groups, 0, CONSTRUCT)), []);
        assert_eq!(sent(call(&mut groups, 1, CONSTRUCT)), []);
        messages.extend(sent(call(&mut others, 2, CONSTRUCT)));
        messages.extend(sent(call(&mut others, 3, CONSTRUCT)));
        let received = messages.into_iter();
        let actions = received.flat_map(|message| groups.received(ServerId(1), message, NOW));
        for formed in formed(actions.collect()) {
            assert_eq!(formed.members.iter().count(), 4);
        }
    }

    #[test]
    fn status_of_host_environment_goes_to_all_callers() {
        let mut groups = groups();
        let refuse = |groups: &mut Groups, operation| {
            ask(groups, operation);
            let refused = Err(code::PMIX_ERR_NOT_SUPPORTED);
            let actions = groups.host_answered(&key(), operation, refused, NOW);
            assert_eq!(statuses(actions), [code::PMIX_ERR_NOT_SUPPORTED; 2]);
        };
        refuse(&mut groups, CONSTRUCT);
        // A destruct needs a group.
        ask(&mut groups, CONSTRUCT);
        let answer = Ok(HostGroupAnswer::default());
        groups.host_answered(&key(), CONSTRUCT, answer, NOW);
        refuse(&mut groups, GroupOperation::Destruct);
    }

    #[test]
    fn failure_here_is_contributed_and_the_next_call_waits() {
        let mut groups = groups();
        assert_eq!(call(&mut groups, 0, CONSTRUCT), []);
        let mut actions = groups.ended(&proc(1), NOW);
        let at = actions
            .iter()
            .position(|action| matches!(action, GroupAction::AskHost(_)));
        let told = asked(vec![actions.remove(at.unwrap())]);
        let abort = code::PMIX_GROUP_CONSTRUCT_ABORT;
        assert_eq!(statuses(actions), [abort]);
        assert_eq!(told.own.failure.unwrap().status, abort);
        assert_eq!(told.status, abort);
        groups.back(&proc(1));
        assert_eq!(call(&mut groups, 0, CONSTRUCT), []);
        // The host environment could take it for the one that has failed.
        let mut next = call(&mut groups, 1, CONSTRUCT);
        if !next.is_empty() {
            // The late proc hears of the failure first.
            assert_eq!(statuses(next), [abort]);
            next = call(&mut groups, 1, CONSTRUCT);
        }
        assert_eq!(next, []);
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[])), NOW);
        assert_eq!(asked(actions).own.participants.len(), 2);
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[2, 3])), NOW);
        assert_eq!(formed(actions).len(), 2);
    }

    #[test]
    fn failure_on_another_node_fails_the_construct_here() {
        let mut groups = groups();
        ask(&mut groups, CONSTRUCT);
        let mut failed = answer(&[]);
        failed.nodes.failure = Some(NodeFailure {
            status: code::PMIX_GROUP_CONSTRUCT_ABORT,
            reason: "a participant has ended".to_owned(),
        });
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(failed), NOW);
        assert_eq!(statuses(actions), [code::PMIX_GROUP_CONSTRUCT_ABORT; 2]);
        assert!(groups.host_calls.is_empty());
    }

    #[test]
    fn end_of_participant_leaves_host_a_limited_time() {
        let mut groups = groups();
        ask(&mut groups, CONSTRUCT);
        assert_eq!(groups.ended(&proc(3), NOW), []);
        let limit = NOW + GroupSettings::default().decision_timeout;
        assert_eq!(groups.deadline(), Some(limit));
        let actions = groups.tick(limit);
        assert_eq!(statuses(actions), [code::PMIX_GROUP_CONSTRUCT_ABORT; 2]);
        // The answer comes too late for this construct.
        let late = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[2, 3])), limit);
        assert_eq!(late, []);
    }

    #[test]
    fn proc_of_another_node_that_restarts_here_takes_part() {
        let mut groups = groups();
        assert_eq!(groups.ended(&proc(3), NOW), []);
        let local = [Rank(0), Rank(1), Rank(3)];
        let nspace = Nspace::new("job").unwrap();
        let owner = UserIdentity { uid: 1, gid: 1 };
        let facts = JobSummary { size: 4, owner };
        let here = local.into_iter().collect();
        assert_eq!(groups.place_job(&nspace, facts, here), []);
        assert_eq!(call(&mut groups, 0, CONSTRUCT), []);
        assert_eq!(call(&mut groups, 1, CONSTRUCT), []);
        let asked = asked(call(&mut groups, 3, CONSTRUCT));
        assert_eq!(asked.status, code::PMIX_SUCCESS);
        let own = asked.own.participants.iter().map(|own| &own.proc);
        assert_eq!(own.collect::<Vec<_>>(), [&proc(0), &proc(1), &proc(3)]);
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[2])), NOW);
        assert_eq!(formed(actions).len(), 3);
        // When the last one has come, no other node is asked.
        groups.place_job(&nspace, facts, RankRanges::below(4));
        assert!(!groups.has_other_nodes(&nspace));
    }

    #[test]
    fn answer_of_host_forms_group_although_participant_ended() {
        let mut groups = groups();
        ask(&mut groups, CONSTRUCT);
        groups.ended(&proc(3), NOW);
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[2, 3])), NOW);
        assert_eq!(formed(actions).len(), 2);
        let left = [proc(0), proc(1), proc(2)];
        assert_eq!(groups.members(&key()), Some(left.to_vec()));
    }

    #[test]
    fn procs_that_another_node_leaves_out_are_no_members() {
        let mut groups = groups();
        ask(&mut groups, CONSTRUCT);
        let actions = groups.host_answered(&key(), CONSTRUCT, Ok(answer(&[2])), NOW);
        assert_eq!(formed(actions).len(), 2);
        let left = [proc(0), proc(1), proc(2)];
        assert_eq!(groups.members(&key()), Some(left.to_vec()));
    }
}
