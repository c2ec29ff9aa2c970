//! First messages of both sides. With its own, this process passes the receiving end of the sockets of
//! its forked children.
use super::{
    home::{Home, HomeError, HomeSettings},
    link::{HostLink, Incoming},
};
use crate::trace;
use peal_model::{Info, Infos, KeyName, Nspace, Proc, Rank, Value, key};
use peal_stub::{
    FrameLimit, PROTOCOL, ServerMessage, ServerWelcome, StubHello, StubMessage, StubSocket, encode,
};
use std::{
    env, io, mem,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    ptr,
};

/// Connection to a server that has accepted this process.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) link: HostLink,
    pub(super) incoming: Incoming,
    pub(super) welcome: ServerWelcome,
    /// Socket by which forked children say which procs they become.
    pub(super) children: OwnedFd,
}

/// Connects to the server that the settings choose. Where they leave it open and the node's server
/// refuses this process, it is one of the process alone: some hosts run nothing, and report success, if
/// the init fails.
pub(super) async fn open(settings: &HomeSettings, hello: StubHello) -> Result<Accepted, HomeError> {
    let hello =
        encode(&StubMessage::Hello(hello), FrameLimit::default()).map_err(HomeError::Hello)?;
    match settings.home {
        Home::Daemon => shake(settings.connect_to_daemon()?, &hello, settings).await,
        Home::Embedded => shake(settings.start_embedded()?, &hello, settings).await,
        Home::Auto => {
            if let Ok(stream) = settings.connect_to_daemon() {
                match shake(stream, &hello, settings).await {
                    Err(error) => trace::say(&format!("{error}; another server is started")),
                    accepted => return accepted,
                }
            }
            shake(settings.start_embedded()?, &hello, settings).await
        }
    }
}

/// Sends the first message, and waits for the server's.
async fn shake(
    stream: UnixStream,
    hello: &[u8],
    settings: &HomeSettings,
) -> Result<Accepted, HomeError> {
    let (sender, receiver) = children_sockets().map_err(HomeError::Socket)?;
    let link = HostLink::new(StubSocket::new(stream).map_err(HomeError::Socket)?);
    let mut incoming = Incoming::new();
    let answered = async {
        let sent = send_with(&link, hello, receiver.as_raw_fd()).await;
        let sent = sent.map_err(HomeError::Socket)?;
        link.send_bytes(hello.get(sent..).unwrap_or_default());
        tokio::select! {
            message = incoming.next(&link) => message.map_err(HomeError::NoWelcome),
            // It ends only with a broken stream, of which the other branch tells.
            () = link.send_outgoing() => Err(HomeError::Socket(io::ErrorKind::BrokenPipe.into())),
        }
    };
    let limit = settings.answer;
    let message = tokio::time::timeout(limit, answered).await;
    match message.map_err(|_| HomeError::NoAnswer { limit })?? {
        ServerMessage::Welcome(welcome) => Ok(Accepted {
            link,
            incoming,
            welcome,
            children: sender,
        }),
        ServerMessage::Refusal(refusal) => Err(HomeError::Refused(refusal)),
        _ => Err(HomeError::NotAnAnswer),
    }
}

/// Makes the sockets of forked children: the end that they send on, and the server's. The kernel says
/// of each message which process has sent it.
fn children_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [0; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has places for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new.
    let [sender, receiver] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    set_option(&receiver, libc::SO_PASSCRED, &1_i32)?;
    // A server that does not read must not keep a child from its program.
    let limit = libc::timeval {
        tv_sec: 5,
        tv_usec: 0,
    };
    set_option(&sender, libc::SO_SNDTIMEO, &limit)?;
    Ok((sender, receiver))
}

fn set_option<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the socket is open, and the pointer and the length are those of the value.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends the beginning of these bytes together with a descriptor. Returns the number of bytes.
async fn send_with(link: &HostLink, bytes: &[u8], descriptor: RawFd) -> io::Result<usize> {
    let socket = link.socket();
    loop {
        match send_descriptor(socket.as_fd().as_raw_fd(), bytes, descriptor) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            sent => return sent,
        }
    }
}

