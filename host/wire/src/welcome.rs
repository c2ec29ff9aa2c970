//! The server's part of the handshake.
use crate::{WelcomeForm, WireError, frame::Gather, packed::utf8};
use peal_model::{Nspace, Proc, Rank, Status, Text, code};

/// Length of a namespace, padded with NUL.
const NSPACE: usize = Nspace::MAX + 1;

/// Length of a number.
const NUMBER: usize = 4;

/// A server's answer to a handshake. A client is refused by closing the connection without sending
/// anything: release 4.2.2 takes any status for success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Welcome {
    /// Answer to clients, and to singletons of newer releases.
    Client {
        /// Pindex of the client's frames.
        index: u32,
    },
    /// Answer to tools, and to singletons of older releases.
    Tool {
        /// Name assigned to the tool, if it requested one.
        name: Option<Proc>,
        /// Name of the server.
        server: Proc,
        /// Success, unless a security handshake follows or fails.
        security: Status,
    },
    /// Error for tools; the server closes the connection.
    Refused(Status),
}

impl Welcome {
    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Welcome::Client { index } => {
                put_status(&mut out, code::PMIX_SUCCESS);
                out.extend_from_slice(&index.to_be_bytes());
            }
            Welcome::Tool {
                name,
                server,
                security,
            } => {
                put_status(&mut out, code::PMIX_SUCCESS);
                name.iter()
                    .chain([server])
                    .for_each(|proc| put_proc(&mut out, proc));
                put_status(&mut out, *security);
            }
            Welcome::Refused(status) => put_status(&mut out, *status),
        }
        out
    }
}

fn put_status(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(&status.0.to_be_bytes());
}

fn put_proc(out: &mut Vec<u8>, proc: &Proc) {
    let end = out.len().saturating_add(NSPACE);
    out.extend_from_slice(proc.nspace.as_str().as_bytes());
    // A namespace is at least one byte shorter than its block, so a NUL always ends it.
    out.resize(end, 0);
    out.extend_from_slice(&proc.rank.0.to_be_bytes());
}

/// Decoder of a [`Welcome`] after a client has sent its [`crate::Hello`].
#[derive(Debug)]
pub struct WelcomeDecoder {
    form: WelcomeForm,
    status: Gather,
    rest: Gather,
}

impl WelcomeDecoder {
    /// Makes a decoder of a form of welcome.
    pub fn new(form: WelcomeForm) -> WelcomeDecoder {
        WelcomeDecoder {
            form,
            status: Gather::default(),
            rest: Gather::default(),
        }
    }

    /// Takes bytes off the front of `input` and returns the answer once it is complete. The rest of
    /// `input` then belongs to the first frame: cached events come before any reply.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Welcome>, WireError> {
        let Some(status) = self
            .status
            .fill::<NUMBER>(input)
            .map(i32::from_be_bytes)
            .map(Status)
        else {
            return Ok(None);
        };
        // A server that refuses sends the status alone and closes.
        if !status.is_success() {
            return Ok(Some(Welcome::Refused(status)));
        }
        let len = match self.form {
            WelcomeForm::Client => NUMBER,
            WelcomeForm::Tool => NSPACE + NUMBER + NUMBER,
            WelcomeForm::NamedTool => 2 * (NSPACE + NUMBER) + NUMBER,
        };
        self.rest
            .take(input, len)
            .map(|rest| rest_of(self.form, &rest))
            .transpose()
    }
}

fn rest_of(form: WelcomeForm, bytes: &[u8]) -> Result<Welcome, WireError> {
    let mut input = bytes;
    if form == WelcomeForm::Client {
        return Ok(Welcome::Client {
            index: number(&mut input)?,
        });
    }
    let name = if form == WelcomeForm::NamedTool {
        Some(proc(&mut input)?)
    } else {
        None
    };
    let server = proc(&mut input)?;
    Ok(Welcome::Tool {
        name,
        server,
        security: Status(number(&mut input)?.cast_signed()),
    })
}

fn chunk<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], WireError> {
    let short = WireError::Truncated {
        part: "welcome",
        needed: N as u64,
        left: input.len(),
    };
    let (chunk, rest) = input.split_first_chunk().ok_or(short)?;
    *input = rest;
    Ok(*chunk)
}

fn number(input: &mut &[u8]) -> Result<u32, WireError> {
    chunk(input).map(u32::from_be_bytes)
}

fn proc(input: &mut &[u8]) -> Result<Proc, WireError> {
    let nspace = chunk::<NSPACE>(input)?;
    let nspace = Nspace::new(utf8("namespace", Text::c_string(&nspace))?)?;
    Ok(Proc::new(nspace, Rank(number(input)?)))
}
