//! Groups that their members construct and destruct together.
use super::{
    library::Library,
    operations::{InfoAnswer, begin_infos, begin_status, wait_infos, wait_status},
};
use crate::{
    abi::{CInfo, CInfoCallback, COpCallback, CProc, CStatus},
    border,
    convert::{ConvertError, read_array, text_argument},
};
use peal_client::{Client, ClientError, ConstructOptions, Group};
use peal_model::{Info, Proc, Status, Value, code, key};
use std::ffi::{c_char, c_void};

/// Reads the name of a group.
///
/// # Safety
///
/// `group` is null or a string.
pub(crate) unsafe fn read_name(group: *const c_char) -> Result<String, ConvertError> {
    // SAFETY: the caller guarantees a string or null.
    let name = unsafe { text_argument(group) }?;
    let name = name.ok_or(ConvertError::NullPointer { what: "group" })?;
    let name = name
        .as_str()
        .ok_or(ConvertError::NotUtf8 { what: "group" })?;
    Ok(name.to_owned())
}

/// Returns the results of a group that was formed: its context id if it has one, and its members.
pub(crate) fn formed(function: &'static str, group: Result<Group, ClientError>) -> InfoAnswer {
    InfoAnswer::new(
        function,
        group.map(|group| {
            let id = group.context_id.map(Value::Size);
            let id = id.map(|id| Info::new(key::PMIX_GROUP_CONTEXT_ID, id));
            let members = Info::new(key::PMIX_GROUP_MEMBERSHIP, Value::procs(group.members));
            id.into_iter().chain([members]).collect()
        }),
    )
}

/// Arguments of a construct or invitation.
pub(crate) struct GroupPlan {
    pub(crate) name: String,
    pub(crate) procs: Vec<Proc>,
    pub(crate) infos: Vec<Info>,
}

impl GroupPlan {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `group` is null or a string, `procs` is null or begins an array of `nprocs` procs, `info` of
    /// `ninfo` infos.
    pub(crate) unsafe fn read(
        group: *const c_char,
        procs: *const CProc,
        nprocs: usize,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<GroupPlan, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees a string, and the arrays.
        unsafe {
            Ok(GroupPlan {
                name: read_name(group)?,
                procs: read_array(procs, nprocs, "procs")?,
                infos: read_array(info, ninfo, "infos")?,
            })
        }
    }

    /// Refuses a construct that says nothing at all. Procs are left out only by those that call with
    /// directives, such as `PMIX_GROUP_BOOTSTRAP`.
    fn check(self) -> Result<GroupPlan, Status> {
        if self.procs.is_empty() && self.infos.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        Ok(self)
    }

    async fn construct(self, function: &'static str, client: Client) -> InfoAnswer {
        let infos = self.infos.into_iter();
        let options = infos.fold(ConstructOptions::of(&self.procs), ConstructOptions::with);
        formed(function, client.group_construct(&self.name, options).await)
    }
}

/// `PMIx_Group_construct`: constructs a group of procs, all of which call it. The caller frees the
/// results.
///
/// # Safety
///
/// `group` is null or a string, `procs` is null or begins an array of `nprocs` procs, `directives` of
/// `ndirs` infos. `results` and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Group_construct")]
pub unsafe extern "C" fn group_construct(
    group: *const c_char,
    procs: *const CProc,
    nprocs: usize,
    directives: *const CInfo,
    ndirs: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_construct";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a string, and the arrays.
        let plan = unsafe { GroupPlan::read(group, procs, nprocs, directives, ndirs) }?.check()?;
        let construct = |client| plan.construct(FUNCTION, client);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, construct) }
    })
}

/// `PMIx_Group_construct_nb`: constructs a group, and calls back with the results.
///
/// # Safety
///
/// As for [`group_construct`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Group_construct_nb")]
pub unsafe extern "C" fn group_construct_nb(
    group: *const c_char,
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Group_construct_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a string, and the arrays.
        let plan = unsafe { GroupPlan::read(group, procs, nprocs, info, ninfo) }?.check()?;
        begin_infos(cbfunc, cbdata, |client| plan.construct(FUNCTION, client))
    })
}

/// Arguments of a call of a member.
struct Membership {
    name: String,
    infos: Vec<Info>,
}

impl Membership {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `group` is null or a string, `info` is null or begins an array of `ninfo` infos.
    unsafe fn read(
        group: *const c_char,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Membership, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees a string, and the array.
        unsafe {
            Ok(Membership {
                name: read_name(group)?,
                infos: read_array(info, ninfo, "infos")?,
            })
        }
    }

    async fn destruct(self, client: Client) -> Result<(), ClientError> {
        client.group_destruct(&self.name, &self.infos).await
    }

    async fn leave(self, client: Client) -> Result<(), ClientError> {
        client.group_leave(&self.name, &self.infos).await
    }
}

/// `PMIx_Group_destruct`: destructs a group, all members of which call it.
///
/// # Safety
///
/// `group` is null or a string, `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_Group_destruct")]
pub unsafe extern "C" fn group_destruct(
    group: *const c_char,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Group_destruct", || {
        // SAFETY: the caller guarantees a string, and the array.
        let member = unsafe { Membership::read(group, info, ninfo) }?;
        wait_status("PMIx_Group_destruct", |client| member.destruct(client))
    })
}

/// `PMIx_Group_destruct_nb`: destructs a group, and calls back when all members have called it.
///
/// # Safety
///
/// As for [`group_destruct`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Group_destruct_nb")]
pub unsafe extern "C" fn group_destruct_nb(
    group: *const c_char,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Group_destruct_nb", || {
        // SAFETY: the caller guarantees a string, and the array.
        let member = unsafe { Membership::read(group, info, ninfo) }?;
        let destruct = |client| member.destruct(client);
        begin_status("PMIx_Group_destruct_nb", cbfunc, cbdata, destruct)
    })
}

/// `PMIx_Group_leave`: leaves a group, whose other members receive an event.
///
/// # Safety
///
/// As for [`group_destruct`].
#[unsafe(export_name = "PMIx_Group_leave")]
pub unsafe extern "C" fn group_leave(
    group: *const c_char,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Group_leave", || {
        // SAFETY: the caller guarantees a string, and the array.
        let member = unsafe { Membership::read(group, info, ninfo) }?;
        wait_status("PMIx_Group_leave", |client| member.leave(client))
    })
}

/// `PMIx_Group_leave_nb`: leaves a group, and calls back when the event is raised.
///
/// # Safety
///
/// As for [`group_destruct_nb`].
#[unsafe(export_name = "PMIx_Group_leave_nb")]
pub unsafe extern "C" fn group_leave_nb(
    group: *const c_char,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Group_leave_nb", || {
        // SAFETY: the caller guarantees a string, and the array.
        let member = unsafe { Membership::read(group, info, ninfo) }?;
        begin_status("PMIx_Group_leave_nb", cbfunc, cbdata, |client| {
            member.leave(client)
        })
    })
}
