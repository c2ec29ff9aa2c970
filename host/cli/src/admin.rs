//! Requests on the admin socket of a running server, and the choice of that socket.
use crate::{
    args::{DryRunArgs, ServerArgs, ShutdownArgs},
    config,
    confirm::{self, UserConsent},
    output,
};
use anyhow::{Error, Result, anyhow, bail};
use peal_model::counted;
use peal_server::admin::{self, AdminReply, AdminRequest, AdminRequestError, Answers};
use rustix::process::geteuid;
use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Default socket of root's server.
const SYSTEM: &str = "/run/peal/admin.sock";

/// Directory of the sockets of servers that launchers of root have started. That of [`SYSTEM`] belongs to
/// the user of the node's server, and another user could replace sockets in it.
const LAUNCHERS: &str = "/run/peal-launchers";

/// Returns the default socket of a server of this user.
pub fn usual_socket() -> PathBuf {
    if geteuid().is_root() {
        return SYSTEM.into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        // A relative path is to be ignored (XDG Base Directory Specification).
        .filter(|dir| dir.is_absolute());
    let dir = runtime.map_or_else(private_dir, |dir| dir.join("peal"));
    dir.join("admin.sock")
}

/// Beginning of the names of the sockets of servers that launchers have started.
pub const LAUNCHER_SOCKETS: &str = "launcher-";

/// Returns the socket of a server that one launcher has started. Several run at once.
pub fn launcher_socket() -> PathBuf {
    let name = format!("{LAUNCHER_SOCKETS}{}.sock", std::process::id());
    if geteuid().is_root() {
        return Path::new(LAUNCHERS).join(name);
    }
    usual_socket().with_file_name(name)
}

/// Returns a directory of this user for systems that provide none. Another user could have created
/// it first.
fn private_dir() -> PathBuf {
    std::env::temp_dir().join(format!("peal-{}", geteuid().as_raw()))
}

/// Sends a request to the chosen server, and returns its reply. A refusal is an error.
pub fn request(at: ServerArgs, call: &AdminRequest) -> Result<(AdminReply, Answers)> {
    let mut answers = admin::request(&socket(at)?, call).map_err(explained)?;
    match answers.reply()? {
        AdminReply::Refused { reason } => bail!("the server refuses: {reason}"),
        reply => Ok((reply, answers)),
    }
}

/// Line that a dry run prints on standard error.
pub const NOTHING_CHANGED: &str = "dry run: nothing was changed";

/// Sends a request that changes something, and returns its reply. In a dry run the server only checks the
/// request, and the reply is the one that the request would have.
pub fn request_change(
    at: ServerArgs,
    call: AdminRequest,
    dry_run: DryRunArgs,
) -> Result<(AdminReply, Answers)> {
    if !dry_run.dry_run {
        return request(at, &call);
    }
    let call = Box::new(call);
    match request(at, &AdminRequest::Check { call })? {
        (AdminReply::Checked { would }, answers) => {
            crate::print_line(NOTHING_CHANGED);
            Ok((*would, answers))
        }
        (reply, _) => unexpected(&reply),
    }
}

/// Adds a hint for the user to an error.
fn explained(error: AdminRequestError) -> Error {
    let hint = match &error {
        AdminRequestError::Connect { source, .. }
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            let me = geteuid().as_raw();
            format!(
                "user {me} may not use it: root and the server's own user may, and the members of the group that admin.group in \
                 its configuration names"
            )
        }
        AdminRequestError::Connect { .. } => format!(
            "`peal serve` starts a server (`peal run` has no admin socket); one that listens elsewhere is named by --socket, or by \
             admin.socket in the file that --config names. Without them it is {}",
            usual_place()
        ),
        _ => return error.into(),
    };
    anyhow!("{}\n{hint}", crate::error_text(&Error::new(error)))
}

/// Describes the default socket and the reason for its directory.
fn usual_place() -> String {
    let why = match (geteuid().is_root(), std::env::var_os("XDG_RUNTIME_DIR")) {
        (true, _) => "for root",
        (false, Some(_)) => "by XDG_RUNTIME_DIR",
        (false, None) => "by TMPDIR, since XDG_RUNTIME_DIR is not set",
    };
    format!("{} {why}", usual_socket().display())
}

/// Returns the error for a reply of another kind than the request.
pub fn unexpected<T>(reply: &AdminReply) -> Result<T> {
    bail!("the server sent an unexpected reply: {reply:?}")
}

/// Runs `peal drain` or `peal stop`.
pub fn end(args: ShutdownArgs, call: AdminRequest) -> Result<ExitCode> {
    let ShutdownArgs {
        at,
        wait,
        dry_run,
        confirm,
    } = args;
    let verb = call.to_string();
    if dry_run.dry_run {
        let what = described(at.clone(), &verb)?;
        request_change(at, call, dry_run)?;
        output::print(&format!("would {what}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if confirm.ask(|| described(at.clone(), &verb))? == UserConsent::Declined {
        return Ok(confirm::report_declined());
    }
    let (reply, answers) = request(at, &call)?;
    match reply {
        AdminReply::Draining | AdminReply::Stopping if !wait => Ok(ExitCode::SUCCESS),
        AdminReply::Draining | AdminReply::Stopping => match answers.end()? {
            AdminReply::Ended => Ok(ExitCode::SUCCESS),
            reply => unexpected(&reply),
        },
        reply => unexpected(&reply),
    }
}

/// Describes the end of a server in words.
fn described(at: ServerArgs, verb: &str) -> Result<String> {
    let (reply, _) = request(at, &AdminRequest::Status)?;
    let AdminReply::Status(status) = reply else {
        return unexpected(&reply);
    };
    Ok(format!(
        "{verb} the server of process {} with {} and {}",
        status.pid,
        counted(status.jobs, "job"),
        counted(status.connections, "connection")
    ))
}

/// Returns the socket of the command line or the configuration, else that of this user, else that
/// of root.
pub fn socket(at: ServerArgs) -> Result<PathBuf> {
    if let Some(path) = at.socket {
        return Ok(path);
    }
    // Errors in other sections must not keep an admin from a server that runs.
    if let Some(path) = config::load_sections(at.config, &["admin"])?.admin.socket {
        return Ok(path);
    }
    let usual = usual_socket();
    if !usual.exists() && Path::new(SYSTEM).exists() {
        return Ok(SYSTEM.into());
    }
    if usual.starts_with(private_dir()) && is_of_another_user(&private_dir()) {
        bail!(
            "{:?} belongs to another user; name the server by --socket",
            private_dir()
        );
    }
    Ok(usual)
}

fn is_of_another_user(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|found| found.uid() != geteuid().as_raw())
}
