//! Conversion of a spawn request (`PMIx_Spawn`) to a request for a job.
use super::{
    environment::EnvironmentSetting,
    exit::JobExit,
    job_request::{AppRequest, JobOptions, JobRequest, LaunchError, StdinTarget, app_of},
    lines::Tagging,
    output::{JobOutput, OutputFiles},
    reporting::{Reported, Reporting},
    spawn_binding,
};
use peal_model::{
    App, Event, Info, InfoFlags, Infos, IofChannel, KeyName, Nspace, Proc, Range, Rank, Status,
    Text, Value, code, key,
};
use peal_server::ProcExit;
use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// Maximum number of applications in one request, as on the command line.
const MAX_APPS: usize = 256;
/// Maximum number of procs in one request, as on the command line.
const MAX_PROCS: u32 = 65_535;

/// Directives that are honoured. Others are hints, unless they are required.
pub(super) const SERVED: [KeyName; 31] = [
    key::PMIX_WDIR,
    key::PMIX_WDIR_USER_SPECIFIED,
    key::PMIX_SET_ENVAR,
    key::PMIX_ADD_ENVAR,
    key::PMIX_UNSET_ENVAR,
    key::PMIX_PREPEND_ENVAR,
    key::PMIX_APPEND_ENVAR,
    key::PMIX_PSET_NAME,
    key::PMIX_STDIN_TGT,
    key::PMIX_FWD_STDIN,
    key::PMIX_FWD_STDOUT,
    key::PMIX_FWD_STDERR,
    key::PMIX_TAG_OUTPUT,
    key::PMIX_IOF_TAG_OUTPUT,
    key::PMIX_OUTPUT_TO_DIRECTORY,
    key::PMIX_IOF_OUTPUT_TO_DIRECTORY,
    key::PMIX_IOF_FILE_ONLY,
    key::PMIX_SPAWN_CHILD_SEP,
    key::PMIX_PARENT_ID,
    key::PMIX_REQUESTOR,
    key::PMIX_REQUESTOR_IS_CLIENT,
    key::PMIX_REQUESTOR_IS_TOOL,
    key::PMIX_NOTIFY_COMPLETION,
    key::PMIX_LOG_JOB_EVENTS,
    key::PMIX_LOG_COMPLETION,
    key::PMIX_LOG_PROC_TERMINATION,
    key::PMIX_LOG_PROC_ABNORMAL_TERMINATION,
    key::PMIX_TIMEOUT,
    key::PMIX_PERSONALITY,
    key::PMIX_BINDTO,
    key::PMIX_MAPBY,
];

/// Dependence between a spawned job and its parent job (`PMIX_SPAWN_CHILD_SEP`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParentDependence {
    /// Both end together after a failure. The attribute is absent.
    OnFailure,
    /// Both end together after a failure, and the spawned job ends with the normal end of its
    /// parent job.
    OnEnd,
    /// Each continues without the other.
    Independent,
}

/// Parsed spawn request.
#[derive(Debug)]
pub(super) struct SpawnPlan {
    pub(super) request: JobRequest,
    pub(super) dependence: ParentDependence,
    /// True if the requester receives an event at the end of the job.
    pub(super) notify_completion: bool,
    /// Output that is forwarded to the requester, if it is a tool.
    pub(super) forwarded: IofChannel,
}