fn send_descriptor(socket: RawFd, bytes: &[u8], descriptor: RawFd) -> io::Result<usize> {
    /// Room for a control message, aligned as its header.
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let len = mem::size_of::<RawFd>() as u32;
    // SAFETY: the message is zeros but for pointers to places that live until the call returns. The
    // control message has a header and a descriptor, for which there is room.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(len) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(len) as _;
        libc::CMSG_DATA(header)
            .cast::<RawFd>()
            .write_unaligned(descriptor);
        libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Returns the first message for these infos of the init and the upcalls that are offered.
pub(super) fn hello(mut infos: Vec<Info>, offered: Vec<peal_stub::UpcallKind>) -> StubHello {
    let directories = directories(&infos, |variable| env::var(variable).ok());
    infos.extend(directories);
    StubHello {
        protocol: PROTOCOL,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        name: name(&infos, |variable| env::var(variable).ok()),
        infos,
        offered,
    }
}

/// Returns the directories of rendezvous files that the infos leave out, as the C library chooses them.
/// Procs get them in their environment.
fn directories(infos: &[Info], variable: impl Fn(&str) -> Option<String>) -> Vec<Info> {
    let temporary = || ["TMPDIR", "TEMP", "TMP"].into_iter().find_map(&variable);
    let keys = [
        (key::PMIX_SERVER_TMPDIR, "PMIX_SERVER_TMPDIR"),
        (key::PMIX_SYSTEM_TMPDIR, "PMIX_SYSTEM_TMPDIR"),
    ];
    let missing = keys
        .into_iter()
        .filter(|(key, _)| infos.value_of(*key).is_none());
    let info = |(key, name): (KeyName, &str)| {
        let directory = variable(name).or_else(temporary);
        let directory = directory.unwrap_or_else(|| "/tmp".to_owned());
        Info::new(key, Value::string(&directory))
    };
    missing.map(info).collect()
}

/// Returns the name that the infos or the environment give this process, as in the C library. A rank
/// alone is none, since the namespace would be that of every server.
fn name(infos: &[Info], variable: impl Fn(&str) -> Option<String>) -> Option<Proc> {
    let nspace = match infos
        .value_of(key::PMIX_SERVER_NSPACE)
        .and_then(Value::as_str)
    {
        Some(name) => name.to_owned(),
        None => variable("PMIX_SERVER_NAMESPACE")?,
    };
    let rank = match infos.value_of(key::PMIX_SERVER_RANK) {
        Some(Value::Rank(rank)) => Some(*rank),
        Some(other) => other
            .as_u64()
            .and_then(|rank| u32::try_from(rank).ok())
            .map(Rank),
        None => variable("PMIX_SERVER_RANK")
            .and_then(|rank| rank.parse().ok())
            .map(Rank),
    };
    let rank = rank.unwrap_or_else(|| Rank(std::process::id()));
    Some(Proc::new(Nspace::new(&nspace).ok()?, rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infos_name_the_process_before_its_environment() {
        let nspace = Info::new(key::PMIX_SERVER_NSPACE, Value::string("prte"));
        let rank = Info::new(key::PMIX_SERVER_RANK, Value::Rank(Rank(3)));
        let set = |variable: &str| {
            Some(
                if variable == "PMIX_SERVER_RANK" {
                    "7"
                } else {
                    "other"
                }
                .to_owned(),
            )
        };
        let named = |nspace, rank| Proc::new(Nspace::new(nspace).unwrap(), Rank(rank));
        let infos = [nspace, rank];
        assert_eq!(name(&infos, set), Some(named("prte", 3)));
        assert_eq!(
            name(&infos[..1], |_| None),
            Some(named("prte", std::process::id()))
        );
        assert_eq!(name(&[], set), Some(named("other", 7)));
        assert_eq!(name(&infos[1..], |_| None), None);
    }
}
