//! The server's half of the handshake.
use crate::{WelcomeForm, WireError, frame::Gather, packed::utf8};
use peal_model::{Nspace, Proc, Rank, Status, code};

/// The length of a namespace, padded with NUL.
const NSPACE: usize = Nspace::MAX + 1;

/// The length of a number.
const NUMBER: usize = 4;

/// What a server answers to a handshake. A client that is not welcome is best refused by closing the connection without
/// a byte: 4.2.2 takes any status for a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Welcome {
    /// To clients, and to singletons of newer releases.
    Client {
        /// What the client puts into the pindex of its frames.
        index: u32,
    },
    /// To tools, and to singletons of older releases.
    Tool {
        /// The name that the tool gets, if it wanted one.
        name: Option<Proc>,
        /// The server's name.
        server: Proc,
        /// Success, unless a security handshake follows or fails.
        security: Status,
    },
    /// To tools, an error: the server closes.
    Refused(Status),
}

impl Welcome {
    /// The answer as it travels.
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
    out.resize(end, 0);
    out.extend_from_slice(&proc.rank.0.to_be_bytes());
}

/// Waits for a [`Welcome`] after a client has said hello.
#[derive(Debug)]
pub struct WelcomeDecoder {
    form: WelcomeForm,
    status: Gather,
    rest: Gather,
}

impl WelcomeDecoder {
    /// A decoder for the form in which this client is answered.
    pub fn new(form: WelcomeForm) -> WelcomeDecoder {
        WelcomeDecoder {
            form,
            status: Gather::default(),
            rest: Gather::default(),
        }
    }

    /// Takes bytes off the front of `input` and returns the answer once it is complete. What is left of `input` then
    /// belongs to the first frame: cached events come before any reply.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Welcome>, WireError> {
        let Some(status) = self
            .status
            .fill::<NUMBER>(input)
            .map(i32::from_be_bytes)
            .map(Status)
        else {
            return Ok(None);
        };
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
        what: "welcome",
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
    let nspace = Nspace::new(&utf8("namespace", &chunk::<NSPACE>(input)?)?)?;
    Ok(Proc::new(nspace, Rank(number(input)?)))
}
