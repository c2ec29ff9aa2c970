//! Choice of the server: the one of the node, or one of this process alone.
use super::{embedded, executable, link::LinkError};
use crate::client::library::InitError;
use peal_client::ClientError;
use peal_model::{Status, code};
use peal_stub::{CodecError, StubRefusal};
use std::{
    ffi::{CStr, CString, OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::PathBuf,
    time::Duration,
};
use thiserror::Error;

/// Socket of the node's server, unless another one is set.
const SOCKET: &str = "/run/peal/hosts.sock";

/// Time limit for the server's answer to the first message: a server may have to compile modules.
const ANSWER: Duration = Duration::from_secs(60);

/// Variable that sets something of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting(&'static str);

impl Setting {
    /// `auto`, `embedded` or `daemon`.
    const HOME: Setting = Setting("PEAL_SERVER");
    /// Socket of the node's server.
    const SOCKET: Setting = Setting("PEAL_HOSTS_SOCKET");
    /// Executable of a server of this process alone.
    pub(super) const EXECUTABLE: Setting = Setting("PEAL_EXECUTABLE");
    /// Time limit for the server's first answer, in seconds.
    const ANSWER: Setting = Setting("PEAL_SERVER_TIMEOUT");
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Reason why there is no server.
#[derive(Debug, Error)]
pub(super) enum HomeError {
    /// The choice is none of the three.
    #[error(
        "{} is {value:?}; it should be auto, embedded or daemon",
        Setting::HOME
    )]
    UnknownHome {
        /// Value of the variable.
        value: OsString,
    },
    /// The time limit is no number of seconds.
    #[error(
        "{} is {value:?}; it should be a number of seconds from 1",
        Setting::ANSWER
    )]
    BadTimeout {
        /// Value of the variable.
        value: OsString,
    },
    /// The node has no server.
    #[error(
        "no server at {}: {source}; {}=daemon needs `peal serve` with `hosts.socket`, and auto starts a server",
        .path.display(), Setting::HOME
    )]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No executable was found.
    #[error("no executable `peal` at {}; {variable} names another place", listed(.looked))]
    NoExecutable {
        /// Variable that sets the place.
        variable: Setting,
        /// Places that were looked at.
        looked: Vec<PathBuf>,
    },
    /// The server was not started.
    #[error("{} not started: {source}", .path.display())]
    Start {
        /// The executable.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A socket cannot be made or used.
    #[error("socket of the server: {0}")]
    Socket(io::Error),
    /// The timer of the answers cannot be made.
    #[error("timer of the library: {0}")]
    Timer(io::Error),
    /// The first message is too long.
    #[error("first message to the server: {0}")]
    Hello(CodecError),
    /// The server did not answer in time.
    #[error(
        "the server did not answer within {limit:?}; {} sets another limit",
        Setting::ANSWER
    )]
    NoAnswer {
        /// Time limit.
        limit: Duration,
    },
    /// The connection ended before the answer. The reason is among the messages of the server.
    #[error("no answer of the server: {0}; its own messages say why")]
    NoWelcome(LinkError),
    /// The answer is not the one to the first message.
    #[error("the first message of the server is no answer")]
    NotAnAnswer,
    /// There is no client for the handlers of this process.
    #[error(transparent)]
    Client(ClientError),
    /// The server refuses this process.
    #[error("the server refuses this process: {0}")]
    Refused(StubRefusal),
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

impl InitError for HomeError {
    fn init_status(&self) -> Status {
        match self {
            HomeError::UnknownHome { .. } | HomeError::BadTimeout { .. } => {
                code::PMIX_ERR_BAD_PARAM
            }
            HomeError::NoAnswer { .. } => code::PMIX_ERR_TIMEOUT,
            HomeError::Hello(_) => code::PMIX_ERR_PACK_FAILURE,
            HomeError::Refused(StubRefusal::User { .. }) => code::PMIX_ERR_NO_PERMISSIONS,
            HomeError::Refused(StubRefusal::TooMany { .. }) => code::PMIX_ERR_OUT_OF_RESOURCE,
            HomeError::Client(error) => error.init_status(),
            _ => code::PMIX_ERR_UNREACH,
        }
    }
}

