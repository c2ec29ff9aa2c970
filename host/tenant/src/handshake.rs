//! First message on the first connection. It brings the two others.
use crate::{error::TenantRuntimeError, message::RuntimeHello};
use peal_frames::{FrameLimit, MessageDecoder, encode};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::{IoSlice, IoSliceMut},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use std::os::unix::net::UnixStream;

/// Longest first message.
const LIMIT: FrameLimit = FrameLimit(8192);

/// Length of the first message with its header.
const FRAME: usize = 8192 + 4;

/// Connections of a process beside the first one.
#[derive(Debug)]
pub(crate) struct FurtherConnections {
    /// Connection on which modules are loaded and removed.
    pub(crate) modules: UnixStream,
    /// Connection on which the process asks for services.
    pub(crate) services: UnixStream,
}

/// Sends the first message with the process's ends of the further connections. Returns the server's
/// ends.
pub(crate) fn greet(
    calls: &UnixStream,
    hello: &RuntimeHello,
) -> Result<FurtherConnections, TenantRuntimeError> {
    let (modules, their_modules) = UnixStream::pair()?;
    let (services, their_services) = UnixStream::pair()?;
    let frame = encode(hello, LIMIT)?;
    let descriptors: [BorrowedFd<'_>; 2] = [their_modules.as_fd(), their_services.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(TenantRuntimeError::Greeting);
    }
    let sent = sendmsg(
        calls,
        &[IoSlice::new(&frame)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )
    .map_err(std::io::Error::from)?;
    // The buffer of a new connection has room for it.
    if sent != frame.len() {
        return Err(TenantRuntimeError::Greeting);
    }
    Ok(FurtherConnections { modules, services })
}

/// Receives the first message. Blocks.
pub(crate) fn greeted(
    calls: &UnixStream,
) -> Result<(RuntimeHello, FurtherConnections), TenantRuntimeError> {
    let mut bytes = [0; FRAME];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(calls, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(std::io::Error::from)?;
    let descriptors: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let mut decoder = MessageDecoder::new(LIMIT);
    decoder.push(bytes.get(..received.bytes).unwrap_or_default());
    // The server sends nothing else before it has an answer.
    let hello = match decoder.next_message()? {
        Some(hello) if decoder.pending() == 0 => hello,
        _ => return Err(TenantRuntimeError::Greeting),
    };
    let [modules, services] =
        <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| TenantRuntimeError::Greeting)?;
    Ok((
        hello,
        FurtherConnections {
            modules: modules.into(),
            services: services.into(),
        },
    ))
}
