//! A connection of an attacker that the server has let in.
use crate::raw::encoded;
use anyhow::{Context, Result, bail};
use peal_model::{CommandCode, Request, Status};
use peal_wire::{Codec, Frame, FrameDecoder, Hello, Limits, Tag, WelcomeDecoder};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection behind its handshake.
pub(super) struct Session {
    pub(super) stream: TcpStream,
    codec: Codec,
    frames: FrameDecoder,
    unread: Vec<u8>,
}

impl Session {
    /// Connects with this handshake; none where the server refuses.
    pub(super) fn open(server: SocketAddr, hello: &Hello) -> Result<Option<Session>> {
        let mut stream = TcpStream::connect(server).context("connecting")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if stream.write_all(&encoded(hello)).is_err() {
            return Ok(None);
        }
        let codec = Codec::of(hello, Limits::default());
        let frames = FrameDecoder::new(&codec.limits);
        let mut session = Session { stream, codec, frames, unread: Vec::new() };
        let mut welcome = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
        // A refused connection is closed without a byte, or reset.
        while session.read().unwrap_or(0) > 0 {
            let mut unread = session.unread.as_slice();
            let is_welcome = welcome.feed(&mut unread)?.is_some();
            session.unread = unread.to_vec();
            if is_welcome {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Makes a request, and waits for its answer, which must be a status.
    pub(super) fn ask(&mut self, tag: Tag, request: &Request) -> Result<Status> {
        let payload = self.codec.encode_request(request)?;
        self.stream.write_all(&Frame { pindex: 0, tag, payload }.encode()?)?;
        loop {
            let mut unread = self.unread.as_slice();
            let frame = self.frames.feed(&mut unread)?;
            self.unread = unread.to_vec();
            match frame {
                Some(frame) if frame.tag == tag => {
                    return Ok(self.codec.decode_reply(CommandCode::Finalize, &frame.payload)?.status());
                }
                Some(_) => {}
                None if self.read()? == 0 => bail!("the server closes instead of an answer"),
                None => {}
            }
        }
    }

    fn read(&mut self) -> Result<usize> {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes)?;
        self.unread.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}