/// Choice of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// The node's server if it is there, else one of this process alone.
    Auto,
    /// A server of this process alone.
    Embedded,
    /// The node's server.
    Daemon,
}

/// Settings of the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HomeSettings {
    pub(super) home: Home,
    pub(super) socket: PathBuf,
    pub(super) executable: Option<PathBuf>,
    /// Time limit for the server's first answer.
    pub(super) answer: Duration,
}

impl HomeSettings {
    /// Reads the settings from the environment, which is empty for a process with more rights than
    /// its user.
    pub(super) fn read() -> Result<HomeSettings, HomeError> {
        HomeSettings::from(|setting| secure_variable(setting.0))
    }

    fn from(get: impl Fn(Setting) -> Option<OsString>) -> Result<HomeSettings, HomeError> {
        let set = |setting| get(setting).filter(|value| !value.is_empty());
        let home = match set(Setting::HOME) {
            None => Home::Auto,
            Some(value) => match value.as_bytes() {
                b"auto" => Home::Auto,
                b"embedded" => Home::Embedded,
                b"daemon" => Home::Daemon,
                _ => return Err(HomeError::UnknownHome { value }),
            },
        };
        let answer = match set(Setting::ANSWER) {
            None => ANSWER,
            Some(value) => match value.to_str().and_then(|text| text.parse().ok()) {
                Some(seconds @ 1..) => Duration::from_secs(seconds),
                _ => return Err(HomeError::BadTimeout { value }),
            },
        };
        Ok(HomeSettings {
            home,
            socket: set(Setting::SOCKET).map_or_else(|| SOCKET.into(), PathBuf::from),
            executable: set(Setting::EXECUTABLE).map(PathBuf::from),
            answer,
        })
    }

    /// Connects to the node's server.
    pub(super) fn connect_to_daemon(&self) -> Result<UnixStream, HomeError> {
        let no_daemon = |source| HomeError::NoDaemon {
            path: self.socket.clone(),
            source,
        };
        UnixStream::connect(&self.socket).map_err(no_daemon)
    }

    /// Starts a server of this process alone.
    pub(super) fn start_embedded(&self) -> Result<UnixStream, HomeError> {
        let path = executable::find(self.executable.clone())?;
        let start = |source| HomeError::Start {
            path: path.clone(),
            source,
        };
        embedded::start(&path).map_err(start)
    }
}

unsafe extern "C" {
    fn secure_getenv(name: *const libc::c_char) -> *const libc::c_char;
}

/// Returns a variable; none in a process with more rights than its user.
fn secure_variable(name: &str) -> Option<OsString> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a string.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the value is a string of the environment, which nothing changes meanwhile.
    let value = unsafe { CStr::from_ptr(value) };
    Some(OsStr::from_bytes(value.to_bytes()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(Setting, &str)]) -> Result<HomeSettings, HomeError> {
        HomeSettings::from(|asked| {
            let found = given.iter().find(|(setting, _)| *setting == asked);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn choice_has_three_values_and_others_are_refused() {
        for (value, home) in [
            ("", Home::Auto),
            ("auto", Home::Auto),
            ("embedded", Home::Embedded),
            ("daemon", Home::Daemon),
        ] {
            assert_eq!(of(&[(Setting::HOME, value)]).unwrap().home, home);
        }
        let text = of(&[(Setting::HOME, "demon")]).unwrap_err().to_string();
        assert_eq!(
            text,
            "PEAL_SERVER is \"demon\"; it should be auto, embedded or daemon"
        );
        assert!(of(&[(Setting::ANSWER, "0")]).is_err());
        let set = of(&[(Setting::ANSWER, "7"), (Setting::SOCKET, "/s")]).unwrap();
        assert_eq!((set.answer.as_secs(), set.socket), (7, "/s".into()));
    }

    #[test]
    fn missing_daemon_is_named_with_its_socket() {
        let settings = of(&[(Setting::SOCKET, "/nowhere/hosts.sock")]).unwrap();
        let error = settings.connect_to_daemon().unwrap_err();
        assert_eq!(error.init_status(), code::PMIX_ERR_UNREACH);
        let text = error.to_string();
        assert!(text.contains("/nowhere/hosts.sock"), "{text}");
    }
}
