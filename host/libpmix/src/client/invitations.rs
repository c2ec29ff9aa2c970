//! Groups that one proc forms by invitations.
use super::{
    groups::{GroupPlan, formed, read_name},
    library::Library,
    operations::{InfoAnswer, begin_infos, wait_infos},
};
use crate::{
    abi::{CGroupOption, CInfo, CInfoCallback, CProc, CStatus},
    border,
    convert::{read_array, read_one},
};
use peal_client::{Client, Invite, Invited, Join};
use peal_model::{Info, Infos, Proc, Status, Value, code, key};
use std::{
    ffi::{c_char, c_void},
    time::Duration,
};

/// Answer that declines an invitation (`PMIX_GROUP_DECLINE`).
const DECLINE: CGroupOption = 0;

/// Answer that accepts an invitation (`PMIX_GROUP_ACCEPT`).
const ACCEPT: CGroupOption = 1;

/// Returns the options of an invitation with these infos.
fn options(infos: Vec<Info>) -> Invite {
    let mut invite = Invite::new();
    if infos.is_true(key::PMIX_GROUP_ASSIGN_CONTEXT_ID) {
        invite = invite.context_id();
    }
    if infos.is_true(key::PMIX_GROUP_OPTIONAL) {
        invite = invite.optional();
    }
    let seconds = infos.value_of(key::PMIX_TIMEOUT).and_then(Value::as_u64);
    if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
        invite = invite.timeout(Duration::from_secs(seconds));
    }
    let known = [
        key::PMIX_GROUP_ASSIGN_CONTEXT_ID,
        key::PMIX_GROUP_OPTIONAL,
        key::PMIX_TIMEOUT,
    ];
    let others = infos.into_iter();
    let others = others.filter(|info| !known.iter().any(|key| info.key == *key));
    others.fold(invite, Invite::with)
}

async fn invite(function: &'static str, client: Client, plan: GroupPlan) -> InfoAnswer {
    let options = options(plan.infos);
    let group = client.group_invite(&plan.name, &plan.procs, options).await;
    formed(function, group)
}

/// Reads the arguments of an invitation, which needs procs.
///
/// # Safety
///
/// As for [`GroupPlan::read`].
unsafe fn read_invitation(
    group: *const c_char,
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
) -> Result<GroupPlan, Status> {
    // SAFETY: the caller guarantees what `GroupPlan::read` demands.
    let plan = unsafe { GroupPlan::read(group, procs, nprocs, info, ninfo) }?;
    if plan.procs.is_empty() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    Ok(plan)
}

/// `PMIx_Group_invite`: invites procs to a group, and waits for all answers. The caller frees the
/// results.
///
/// # Safety
///
/// `group` is null or a string, `procs` is null or begins an array of `nprocs` procs, `info` of `ninfo`
/// infos. `results` and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Group_invite")]
pub unsafe extern "C" fn group_invite(
    group: *const c_char,
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_invite";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a string, and the arrays.
        let plan = unsafe { read_invitation(group, procs, nprocs, info, ninfo) }?;
        let run = |client| invite(FUNCTION, client, plan);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, run) }
    })
}

/// `PMIx_Group_invite_nb`: invites procs to a group, and calls back when all have answered.
///
/// # Safety
///
/// As for [`group_invite`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Group_invite_nb")]
pub unsafe extern "C" fn group_invite_nb(
    group: *const c_char,
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_invite_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a string, and the arrays.
        let plan = unsafe { read_invitation(group, procs, nprocs, info, ninfo) }?;
        begin_infos(cbfunc, cbdata, |client| invite(FUNCTION, client, plan))
    })
}

/// Answer to an invitation.
struct Answer {
    invited: Invited,
    accepts: bool,
    infos: Vec<Info>,
}

impl Answer {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `group` is null or a string, `leader` is null or points to a proc, `info` is null or begins an
    /// array of `ninfo` infos.
    unsafe fn read(
        group: *const c_char,
        leader: *const CProc,
        answer: CGroupOption,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Answer, Status> {
        Library::running()?;
        let accepts = match answer {
            ACCEPT => true,
            DECLINE => false,
            _ => return Err(code::PMIX_ERR_BAD_PARAM),
        };
        // SAFETY: the caller guarantees a string and a proc, or null.
        let (group, leader): (_, Proc) =
            unsafe { (read_name(group)?, read_one(leader, "leader")?) };
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        Ok(Answer {
            invited: Invited {
                group,
                leader,
                leader_infos: Vec::new(),
            },
            accepts,
            infos,
        })
    }

    async fn run(self, function: &'static str, client: Client) -> InfoAnswer {
        if self.accepts {
            let join = self.infos.into_iter().fold(Join::new(), Join::with);
            formed(function, client.group_join(&self.invited, join).await)
        } else {
            let declined = client.group_decline(&self.invited).await;
            InfoAnswer::new(function, declined.map(|()| Vec::new()))
        }
    }
}

/// `PMIx_Group_join`: accepts or declines an invitation. After an acceptance it waits until the group
/// is formed. The caller frees the results.
///
/// # Safety
///
/// `group` is null or a string, `leader` is null or points to a proc, `info` is null or begins an array
/// of `ninfo` infos. `results` and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Group_join")]
pub unsafe extern "C" fn group_join(
    group: *const c_char,
    leader: *const CProc,
    opt: CGroupOption,
    info: *const CInfo,
    ninfo: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_join";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees what `Answer::read` demands.
        let answer = unsafe { Answer::read(group, leader, opt, info, ninfo) }?;
        let run = |client| answer.run(FUNCTION, client);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, run) }
    })
}

/// `PMIx_Group_join_nb`: answers an invitation, and calls back when the group is formed.
///
/// # Safety
///
/// As for [`group_join`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Group_join_nb")]
pub unsafe extern "C" fn group_join_nb(
    group: *const c_char,
    leader: *const CProc,
    opt: CGroupOption,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_join_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees what `Answer::read` demands.
        let answer = unsafe { Answer::read(group, leader, opt, info, ninfo) }?;
        begin_infos(cbfunc, cbdata, |client| answer.run(FUNCTION, client))
    })
}
