//! Connection of an attacker or victim after its handshake, with blocking calls.
use crate::raw_client::encoded;
use anyhow::{Context, Result, bail};
use peal_model::{CommandCode, Reply, Request, Status};
use peal_wire::{Codec, DecodeLimits, Frame, FrameDecoder, Hello, Tag, WelcomeDecoder};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Connection that the server has admitted.
pub(super) struct AdmittedConnection {
    pub(super) stream: TcpStream,
    unread: Vec<u8>,
    codec: Codec,
    frames: FrameDecoder,
    next: Tag,
}

impl AdmittedConnection {
    /// Connects with this handshake. Returns an error if the server refuses.
    pub(super) fn connect(server: SocketAddr, hello: &Hello) -> Result<AdmittedConnection> {
        AdmittedConnection::try_connect(server, hello)?.context("the server refuses")
    }

    /// Connects with this handshake. Returns `None` if the server refuses, which closes without a
    /// byte, or resets.
    pub(super) fn try_connect(
        server: SocketAddr,
        hello: &Hello,
    ) -> Result<Option<AdmittedConnection>> {
        let mut stream = TcpStream::connect(server).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if stream.write_all(&encoded(hello)).is_err() {
            return Ok(None);
        }
        let codec = Codec::of(hello, DecodeLimits::default());
        let frames = FrameDecoder::new(&codec.limits);
        let mut connection = AdmittedConnection {
            stream,
            unread: Vec::new(),
            codec,
            frames,
            next: Tag::FIRST_REQUEST,
        };
        let mut welcome = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
        while connection.read().unwrap_or(0) > 0 {
            let mut unread = connection.unread.as_slice();
            let is_welcome = welcome.feed(&mut unread)?.is_some();
            connection.unread = unread.to_vec();
            if is_welcome {
                return Ok(Some(connection));
            }
        }
        Ok(None)
    }

    /// Sends a request this number of times, and waits for no answer.
    pub(super) fn send(&mut self, request: &Request, count: usize) -> Result<()> {
        let payload = self.codec.encode_request(request)?;
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(
                Frame {
                    pindex: 0,
                    tag: self.next,
                    payload: payload.clone(),
                }
                .encode()?,
            );
            self.next = self.next.next_request();
        }
        Ok(self.stream.write_all(&bytes)?)
    }

    /// Waits for the next answer, which must answer a request of this kind.
    pub(super) fn reply(&mut self, command: CommandCode) -> Result<Reply> {
        loop {
            let mut unread = self.unread.as_slice();
            let frame = self.frames.feed(&mut unread)?;
            let rest = unread.len();
            self.unread.drain(..self.unread.len() - rest);
            match frame {
                Some(frame) => return Ok(self.codec.decode_reply(command, &frame.payload)?),
                None if self.read()? == 0 => bail!("the server closes instead of an answer"),
                None => {}
            }
        }
    }

    /// Sends a request and waits for its answer. No other request may be open.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Status> {
        self.send(request, 1)?;
        Ok(self.reply(request.command())?.status())
    }

    fn read(&mut self) -> Result<usize> {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes)?;
        self.unread.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}
