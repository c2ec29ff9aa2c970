//! The client's part of the handshake: its identity and its dialect.
use crate::{
    BufferType, ClaimedUser, Codec, Credential, DecodeLimits, Dialect, Encoding, PeerKind, Release,
    ToolIdentifier, WireError, frame::Gather, packed::utf8, reader::MessageReader,
};
use peal_model::{Bytes, Info, Nspace, Proc, Rank, Text, UnknownNumber};
use std::str::FromStr;

/// Length of the header: three numbers in the client's byte order and four bytes of padding.
const HEADER: usize = 16;

/// Length of a credential of module `native`.
const NATIVE: usize = 8;

/// First message of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello {
    /// Credential of the client.
    pub credential: Credential,
    /// Kind of the client.
    pub peer: PeerKind,
    /// Release of the client.
    pub release: Release,
    /// Encoding of everything that follows.
    pub encoding: Encoding,
    /// Presence of types in packed fields.
    pub buffer_type: BufferType,
    /// Data store of the client; Peal serves only `hash`.
    pub gds: Text,
    /// Further infos: process id, command line and the like.
    pub infos: Vec<Info>,
}

impl Hello {
    /// Returns the dialect of the client.
    pub fn dialect(&self) -> Dialect {
        Dialect::new(self.release.version(), self.encoding)
    }

    /// Encodes header and body. Releases before 4.2.3 add a zero byte.
    pub fn encode(&self, limits: DecodeLimits) -> Result<Vec<u8>, WireError> {
        let body = self.body(limits)?;
        limits.check("handshake", body.len() as u64, limits.max_handshake)?;
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::new();
        // Pindex -1 and the reserved tag, which no frame has.
        bytes.extend_from_slice(&[0xff; 8]);
        // `libpmix` copies a C structure to the socket here. So the length is in the byte order of
        // the host, in contrast to the headers of frames.
        bytes.extend_from_slice(&len.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    fn body(&self, limits: DecodeLimits) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::new();
        let (module, credential) = self.credential.parts();
        put_text(&mut out, &module);
        limits.check("credential", credential.len() as u64, limits.max_handshake)?;
        out.extend_from_slice(
            &u32::try_from(credential.len())
                .unwrap_or(u32::MAX)
                .to_be_bytes(),
        );
        out.extend_from_slice(&credential);
        out.push(flag(&self.peer));
        if let Some(ClaimedUser { uid, gid }) = self.peer.user() {
            out.extend_from_slice(&uid.to_be_bytes());
            out.extend_from_slice(&gid.to_be_bytes());
        }
        if let Some(proc) = self.peer.proc() {
            put_text(&mut out, proc.nspace.as_str().as_bytes());
            out.extend_from_slice(&proc.rank.0.to_be_bytes());
        }
        put_text(&mut out, self.release.as_str().as_bytes());
        put_text(&mut out, self.encoding.name().as_bytes());
        out.push(self.buffer_type.number());
        put_text(&mut out, self.gds.as_bytes());
        if !self.infos.is_empty() {
            out.extend(Codec::of(self, limits).encode(|w| w.counted(&self.infos))?);
        }
        if self.dialect().has_stray_byte() {
            out.push(0);
        }
        Ok(out)
    }

    /// Decodes a body. Bytes after the infos, such as the zero byte, are ignored.
    pub fn decode_body(body: &[u8], limits: DecodeLimits) -> Result<Hello, WireError> {
        let mut input = Body(body);
        let module = input.text("security module")?;
        let len = input.number("length of the credential")?;
        let credential = Credential::of(&module, input.bytes("credential", len as usize)?)?;
        let peer = input.peer()?;
        let release = Release::from_str(&input.utf8("release")?)?;
        let encoding = Encoding::from_str(&input.utf8("encoding")?)?;
        let [buffer_type] = input.array("buffer type")?;
        let buffer_type = BufferType::try_from(buffer_type)?;
        let gds = input.text("data store")?;
        let mut hello = Hello {
            credential,
            peer,
            release,
            encoding,
            buffer_type,
            gds,
            infos: Vec::new(),
        };
        // A single byte is the zero byte of releases before 4.2.3. Infos take at least two: their
        // number is a field with a count and a value.
        if let Body(rest @ [_, _, ..]) = input {
            hello.infos = MessageReader::new(&Codec::of(&hello, limits), rest)?.counted()?;
        }
        Ok(hello)
    }
}

impl Credential {
    fn of(module: &Text, bytes: &[u8]) -> Result<Credential, WireError> {
        match (module.as_str(), bytes) {
            (Some("none"), []) => Ok(Credential::None),
            (Some("none"), _) => Err(WireError::Credential {
                module: "none",
                len: bytes.len(),
                expected: 0,
            }),
            (Some("native"), [u0, u1, u2, u3, g0, g1, g2, g3]) => {
                // The library copies the ids from memory, so they are in the byte order of the
                // host.
                Ok(Credential::Native(ClaimedUser {
                    uid: u32::from_ne_bytes([*u0, *u1, *u2, *u3]),
                    gid: u32::from_ne_bytes([*g0, *g1, *g2, *g3]),
                }))
            }
            (Some("native"), _) => Err(WireError::Credential {
                module: "native",
                len: bytes.len(),
                expected: NATIVE,
            }),
            (Some("munge"), _) => Ok(Credential::Munge(Bytes::from(bytes))),
            // The caller decides about modules: to decode an unknown one is no error.
            _ => Ok(Credential::Other {
                module: module.clone(),
                bytes: Bytes::from(bytes),
            }),
        }
    }

    fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Credential::None => (b"none".to_vec(), Vec::new()),
            Credential::Native(user) => (
                b"native".to_vec(),
                [user.uid.to_ne_bytes(), user.gid.to_ne_bytes()].concat(),
            ),
            Credential::Munge(bytes) => (b"munge".to_vec(), bytes.as_slice().to_vec()),
            Credential::Other { module, bytes } => {
                (module.as_bytes().to_vec(), bytes.as_slice().to_vec())
            }
        }
    }
}

/// Returns the number of a kind of peer. 1 and 2 are tools of releases before 4, which are not
/// supported.
fn flag(peer: &PeerKind) -> u8 {
    match peer {
        PeerKind::Client(_) => 0,
        PeerKind::Tool(_, ToolIdentifier::Wanted) => 3,
        PeerKind::Tool(_, ToolIdentifier::Own(_)) => 4,
        PeerKind::Tool(_, ToolIdentifier::Started(_)) => 5,
        PeerKind::Launcher(_, ToolIdentifier::Wanted) => 6,
        PeerKind::Launcher(_, ToolIdentifier::Own(_)) => 7,
        PeerKind::Launcher(_, ToolIdentifier::Started(_)) => 8,
        PeerKind::Singleton(..) => 9,
        PeerKind::Scheduler(..) => 10,
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

/// Unread rest of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, part: &'static str, len: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Truncated {
            part,
            needed: len as u64,
            left: self.0.len(),
        };
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], WireError> {
        let short = WireError::Truncated {
            part,
            needed: N as u64,
            left: self.0.len(),
        };
        let (array, rest) = self.0.split_first_chunk().ok_or(short)?;
        self.0 = rest;
        Ok(*array)
    }

    fn number(&mut self, part: &'static str) -> Result<u32, WireError> {
        self.array(part).map(u32::from_be_bytes)
    }

    fn text(&mut self, part: &'static str) -> Result<Text, WireError> {
        let len = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(WireError::Unterminated { part })?;
        let text = Text::from_bytes(self.bytes(part, len)?);
        self.bytes(part, 1)?;
        Ok(text)
    }

    fn utf8(&mut self, part: &'static str) -> Result<String, WireError> {
        utf8(part, self.text(part)?.as_bytes()).map(str::to_owned)
    }

    fn user(&mut self) -> Result<ClaimedUser, WireError> {
        Ok(ClaimedUser {
            uid: self.number("user id")?,
            gid: self.number("group id")?,
        })
    }

    fn proc(&mut self) -> Result<Proc, WireError> {
        Ok(Proc::new(
            Nspace::new(&self.utf8("namespace")?)?,
            Rank(self.number("rank")?),
        ))
    }

    fn peer(&mut self) -> Result<PeerKind, WireError> {
        let [flag] = self.array("flag")?;
        Ok(match flag {
            0 => PeerKind::Client(self.proc()?),
            3 => PeerKind::Tool(self.user()?, ToolIdentifier::Wanted),
            4 => PeerKind::Tool(self.user()?, ToolIdentifier::Own(self.proc()?)),
            5 => PeerKind::Tool(self.user()?, ToolIdentifier::Started(self.proc()?)),
            6 => PeerKind::Launcher(self.user()?, ToolIdentifier::Wanted),
            7 => PeerKind::Launcher(self.user()?, ToolIdentifier::Own(self.proc()?)),
            8 => PeerKind::Launcher(self.user()?, ToolIdentifier::Started(self.proc()?)),
            9 => PeerKind::Singleton(self.user()?, self.proc()?),
            10 => PeerKind::Scheduler(self.user()?, self.proc()?),
            _ => {
                return Err(UnknownNumber {
                    kind: "handshake flag",
                    number: u32::from(flag),
                }
                .into());
            }
        })
    }
}

/// Decoder of a [`Hello`] at the start of a connection. It never holds more than the longest
/// allowed.
#[derive(Debug)]
pub struct HelloDecoder {
    limits: DecodeLimits,
    header: Gather,
    body: Gather,
}

impl HelloDecoder {
    /// Makes a decoder at the start of a connection.
    pub fn new(limits: DecodeLimits) -> HelloDecoder {
        HelloDecoder {
            limits,
            header: Gather::default(),
            body: Gather::default(),
        }
    }

    /// Takes bytes off the front of `input` and returns the handshake once it is complete. The rest
    /// of `input` then belongs to the first frame. After an error the server closes the connection
    /// without sending anything.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Hello>, WireError> {
        let Some(header) = self.header.fill::<HEADER>(input) else {
            return Ok(None);
        };
        let [p0, p1, p2, p3, t0, t1, t2, t3, n0, n1, n2, n3, ..] = header;
        let pindex = i32::from_ne_bytes([p0, p1, p2, p3]);
        let tag = u32::from_ne_bytes([t0, t1, t2, t3]);
        // Checked before the length is used: the bytes may be of another protocol.
        if pindex != -1 || tag != u32::MAX {
            return Err(WireError::NotAHandshake { pindex, tag });
        }
        let len = u32::from_ne_bytes([n0, n1, n2, n3]);
        self.limits
            .check("handshake", u64::from(len), self.limits.max_handshake)?;
        let Some(body) = self.body.take(input, len as usize) else {
            return Ok(None);
        };
        Hello::decode_body(&body, self.limits).map(Some)
    }
}
