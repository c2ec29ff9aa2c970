//! Messages between a server and its privileged helper.
use crate::{
    control::{ControlFailure, ControlOrder},
    files::FilePlace,
    removal::{RemovalExtent, RemovalOrder},
};
use peal_core::monitor::FileStat;
use peal_frames::FrameLimit;
use peal_model::UserIdentity;
use peal_system::{process::ProcessId, socket_holder::HolderSearch};
use serde::{Deserialize, Serialize};
use std::{io, path::PathBuf};
use thiserror::Error;

/// Version of the messages. A server and a helper of different versions do not work together.
pub const PROTOCOL: u16 = 1;

/// Longest message. A removal may name many paths, each of up to 4 KiB.
pub const LIMIT: FrameLimit = FrameLimit(64 << 20);

/// Number of a call, unique among the open calls of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CallNumber(pub u64);

/// Message of a server to its helper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToHelper {
    /// First message, with the version of the server.
    Hello(u16),
    /// Call.
    Call {
        /// Number that the answer repeats.
        number: CallNumber,
        /// The work.
        call: HelperCall,
    },
}

/// Message of a helper to its server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromHelper {
    /// Answer to the first message, with the version of the helper.
    Hello(u16),
    /// Answer to a call.
    Answer {
        /// Number of the call.
        number: CallNumber,
        /// The answer, or the reason of the refusal.
        answer: Result<HelperAnswer, HelperRefusal>,
    },
}

/// Work for a helper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HelperCall {
    /// Search for the process that holds a socket.
    FindHolder(HolderSearch),
    /// Removal of files and directories as their user.
    Remove(RemovalOrder),
    /// Opening of a file's directory, as a user.
    OpenFile(FileRequest),
    /// Metadata of an opened file.
    ReadFile(FilePlace),
    /// End of the use of an opened file. Its answer says nothing.
    CloseFile(FilePlace),
    /// Action on processes as their user.
    Control(ControlOrder),
}

impl HelperCall {
    /// Returns the kind of the call in a few words.
    pub fn kind(&self) -> &'static str {
        match self {
            HelperCall::FindHolder(_) => "search for the holder of a connection",
            HelperCall::Remove(_) => "removal of files",
            HelperCall::OpenFile(_) => "opening of a file",
            HelperCall::ReadFile(_) => "look at a file",
            HelperCall::CloseFile(_) => "end of the use of a file",
            HelperCall::Control(_) => "control of processes",
        }
    }

    /// Returns the user as whom the helper is to act; none for other calls.
    pub fn uid(&self) -> Option<u32> {
        match self {
            HelperCall::Remove(order) => Some(order.identity.uid),
            HelperCall::OpenFile(request) => Some(request.identity.uid),
            HelperCall::Control(order) => Some(order.owner.uid),
            HelperCall::FindHolder(_) | HelperCall::ReadFile(_) | HelperCall::CloseFile(_) => None,
        }
    }
}

/// File to open as a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileRequest {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// User with whose rights the file is opened.
    pub identity: UserIdentity,
}

/// File that was opened, and its metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenedFile {
    /// Place of the file in its directory.
    pub place: FilePlace,
    /// Metadata.
    pub stat: FileStat,
}

/// Answer to a call of the same name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HelperAnswer {
    /// Process that holds the socket; none if it was not found.
    Holder(Option<ProcessId>),
    /// Extent of the removal.
    Removed(RemovalExtent),
    /// Opened file.
    Opened(Result<OpenedFile, FileFault>),
    /// Metadata of the file; none if it no longer exists or its user may not read it.
    Read(Option<FileStat>),
    /// The file is closed.
    Closed,
    /// Processes on which the action failed.
    Controlled(Vec<ControlFailure>),
}

/// Reason why a file cannot be opened or read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
pub enum FileFault {
    /// System error.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    System(i32),
    /// The path names a link, a directory or a device.
    #[error("no regular file; for a link, name its target")]
    Irregular,
}

impl FileFault {
    /// Returns the fault of a failed operation.
    pub(crate) fn of(error: &io::Error) -> FileFault {
        // An error without a number comes from a check of this program.
        FileFault::System(
            error
                .raw_os_error()
                .unwrap_or(rustix::io::Errno::INVAL.raw_os_error()),
        )
    }
}

/// Reason why a helper does not carry out a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
pub enum HelperRefusal {
    /// The helper acts for no user that it has not seen itself.
    #[error(
        "no process of user {0} was found at a connection of the server, so nothing is done as that user"
    )]
    UnknownUser(u32),
    /// The helper acts as root only for a server that runs as root.
    #[error("nothing is done as root for a server of another user")]
    Root,
    /// The path is not below the directories in which files may be removed.
    #[error("{0:?} is not below a directory of confinement.cleanup_roots")]
    Outside(PathBuf),
    /// The path is not absolute or has `.` or `..`.
    #[error("{0:?} is no plain absolute path")]
    Path(PathBuf),
    /// The process belongs to somebody else, or has ended.
    #[error("process {pid} does not run as user {uid}")]
    NotTheirs {
        /// Process that was named.
        pid: u32,
        /// User that was named.
        uid: u32,
    },
    /// The file was not opened, or is closed.
    #[error("file {} is not open", .0.0)]
    NotOpen(FilePlace),
    /// Too many calls or files are open.
    #[error("{0} are open at the helper, as many as may be")]
    TooMany(usize),
    /// The helper cannot take on the rights of the user.
    #[error("cannot act as user {uid}: {}", io::Error::from_raw_os_error(*.errno))]
    Switch {
        /// The user.
        uid: u32,
        /// System error.
        errno: i32,
    },
}

/// Reason why a call has no answer.
#[derive(Debug, Error)]
pub enum HelperError {
    /// The helper refused the call.
    #[error("the privileged helper refuses: {0}")]
    Refused(#[from] HelperRefusal),
    /// The connection to the helper failed. Later calls start a new helper.
    #[error("the privileged helper is lost: {0}")]
    Lost(String),
    /// The helper did not answer in time.
    #[error("the privileged helper does not answer")]
    Timeout,
}
