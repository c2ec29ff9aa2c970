//! A connection of an attacker or victim behind its handshake, on a thread that waits.
use crate::raw::encoded;
use anyhow::{Context, Result, bail};
use peal_model::{CommandCode, Reply, Request};
use peal_wire::{Codec, Frame, FrameDecoder, Hello, Limits, Tag, WelcomeDecoder};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection behind its handshake. All requests on it are of one kind.
pub struct Attached {
    stream: TcpStream,
    unread: Vec<u8>,
    codec: Codec,
    frames: FrameDecoder,
    command: CommandCode,
    next: u32,
}

impl Attached {
    /// Connects and waits to be let in.
    pub fn connect(server: SocketAddr, hello: &Hello, command: CommandCode) -> Result<Attached> {
        let mut stream = TcpStream::connect(server).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&encoded(hello))?;
        let codec = Codec::of(hello, Limits::default());
        let frames = FrameDecoder::new(&codec.limits);
        let mut attached = Attached { stream, unread: Vec::new(), codec, frames, command, next: 100 };
        let mut decoder = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
        loop {
            attached.read()?;
            let mut unread = attached.unread.as_slice();
            let welcome = decoder.feed(&mut unread)?;
            attached.unread = unread.to_vec();
            if welcome.is_some() {
                return Ok(attached);
            }
        }
    }

    /// Makes requests and waits for no answer.
    pub fn send(&mut self, request: &Request, count: usize) -> Result<()> {
        let payload = self.codec.encode_request(request)?;
        let mut bytes = Vec::new();
        for _ in 0..count {
            self.next += 1;
            bytes.extend(Frame { pindex: 0, tag: Tag(self.next), payload: payload.clone() }.encode()?);
        }
        Ok(self.stream.write_all(&bytes)?)
    }

    /// Waits for the next answer.
    pub fn reply(&mut self) -> Result<Reply> {
        loop {
            let mut unread = self.unread.as_slice();
            let frame = self.frames.feed(&mut unread)?;
            let rest = unread.len();
            self.unread.drain(..self.unread.len() - rest);
            match frame {
                Some(frame) => return Ok(self.codec.decode_reply(self.command, &frame.payload)?),
                None => self.read()?,
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes)? {
            0 => bail!("the server closes"),
            count => self.unread.extend_from_slice(&bytes[..count]),
        }
        Ok(())
    }
}
