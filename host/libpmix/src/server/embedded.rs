//! Start of a server of this process alone: `peal host-server`, with a socket to this process as its
//! standard input.
//!
//! The server is no child of the host environment, which may end or stop all of its children: it runs
//! in a session of its own, below the process that adopts orphans. It ends with the socket. Its messages go to the standard
//! error of this process, or to the system's log where that leads nowhere.
use crate::trace;
use std::{
    env,
    ffi::{CString, OsStr, OsString, c_char, c_int},
    fs::File,
    io::{self, Read},
    mem,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, ffi::OsStringExt, net::UnixStream},
    },
    path::Path,
    ptr,
};

/// Descriptor of the socket in the server.
const SOCKET: RawFd = libc::STDIN_FILENO;

/// Descriptor in the server by which it reports that its program was not started.
const REPORT: RawFd = 3;

/// First descriptor of this process for what is passed: above those that are written over.
const FIRST_FREE: c_int = 16;

/// Largest number of a signal.
const SIGNALS: c_int = 64;

/// Search path where this process has none, as on a node's boot.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Everything that the new process needs, in memory that needs no allocation any more.
struct Launch {
    program: CString,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    socket: RawFd,
    report: RawFd,
    /// Standard error, if it is not that of this process.
    errors: Option<RawFd>,
}

/// Starts the server, and returns the other end of its socket.
pub(super) fn start(program: &Path) -> io::Result<UnixStream> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let (here, there) = UnixStream::pair()?;
    let (report, reporter) = io::pipe()?;
    let (socket, reported) = (above(&there)?, above(&reporter)?);
    let errors = trace::system_log().map(|log| above(&log)).transpose()?;
    let program = text(program.as_os_str().as_bytes())?;
    let words = [program.clone(), text(b"host-server")?];
    let variables = environment()
        .iter()
        .map(|variable| text(variable.as_bytes()))
        .collect::<io::Result<Vec<CString>>>()?;
    let launch = Launch {
        program,
        arguments: list(&words),
        environment: list(&variables),
        socket: socket.as_raw_fd(),
        report: reported.as_raw_fd(),
        errors: errors.as_ref().map(AsRawFd::as_raw_fd),
    };
    detach(&launch)?;
    // Its end is awaited, so no copy of the pipe may stay here.
    drop((there, socket, reporter, reported));
    let mut error = [0; 4];
    // The end of the pipe says that the program runs.
    match File::from(OwnedFd::from(report)).read(&mut error)? {
        0 => Ok(here),
        _ => Err(io::Error::from_raw_os_error(c_int::from_ne_bytes(error))),
    }
}

/// Returns another descriptor of the same, above those that the server gets.
fn above(descriptor: &impl AsRawFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open.
    let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST_FREE) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns pointers to strings, and a null pointer behind them.
fn list(texts: &[CString]) -> Vec<*const c_char> {
    let pointers = texts.iter().map(|text| text.as_ptr());
    pointers.chain([ptr::null()]).collect()
}

/// Returns the environment of the server: what it needs, and what the site has set for Peal.
fn environment() -> Vec<OsString> {
    // SAFETY: the function has no conditions.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    environment_of(env::vars_os(), is_privileged)
}

fn environment_of(
    variables: impl Iterator<Item = (OsString, OsString)>,
    is_privileged: bool,
) -> Vec<OsString> {
    let is_needed = |name: &OsStr| {
        let name = name.as_bytes();
        // A user of a program with more rights has no say in its server.
        !is_privileged
            && (name.starts_with(b"PEAL_") || [&b"PATH"[..], b"HOME", b"TMPDIR"].contains(&name))
    };
    let needed = variables.filter(|(name, _)| is_needed(name));
    let mut environment: Vec<OsString> = needed
        .map(|(name, value)| OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect();
    if !environment
        .iter()
        .any(|variable| variable.as_bytes().starts_with(b"PATH="))
    {
        environment.push(format!("PATH={PATH}").into());
    }
    environment
}

/// Runs the program in a process that is no child of this one.
fn detach(launch: &Launch) -> io::Result<()> {
    // No handler of the host environment may run in the new processes.
    let mut all: libc::sigset_t = no_signals();
    let mut before: libc::sigset_t = no_signals();
    // SAFETY: the sets are places for sets.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    // SAFETY: the child does only what a signal handler may do.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: this is the child.
        unsafe { become_orphan(launch) };
    }
    let forked = if child < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    };
    // SAFETY: the set is the one from above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    forked?;
    // SAFETY: the child is one of this process, and has no use for its status.
    while unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WALL) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    Ok(())
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: a set is numbers, and no signals are zeros.
    unsafe { mem::zeroed() }
}

