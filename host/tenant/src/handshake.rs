//! First message on the first connection. It brings the others.
use crate::{error::TenantRuntimeError, message::RuntimeHello};
use peal_frames::{
    CodecError, FrameLimit, MAX_DESCRIPTORS, MessageWithDescriptors, StreamError,
    receive_with_descriptors, send_with_descriptors,
};
use rustix::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Longest first message.
const LIMIT: FrameLimit = FrameLimit(8192);

/// Largest number of chains that a process runs at once: each has a connection of its own.
pub(crate) const MAX_CHAINS: usize = 16;

// Those, and the one for services, come with one message.
const _: () = assert!(MAX_CHAINS < MAX_DESCRIPTORS);

/// Connections of a process beside the first one.
#[derive(Debug)]
pub(crate) struct FurtherConnections {
    /// Connection on which the process asks for services.
    pub(crate) services: UnixStream,
    /// Connections on which it runs chains, one at a time on each.
    pub(crate) chains: Vec<UnixStream>,
}

/// Sends the first message with the process's ends of the further connections. Returns the server's
/// ends.
pub(crate) fn greet(
    first: &UnixStream,
    hello: &RuntimeHello,
) -> Result<FurtherConnections, TenantRuntimeError> {
    let (services, their_services) = UnixStream::pair()?;
    let mut chains = Vec::new();
    let mut theirs = vec![their_services];
    for _ in 0..hello.settings.threads.clamp(1, MAX_CHAINS) {
        let (chain, their_chain) = UnixStream::pair()?;
        chains.push(chain);
        theirs.push(their_chain);
    }
    let descriptors: Vec<_> = theirs.iter().map(AsFd::as_fd).collect();
    send_with_descriptors(first, hello, &descriptors, LIMIT)?;
    Ok(FurtherConnections { services, chains })
}

/// Receives the first message. Blocks.
pub(crate) fn greeted(
    first: &UnixStream,
) -> Result<(RuntimeHello, FurtherConnections), TenantRuntimeError> {
    let received = receive_with_descriptors(first, LIMIT);
    let MessageWithDescriptors {
        message: hello,
        descriptors,
    } = received.map_err(|error| match error {
        StreamError::Message(CodecError::NotSingle(_)) => TenantRuntimeError::Greeting,
        error => error.into(),
    })?;
    let mut streams = descriptors.into_iter().map(UnixStream::from);
    let services = streams.next().ok_or(TenantRuntimeError::Greeting)?;
    let chains: Vec<_> = streams.collect();
    if chains.is_empty() {
        return Err(TenantRuntimeError::Greeting);
    }
    Ok((hello, FurtherConnections { services, chains }))
}
