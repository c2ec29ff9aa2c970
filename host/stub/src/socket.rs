//! Socket of a connection, on tokio.
use rustix::net::{SendFlags, send};
use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};
use tokio::io::{Interest, unix::AsyncFd};

/// Stream socket of a stub or its server.
///
/// Only its input is watched. The kernel reports room for output on a Unix socket whenever the peer
/// has read something: a process that watches both wakes twice for each message.
#[derive(Debug)]
pub struct StubSocket {
    stream: AsyncFd<UnixStream>,
}

impl StubSocket {
    /// Takes a connected stream. Must be called in the context of a runtime.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot watch the socket.
    pub fn new(stream: UnixStream) -> io::Result<StubSocket> {
        stream.set_nonblocking(true)?;
        let stream = watch(stream, Interest::READABLE)?;
        Ok(StubSocket { stream })
    }

    /// Waits for input and reads it; zero bytes are the end.
    ///
    /// # Errors
    ///
    /// The error of the socket.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.stream.readable().await?;
            let Ok(read) = ready.try_io(|stream| stream.get_ref().read(buffer)) else {
                continue;
            };
            // Nothing is left after a short read, so the next one waits at once.
            if read.as_ref().is_ok_and(|read| *read < buffer.len()) {
                ready.clear_ready();
            }
            return read;
        }
    }

    /// Waits for input and reads it by `read`.
    ///
    /// # Errors
    ///
    /// The error of `read`, but for one that says that there is no input.
    pub async fn read_by<R>(
        &self,
        mut read: impl FnMut(&UnixStream) -> io::Result<R>,
    ) -> io::Result<R> {
        let read = |stream: &UnixStream| read(stream);
        self.stream.async_io(Interest::READABLE, read).await
    }

    /// Sends as many bytes as the socket has room for, without a signal if it is broken.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(send(self, bytes, flags)?)
    }

    /// Waits until there is room for output, or the socket is broken.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot watch the socket.
    pub async fn writable(&self) -> io::Result<()> {
        // The runtime watches a descriptor once, so this is another one of the same socket.
        let output = self.stream.get_ref().try_clone()?;
        let output = watch(output, Interest::WRITABLE)?;
        output.writable().await.map(drop)
    }
}

/// Watches a stream, which keeps its descriptor open.
fn watch(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    #[expect(
        deprecated,
        reason = "the function in its place needs unsafe code; a stream does not close its descriptor by itself"
    )]
    AsyncFd::with_interest(stream, interest)
}

impl AsFd for StubSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_pass_through_a_socket_that_was_full() {
        let (here, there) = UnixStream::pair().unwrap();
        let (here, there) = (StubSocket::new(here), StubSocket::new(there));
        let (here, there) = (here.unwrap(), there.unwrap());
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        let sending = async {
            let (mut rest, mut full) = (&sent[..], 0);
            while !rest.is_empty() {
                match here.try_send(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        full += 1;
                        here.writable().await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            drop(here);
            full
        };
        let receiving = async {
            let (mut received, mut buffer) = (Vec::new(), [0; 1000]);
            loop {
                match there.read(&mut buffer).await.unwrap() {
                    0 => return received,
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
        };
        let (full, received) = tokio::join!(sending, receiving);
        assert!(full > 0, "the socket has room for all");
        assert!(received == sent);
    }
}
