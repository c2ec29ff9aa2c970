//! First message on the first connection. It brings the two others.
use crate::{error::TenantRuntimeError, message::RuntimeHello};
use peal_frames::{
    CodecError, FrameLimit, MessageWithDescriptors, StreamError, receive_with_descriptors,
    send_with_descriptors,
};
use rustix::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Longest first message.
const LIMIT: FrameLimit = FrameLimit(8192);

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
    let descriptors = [their_modules.as_fd(), their_services.as_fd()];
    send_with_descriptors(calls, hello, &descriptors, LIMIT)?;
    Ok(FurtherConnections { modules, services })
}

/// Receives the first message. Blocks.
pub(crate) fn greeted(
    calls: &UnixStream,
) -> Result<(RuntimeHello, FurtherConnections), TenantRuntimeError> {
    let received = receive_with_descriptors(calls, LIMIT);
    let MessageWithDescriptors {
        message: hello,
        descriptors,
    } = received.map_err(|error| match error {
        StreamError::Message(CodecError::NotSingle(_)) => TenantRuntimeError::Greeting,
        error => error.into(),
    })?;
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