/// Forks without a signal at the child's end, and so that only a wait for the child itself finds it:
/// the host environment waits for children of its own.
///
/// # Safety
///
/// The child may only do what a signal handler may do.
unsafe fn fork() -> libc::pid_t {
    // SAFETY: without a stack and shared memory the call is a fork. No handlers of forks run, which
    // a child that uses no library does not need.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    libc::pid_t::try_from(child).unwrap_or(-1)
}

/// Continues as the parent of the server, and ends: the server is then an orphan.
///
/// # Safety
///
/// As for [`fork`]: this is the child of one.
unsafe fn become_orphan(launch: &Launch) -> ! {
    // SAFETY: the calls are those that a signal handler may make.
    unsafe {
        libc::setsid();
        match fork() {
            0 => run(launch),
            child => libc::_exit(c_int::from(child < 0)),
        }
    }
}

/// Becomes the server. Reports the error if that fails.
///
/// # Safety
///
/// As for [`fork`]: this is the child of one.
unsafe fn run(launch: &Launch) -> ! {
    // SAFETY: the calls are those that a signal handler may make; all pointers are those of
    // `launch`, which is a copy of the parent's.
    unsafe {
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=SIGNALS {
            libc::sigaction(signal, &default, ptr::null_mut());
        }
        libc::dup2(launch.socket, SOCKET);
        libc::dup3(launch.report, REPORT, libc::O_CLOEXEC);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        libc::dup2(null, libc::STDOUT_FILENO);
        if let Some(errors) = launch.errors {
            libc::dup2(errors, libc::STDERR_FILENO);
        }
        if libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) < 0 {
            libc::dup2(null, libc::STDERR_FILENO);
        }
        close_from(REPORT + 1);
        libc::chdir(c"/".as_ptr());
        let none = no_signals();
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::execve(
            launch.program.as_ptr(),
            launch.arguments.as_ptr(),
            launch.environment.as_ptr(),
        );
        let error = (*libc::__errno_location()).to_ne_bytes();
        libc::write(REPORT, error.as_ptr().cast(), error.len());
        libc::_exit(127)
    }
}

/// Closes all descriptors from this one on.
///
/// # Safety
///
/// Nothing uses them any more.
unsafe fn close_from(first: RawFd) {
    // SAFETY: the caller guarantees that they may be closed.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, c_int::MAX, 0) == 0 {
            return;
        }
        // A kernel before 5.9.
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let end = c_int::try_from(limit.rlim_cur).unwrap_or(1 << 20);
        for descriptor in first..end {
            libc::close(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

    fn script(directory: &Path, text: &str) -> PathBuf {
        let path = directory.join("peal");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn server_has_its_socket_and_nothing_else_of_this_process() {
        let directory = tempfile::tempdir().unwrap();
        let text = "exec >&0; cat /proc/$$/stat; ls /proc/$$/fd; pwd; echo $1; exec cat";
        let mut here = start(&script(directory.path(), text)).unwrap();
        here.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = String::new();
        here.read_to_string(&mut said).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let stat: Vec<&str> = lines[0].rsplit(") ").next().unwrap().split(' ').collect();
        let own = std::process::id().to_string();
        assert_ne!(stat[1], own, "not a child of this process");
        // SAFETY: the call has no conditions.
        let session = unsafe { libc::getsid(0) };
        assert_ne!(stat[3], session.to_string(), "a session of its own");
        // A shell may have its script open, too, above 9.
        let inherited = |line: &&&str| line.parse::<u32>().is_ok_and(|number| number < 10);
        let descriptors: Vec<&&str> = lines[1..].iter().filter(inherited).collect();
        assert_eq!(descriptors, [&"0", &"1", &"2"]);
        assert_eq!(lines[lines.len() - 2..], ["/", "host-server"]);
    }

    #[test]
    fn program_that_cannot_run_is_an_error_of_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let error = start(&directory.path().join("missing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn environment_has_what_the_site_set_for_peal() {
        let given = [("PEAL_LOG", "info"), ("HOME", "/root"), ("LD_PRELOAD", "x")];
        let given = || {
            given
                .map(|(name, value)| (name.into(), value.into()))
                .into_iter()
        };
        let path = OsString::from(format!("PATH={PATH}"));
        let all = environment_of(given(), false);
        assert_eq!(
            all,
            [
                OsString::from("PEAL_LOG=info"),
                "HOME=/root".into(),
                path.clone()
            ]
        );
        assert_eq!(environment_of(given(), true), [path]);
    }
}
