//! Groups with members on nodes that only the host environment reaches. When all local participants
//! have called, the host environment is asked; its answer brings the participants of other nodes,
//! which this server's own coordinator then counts like callers.
use super::{
    ConstructRequest, Contribution, CoordinatorRequest, GroupAction, GroupFailure, GroupKey,
    GroupOperation, Groups, Participation,
};
use crate::MonotonicTime;
use peal_model::{Info, NamedProcs, Nspace, Proc, Rank, RankData, Status};
use std::sync::Arc;

/// Contribution of one participant for those of other nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeParticipant {
    /// The participant.
    pub proc: Proc,
    /// Infos for the other members (`PMIX_GROUP_INFO`).
    pub infos: Vec<Info>,
    /// The values that it has put for procs of other nodes.
    pub data: Option<RankData>,
}

/// An operation on a group that the host environment carries out with the servers of other nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct HostGroupRequest {
    /// The group.
    pub key: GroupKey,
    /// The operation.
    pub operation: GroupOperation,
    /// The participants on all nodes, as they were named.
    pub procs: Vec<Proc>,
    /// True if a context id is requested.
    pub wants_context_id: bool,
    /// The participants of this node.
    pub own: Vec<NodeParticipant>,
}

/// The host environment's answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostGroupAnswer {
    /// The participants of all nodes, as far as their servers have sent anything.
    pub participants: Vec<NodeParticipant>,
    /// The context id that the host environment has assigned.
    pub context_id: Option<u64>,
}

impl Groups {
    /// Records which ranks of a job of this server are on this node. The others are on nodes that the
    /// host environment reaches.
    pub fn place_job(&mut self, nspace: &Nspace, local: impl Iterator<Item = Rank>) {
        self.directory.place(nspace, local.collect());
    }

    /// Returns true if some procs of a job of this server are on other nodes.
    pub fn has_other_nodes(&self, nspace: &Nspace) -> bool {
        self.directory.is_placed(nspace)
    }

    /// Asks the host environment, if an operation has participants on other nodes and all local ones
    /// have called.
    pub(super) fn ask_host(&mut self, contribution: &Contribution) {
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
        let Some(parts) = self.collectives.passed(key, operation, &local) else {
            return;
        };
        let own = parts.iter().map(|part| NodeParticipant {
            proc: part.proc.clone(),
            infos: part
                .construct
                .as_ref()
                .map(|construct| construct.infos.clone())
                .unwrap_or_default(),
            data: part
                .construct
                .as_ref()
                .and_then(|construct| construct.data.clone()),
        });
        let wants_context_id = parts
            .iter()
            .filter_map(|part| part.construct.as_ref())
            .any(|construct| construct.directives.context_id);
        let request = HostGroupRequest {
            key: key.clone(),
            operation,
            procs: named.iter().cloned().collect(),
            wants_context_id,
            own: own.collect(),
        };
        self.steps.push(GroupAction::AskHost(Box::new(request)));
    }

    /// Handles the host environment's answer to a [`HostGroupRequest`].
    pub fn host_answered(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        answer: Result<HostGroupAnswer, Status>,
        now: MonotonicTime,
    ) -> Vec<GroupAction> {
        match answer {
            Ok(answer) => self.bring_other_nodes(key, operation, answer, now),
            Err(status) => {
                let reason = "the host environment has not carried it out";
                let failure = GroupFailure::new(status, reason);
                self.decide(now, |board, at| board.fail(key, operation, failure, at));
            }
        }
        self.take_actions()
    }