/// Parses a spawn request of `parent` for a job of this name. Properties that the request does not
/// set are taken from `like`.
///
/// # Errors
/// A status for a request that is invalid, exceeds a limit, or requires a directive that is not
/// honoured.
pub(super) fn read(
    (nspace, offset): (Nspace, u32),
    parent: Proc,
    like: &JobRequest,
    infos: &[Info],
    apps: &[App],
) -> Result<SpawnPlan, Status> {
    let is_served = |info: &Info| SERVED.iter().any(|key| info.key == *key);
    let of_apps = apps.iter().flat_map(|app| &app.infos);
    let unserved = infos.iter().filter(|info| !is_served(info));
    let unserved =
        unserved.chain(of_apps.filter(|info| !is_served(info) || spawn_binding::is_of_job(info)));
    let mut required = unserved.filter(|info| info.flags.contains(InfoFlags::REQUIRED));
    // Checked before anything else: a request is honoured as a whole or not at all.
    if let Some(info) = required.next() {
        tracing::info!(requester = %parent, key = %info.key, "spawn refused: required directive not supported");
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    if apps.is_empty() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    if apps.len() > MAX_APPS {
        return Err(code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES);
    }
    let wdir = app_of(&like.apps, parent.rank).and_then(|app| app.wdir.clone());
    let apps = apps
        .iter()
        .map(|app| application(app, infos, wdir.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    let request = JobRequest {
        output: output(infos, &like.output, &nspace),
        nspace,
        apps,
        parent: Some(
            infos
                .value_of(key::PMIX_PARENT_ID)
                .and_then(Value::as_procs)
                .and_then(|procs| procs.into_iter().next())
                .unwrap_or(parent),
        ),
        offset,
        hostname: like.hostname.clone(),
        options: JobOptions {
            binding: spawn_binding::read(infos, &like.options)?,
            ..like.options.clone()
        },
        input: input(infos)?,
        reporting: reporting(infos, &like.reporting),
    };
    if request.size() > MAX_PROCS {
        return Err(code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES);
    }
    if spawn_binding::is_required(infos)
        && let Err(error) = request.bindings()
    {
        tracing::info!(job = %request.nspace, %error, "spawn refused: procs cannot be bound");
        return Err(code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES);
    }
    let dependence = match infos.value_of(key::PMIX_SPAWN_CHILD_SEP) {
        None => ParentDependence::OnFailure,
        Some(_) if infos.is_true(key::PMIX_SPAWN_CHILD_SEP) => ParentDependence::Independent,
        Some(_) => ParentDependence::OnEnd,
    };
    Ok(SpawnPlan {
        request,
        dependence,
        notify_completion: infos.is_true(key::PMIX_NOTIFY_COMPLETION),
        forwarded: forwarded(infos),
    })
}

fn application(app: &App, infos: &[Info], like: Option<&PathBuf>) -> Result<AppRequest, Status> {
    let program = app.program().ok_or(code::PMIX_ERR_JOB_NO_EXE_SPECIFIED)?;
    let procs = u32::try_from(app.max_procs)
        .ok()
        .filter(|procs| *procs > 0)
        .ok_or(code::PMIX_ERR_BAD_PARAM)?;
    let wdir = [app.infos.as_slice(), infos]
        .into_iter()
        .find_map(|infos| infos.value_of(key::PMIX_WDIR));
    let wdir = wdir.and_then(Value::as_str).map(PathBuf::from);
    let wdir = wdir
        .or_else(|| app.cwd.as_ref().map(|dir| os(dir).into()))
        .or_else(|| like.cloned());
    // The application's own environment comes first, so that directives can change it.
    let own = app
        .env
        .iter()
        .flatten()
        .filter_map(|line| assignment(line.as_bytes()));
    let requested = infos.iter().chain(&app.infos).filter_map(setting);
    let pset = app
        .infos
        .value_of(key::PMIX_PSET_NAME)
        .and_then(Value::as_str)
        .map(Text::from);
    Ok(AppRequest {
        wdir,
        settings: own.chain(requested).collect(),
        process_set: pset,
        ..AppRequest::new(
            os(program),
            // The first argument is the name of the program, as in `argv`.
            app.args.iter().skip(1).flatten().map(os).collect(),
            procs,
        )
    })
}

fn os(text: &Text) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

fn assignment(line: &[u8]) -> Option<EnvironmentSetting> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    let (name, value) = line.split_at_checked(at)?;
    let value = value.get(1..)?;
    (!name.is_empty()).then(|| {
        EnvironmentSetting::Set(
            OsStr::from_bytes(name).into(),
            OsStr::from_bytes(value).into(),
        )
    })
}

fn setting(info: &Info) -> Option<EnvironmentSetting> {
    if info.key == key::PMIX_UNSET_ENVAR {
        return info
            .value
            .as_str()
            .filter(|name| is_name(name))
            .map(|name| EnvironmentSetting::Unset(name.into()));
    }
    let Value::Envar(envar) = &info.value else {
        return None;
    };
    let name = envar
        .name
        .as_ref()
        .and_then(Text::as_str)
        .filter(|name| is_name(name))?
        .into();
    let value = envar.value.as_ref().map(os).unwrap_or_default();
    let separator = char::from(envar.separator);
    let is = |key: KeyName| info.key == key;
    if is(key::PMIX_SET_ENVAR) {
        Some(EnvironmentSetting::Set(name, value))
    } else if is(key::PMIX_ADD_ENVAR) {
        Some(EnvironmentSetting::Add(name, value))
    } else if is(key::PMIX_PREPEND_ENVAR) {
        Some(EnvironmentSetting::Prepend(name, value, separator))
    } else if is(key::PMIX_APPEND_ENVAR) {
        Some(EnvironmentSetting::Append(name, value, separator))
    } else {
        None
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('=')
}

fn output(infos: &[Info], like: &JobOutput, nspace: &Nspace) -> JobOutput {
    let is_tagged = [key::PMIX_TAG_OUTPUT, key::PMIX_IOF_TAG_OUTPUT]
        .iter()
        .any(|key| infos.is_true(*key));
    let named = [
        key::PMIX_OUTPUT_TO_DIRECTORY,
        key::PMIX_IOF_OUTPUT_TO_DIRECTORY,
    ];
    let dir = named
        .iter()
        .find_map(|key| infos.value_of(*key))
        .and_then(Value::as_str)
        .map(PathBuf::from);
    let files = match dir {
        Some(dir) if infos.is_true(key::PMIX_IOF_FILE_ONLY) => OutputFiles::Only(dir),
        Some(dir) => OutputFiles::Too(dir),
        // Both jobs have a rank 0, so the files of the spawned job are in a directory of its own.
        None => like.files.clone().below(nspace.as_str()),
    };
    JobOutput {
        tagging: if is_tagged {
            Tagging::Rank
        } else {
            like.tagging
        },
        files,
    }
}

fn forwarded(infos: &[Info]) -> IofChannel {
    let channels = [
        (key::PMIX_FWD_STDOUT, IofChannel::STDOUT),
        (key::PMIX_FWD_STDERR, IofChannel::STDERR),
    ];
    let wanted = channels.into_iter().filter(|(key, _)| infos.is_true(*key));
    IofChannel(wanted.fold(0, |all, (_, channel)| all | channel.0))
}

fn input(infos: &[Info]) -> Result<StdinTarget, Status> {
    match infos.value_of(key::PMIX_STDIN_TGT) {
        None if infos.is_true(key::PMIX_FWD_STDIN) => Ok(StdinTarget::Rank(Rank(0))),
        None => Ok(StdinTarget::NoRank),
        Some(Value::Proc(proc)) if proc.rank.is_valid() => Ok(StdinTarget::Rank(proc.rank)),
        Some(Value::Proc(_)) => Ok(StdinTarget::All),
        Some(Value::Rank(rank)) if rank.is_valid() => Ok(StdinTarget::Rank(*rank)),
        Some(Value::Rank(_)) => Ok(StdinTarget::All),
        Some(_) => Err(code::PMIX_ERR_BAD_PARAM),
    }
}

/// Returns the log messages that a request selects. The channels are those of the launcher.
fn reporting(infos: &[Info], like: &Reporting) -> Reporting {
    let wanted = [
        (key::PMIX_LOG_JOB_EVENTS, Reported::JobEvents),
        (key::PMIX_LOG_COMPLETION, Reported::Completion),
        (key::PMIX_LOG_PROC_TERMINATION, Reported::Terminations),
        (
            key::PMIX_LOG_PROC_ABNORMAL_TERMINATION,
            Reported::AbnormalTerminations,
        ),
    ];
    let of = wanted
        .into_iter()
        .filter(|(key, _)| infos.is_true(*key))
        .map(|(_, reported)| reported);
    Reporting {
        of: of.collect(),
        to: like.to.clone(),
    }
}

/// Returns the event about the end of a spawned job for its requester (`PMIX_NOTIFY_COMPLETION`).
pub(super) fn end_of(job: Nspace, end: &JobExit, requester: Proc) -> Event {
    let status = match (&end.abort, &end.first_abnormal, end.exit_status) {
        (Some(_), _, _) => code::PMIX_ERR_JOB_ABORTED,
        (None, Some((_, ProcExit::Signalled(_))), _) => code::PMIX_ERR_JOB_ABORTED_BY_SIG,
        (None, Some((_, ProcExit::Exited(0))), _) => code::PMIX_ERR_JOB_TERM_WO_SYNC,
        (None, Some(_), _) => code::PMIX_ERR_JOB_NON_ZERO_TERM,
        (None, None, 0) => code::PMIX_SUCCESS,
        // No proc failed by itself: the job was ended on request.
        (None, None, _) => code::PMIX_ERR_JOB_CANCELED,
    };
    let infos = vec![
        Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(vec![requester])),
        Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(Proc::all(job))),
        Info::new(key::PMIX_JOB_TERM_STATUS, Value::Status(status)),
        Info::new(key::PMIX_EXIT_CODE, Value::Int(end.exit_status)),
    ];
    Event {
        code: code::PMIX_EVENT_JOB_END,
        source: None,
        range: Range::Custom,
        infos,
    }
}

/// Returns the status for the requester of a job that could not be started.
pub(super) fn status(error: &LaunchError) -> Status {
    match error {
        LaunchError::Program { source, .. } if source.kind() == ErrorKind::NotFound => {
            code::PMIX_ERR_JOB_EXE_NOT_FOUND
        }
        LaunchError::Program { .. } => code::PMIX_ERR_JOB_APP_NOT_EXECUTABLE,
        LaunchError::Wdir { source, .. } if source.kind() == ErrorKind::NotFound => {
            code::PMIX_ERR_JOB_WDIR_NOT_FOUND
        }
        LaunchError::Wdir { .. } => code::PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE,
        LaunchError::Output { .. } => code::PMIX_ERR_JOB_FAILED_TO_LAUNCH,
        LaunchError::Job(_) => code::PMIX_ERR_JOB_FAILED_TO_LAUNCH,
        LaunchError::Size { .. } => code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES,
    }
}
