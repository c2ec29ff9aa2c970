//! Replies to calls of groups.
use crate::{
    group::{self, Formed, GroupCallResult},
    policy,
    server::{Action, RequestId, clients::ClientTable},
};
use peal_model::{DataArray, GroupResult, Info, JobInfo, Nspace, Reply, Value, code, key};
use std::sync::Arc;

/// Returns the reply to a call of a group. `notified` holds the latest result; the next participant of
/// the same job shares it.
pub(super) fn group_reply(
    clients: &ClientTable,
    to: RequestId,
    answer: GroupCallResult,
    notified: &mut Option<NotifiedParticipant>,
) -> Action {
    let reply = match answer {
        GroupCallResult::Done => Reply::Status(code::PMIX_SUCCESS),
        GroupCallResult::NotConnected(status) => Reply::Status(status),
        GroupCallResult::Connected(formed) => {
            let own = clients.peer(to.peer).map(|peer| &peer.proc.nspace);
            Reply::Connected {
                status: code::PMIX_SUCCESS,
                jobs: jobs_for(own, &formed),
            }
        }
        GroupCallResult::Failed(group::GroupFailure { status, reason, .. }) => {
            let members = Vec::new();
            let jobs = Vec::new();
            let infos = vec![policy::reason(reason)];
            Reply::Group(
                GroupResult {
                    status,
                    members,
                    context_id: None,
                    jobs,
                    infos,
                }
                .into(),
            )
        }
        GroupCallResult::Formed(formed) => {
            let own = clients.peer(to.peer).map(|peer| &peer.proc.nspace);
            let same = |notified: &&NotifiedParticipant| {
                Arc::ptr_eq(&notified.formed, &formed) && notified.own.as_ref() == own
            };
            let result = notified
                .as_ref()
                .filter(same)
                .map(|notified| notified.result.clone());
            let result = result.unwrap_or_else(|| Arc::new(formed_for(own, &formed)));
            *notified = Some(NotifiedParticipant {
                formed,
                own: own.cloned(),
                result: result.clone(),
            });
            Reply::Group(result)
        }
    };
    Action::Reply { to, reply }
}

/// The latest result sent to a participant. The next participant of the same job shares it instead
/// of a copy.
pub(super) struct NotifiedParticipant {
    formed: Arc<Formed>,
    own: Option<Nspace>,
    result: Arc<GroupResult>,
}

/// Returns the result of a construct for procs of a job, without the data of their own job.
fn formed_for(own: Option<&Nspace>, formed: &Formed) -> GroupResult {
    let infos = formed.infos.iter().map(|(proc, infos)| {
        // As in later releases of OpenPMIx, the name of the proc comes first.
        let proc_id = Info::new(key::PMIX_PROCID, Value::Proc(proc.clone()));
        let all = [vec![proc_id], infos.clone()].concat();
        Info::new(
            key::PMIX_GROUP_INFO,
            Value::DataArray(DataArray::infos(all)),
        )
    });
    GroupResult {
        status: code::PMIX_SUCCESS,
        members: formed.membership(),
        context_id: formed.context_id,
        jobs: jobs_for(own, formed),
        infos: infos.chain(formed.host_infos.iter().cloned()).collect(),
    }
}

fn jobs_for(own: Option<&Nspace>, formed: &Formed) -> Vec<JobInfo> {
    // A client received the data of its own job at its start.
    formed
        .jobs
        .iter()
        .filter(|job| Some(&job.nspace) != own)
        .map(|job| (**job).clone())
        .collect()
}
