//! Loop of a helper's process: reads calls, carries each out on a thread of its own, and answers.
use crate::{
    HelperRules,
    authority::Authority,
    files::{OpenFiles, refused_switch},
    message::{
        CallNumber, FromHelper, HelperAnswer, HelperCall, HelperRefusal, LIMIT, PROTOCOL, ToHelper,
    },
    removal,
};
use peal_frames::{CodecError, MessageStream, StreamError, encode};
use peal_system::as_user;
use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use thiserror::Error;

/// Maximum number of calls that are carried out at once. Each takes a thread.
const MAX_CALLS: usize = 512;

/// Failure of the connection between a server and its helper.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The connection failed.
    #[error("connection: {0}")]
    Connection(#[from] io::Error),
    /// The other end sent what is no message.
    #[error("message: {0}")]
    Message(#[from] CodecError),
    /// The other end speaks another version, or began with something else.
    #[error("the other end speaks version {0:?} of the helper's protocol, not {PROTOCOL}")]
    Protocol(Option<u16>),
    /// The server repeated its first message.
    #[error("the server sent its first message twice")]
    HelloTwice,
}

impl From<StreamError> for ServiceError {
    fn from(error: StreamError) -> ServiceError {
        match error {
            StreamError::Connection(error) => ServiceError::Connection(error),
            StreamError::Message(error) => ServiceError::Message(error),
        }
    }
}

/// Work of a helper, shared by its threads and, where there is no helper, done by the server itself.
#[derive(Debug)]
pub(crate) struct HelperWork {
    authority: Option<Authority>,
    files: OpenFiles,
}

impl HelperWork {
    /// Returns the work of a helper with these rules.
    pub(crate) fn with_rules(rules: HelperRules) -> HelperWork {
        HelperWork {
            authority: Some(Authority::new(rules)),
            files: OpenFiles::default(),
        }
    }

    /// Returns the work of a server without helper, which checks its clients itself.
    pub(crate) fn without_rules() -> HelperWork {
        HelperWork {
            authority: None,
            files: OpenFiles::default(),
        }
    }

    /// Carries out a call. Blocks.
    pub(crate) fn carry_out(&self, call: HelperCall) -> Result<HelperAnswer, HelperRefusal> {
        if let Some(authority) = &self.authority {
            authority.check(&call)?;
        }
        Ok(match call {
            HelperCall::FindHolder(search) => {
                let holder = search.find();
                if let (Some(authority), Some(holder)) = (&self.authority, holder) {
                    authority.saw(holder.pid);
                }
                HelperAnswer::Holder(holder)
            }
            HelperCall::Remove(order) => {
                let removed = as_user::run(order.identity, || {
                    removal::remove(&order.cleanup, order.bounds)
                });
                HelperAnswer::Removed(
                    removed.map_err(|error| refused_switch(order.identity, &error))?,
                )
            }
            HelperCall::OpenFile(request) => HelperAnswer::Opened(self.files.open(&request)?),
            HelperCall::ReadFile(place) => HelperAnswer::Read(self.files.read(place)?),
            HelperCall::CloseFile(place) => {
                self.files.close(place);
                HelperAnswer::Closed
            }
            HelperCall::Control(order) => HelperAnswer::Controlled(order.run()?),
        })
    }
}

/// Serves the server at the other end of a socket pair, until that end is closed.
///
/// # Errors
///
/// Fails if the connection fails, or the server sends what is no message of this protocol.
pub fn serve(stream: UnixStream, rules: HelperRules) -> Result<(), ServiceError> {
    let work = Arc::new(HelperWork::with_rules(rules));
    let writer = Arc::new(Mutex::new(stream.try_clone()?));
    let open = Arc::new(AtomicUsize::new(0));
    let mut reader = MessageStream::new(stream, LIMIT);
    match reader.next_message()? {
        Some(ToHelper::Hello(PROTOCOL)) => write(&writer, &FromHelper::Hello(PROTOCOL))?,
        Some(ToHelper::Hello(other)) => {
            // The server learns from it which release of the helper it has.
            write(&writer, &FromHelper::Hello(PROTOCOL))?;
            return Err(ServiceError::Protocol(Some(other)));
        }
        Some(ToHelper::Call { .. }) => return Err(ServiceError::Protocol(None)),
        None => return Ok(()),
    }
    while let Some(message) = reader.next_message()? {
        let ToHelper::Call { number, call } = message else {
            return Err(ServiceError::HelloTwice);
        };
        // Only this thread adds to the count.
        if open.load(Ordering::Relaxed) >= MAX_CALLS {
            answer(&writer, number, Err(HelperRefusal::TooMany(MAX_CALLS)));
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (work, for_thread, counted) = (work.clone(), writer.clone(), open.clone());
        let carry_out = move || {
            answer(&for_thread, number, work.carry_out(call));
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new()
            .name("call".to_owned())
            .spawn(carry_out)
            .is_err()
        {
            open.fetch_sub(1, Ordering::Relaxed);
            answer(&writer, number, Err(HelperRefusal::TooMany(MAX_CALLS)));
        }
    }
    Ok(())
}

fn answer(
    writer: &Mutex<UnixStream>,
    number: CallNumber,
    answer: Result<HelperAnswer, HelperRefusal>,
) {
    if let Err(refusal) = &answer {
        tracing::warn!(%refusal, "call of the server refused");
    }
    // Without a connection the reader ends, and the process with it.
    if let Err(error) = write(writer, &FromHelper::Answer { number, answer }) {
        tracing::warn!(%error, "answer not sent");
    }
}

fn write(writer: &Mutex<UnixStream>, message: &FromHelper) -> Result<(), ServiceError> {
    let frame = encode(message, LIMIT)?;
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(writer.write_all(&frame)?)
}