    fn bring_other_nodes(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        answer: HostGroupAnswer,
        now: MonotonicTime,
    ) {
        // The operation may have ended meanwhile, as by its time limit.
        let Some(named) = self.participants(key, operation) else {
            return;
        };
        let HostGroupAnswer {
            mut participants,
            context_id,
        } = answer;
        let role = self.collectives.role(key);
        let after = self.last_applied;
        let mut part = |proc: Proc| {
            let at = participants.iter().position(|other| other.proc == proc);
            let brought = at.map(|at| participants.swap_remove(at));
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
            Participation {
                proc,
                after,
                construct: construct.filter(|_| operation == GroupOperation::Construct),
                refusal: None,
            }
        };
        let elsewhere = self.directory.on_other_nodes(&named);
        let parts = elsewhere.into_iter().map(&mut part).collect();
        if let Some(id) = context_id {
            self.state.give_context_id(key, id);
        }
        let contribution = Contribution {
            key: key.clone(),
            parts,
            deadline: None,
            left: None,
        };
        self.up(CoordinatorRequest::Brings(contribution), now);
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
    use crate::{
        group::{
            ConstructRole, Formed, GroupCall, GroupCallResult, GroupName, GroupSettings,
            JobSummary, ServerId,
        },
        server::{PeerId, RequestId},
    };
    use peal_model::{UserIdentity, code};

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
        groups.job_added(&nspace, JobSummary { size: 4, owner });
        groups.place_job(&nspace, [Rank(0), Rank(1)].into_iter());
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
            timeout: None,
            refusal: None,
        };
        groups.call(call, NOW)
    }

    /// Makes the calls of both local procs, and returns what the host environment is asked.
    fn ask(groups: &mut Groups, operation: GroupOperation) -> HostGroupRequest {
        assert_eq!(call(groups, 0, operation), []);
        let mut actions = call(groups, 1, operation);
        match actions.pop() {
            Some(GroupAction::AskHost(request)) if actions.is_empty() => *request,
            other => panic!("the host environment should be asked: {other:?}"),
        }
    }

    fn results(actions: Vec<GroupAction>) -> Vec<GroupCallResult> {
        let answer = |action| match action {
            GroupAction::Answer { answer, .. } => Some(answer),
            _ => None,
        };
        actions.into_iter().filter_map(answer).collect()
    }

    #[test]
    fn group_over_nodes_is_formed_and_dissolved_by_host_answers() {
        let mut groups = groups();
        let asked = ask(&mut groups, GroupOperation::Construct);
        assert!(asked.wants_context_id);
        let own: Vec<&Proc> = asked.own.iter().map(|own| &own.proc).collect();
        assert_eq!(own, [&proc(0), &proc(1)]);
        let note = Info::new(
            peal_model::key::PMIX_GROUP_ID,
            peal_model::Value::Bool(true),
        );
        let participants = vec![NodeParticipant {
            proc: proc(3),
            infos: vec![note.clone()],
            data: None,
        }];
        let answer = HostGroupAnswer {
            participants,
            context_id: Some(9),
        };
        let construct = GroupOperation::Construct;
        let actions = groups.host_answered(&key(), construct, Ok(answer), NOW);
        let formed = results(actions);
        let formed: Vec<&Formed> = formed
            .iter()
            .map(|result| match result {
                GroupCallResult::Formed(formed) => &**formed,
                other => panic!("the group should be formed: {other:?}"),
            })
            .collect();
        assert_eq!(formed.len(), 2);
        for formed in formed {
            assert_eq!(formed.members.iter().count(), 4);
            assert_eq!(formed.context_id, Some(9));
            assert_eq!(formed.infos, [(proc(3), vec![note.clone()])]);
        }
        let asked = ask(&mut groups, GroupOperation::Destruct);
        assert!(asked.procs.contains(&proc(3)));
        let destruct = GroupOperation::Destruct;
        let actions = groups.host_answered(&key(), destruct, Ok(HostGroupAnswer::default()), NOW);
        let done = [GroupCallResult::Done, GroupCallResult::Done];
        assert_eq!(results(actions), done);
    }

    #[test]
    fn status_of_host_environment_goes_to_all_callers() {
        let mut groups = groups();
        let refuse = |groups: &mut Groups, operation| {
            ask(groups, operation);
            let refused = Err(code::PMIX_ERR_NOT_SUPPORTED);
            let actions = groups.host_answered(&key(), operation, refused, NOW);
            let statuses = results(actions).into_iter().map(|result| match result {
                GroupCallResult::Failed(failure) => failure.status,
                other => panic!("the call should fail: {other:?}"),
            });
            let statuses: Vec<Status> = statuses.collect();
            assert_eq!(statuses, [code::PMIX_ERR_NOT_SUPPORTED; 2]);
        };
        refuse(&mut groups, GroupOperation::Construct);
        // A destruct needs a group.
        ask(&mut groups, GroupOperation::Construct);
        let answer = Ok(HostGroupAnswer::default());
        groups.host_answered(&key(), GroupOperation::Construct, answer, NOW);
        refuse(&mut groups, GroupOperation::Destruct);
    }
}
