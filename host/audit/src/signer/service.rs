//! Loop of the signer's process: reads requests one after another and replies.
use super::{
    SealedHeads, SignerState,
    message::{FromSigner, LIMIT, ToSigner},
    state::OutOfOrder,
};
use crate::{hash_chain::ChainHead, now};
use peal_frames::{MessageStream, StreamError};
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::net::UnixStream,
};
use thiserror::Error;

/// Failure of the connection between a server and the signer of its trail.
#[derive(Debug, Error)]
pub enum SignerServiceError {
    /// The connection failed, or the server sent what is no message.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A message came at the wrong time.
    #[error(transparent)]
    Order(#[from] OutOfOrder),
    /// The memory cannot be written.
    #[error("the records that were sealed cannot be remembered: {0}")]
    Memory(io::Error),
}

/// Size of the memory in bytes: two numbers and two hashes.
const MEMORY: usize = 2 * (8 + 32);

/// File that only signers of one server have, in which each finds what the one before it has sealed.
#[derive(Debug)]
pub struct SignerMemory(File);

impl SignerMemory {
    /// Uses an open file.
    pub fn new(file: File) -> SignerMemory {
        SignerMemory(file)
    }

    /// Reads the memory; none if no signer has written it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or has something else.
    pub fn read(&mut self) -> io::Result<Option<SealedHeads>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        // One byte more than is ever written shows another file.
        (&self.0).take(MEMORY as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let heads = (|| {
            let (committed, rest) = head(&bytes)?;
            let (sealed, rest) = head(rest)?;
            rest.is_empty().then_some(SealedHeads { committed, sealed })
        })();
        heads.map(Some).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the memory should have {MEMORY} bytes"),
            )
        })
    }

    fn write(&mut self, SealedHeads { committed, sealed }: SealedHeads) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(MEMORY);
        for (seq, hash) in [committed, sealed] {
            bytes.extend(seq.to_le_bytes());
            bytes.extend(hash);
        }
        self.0.rewind()?;
        // One write, which a kill does not interrupt: the memory is always whole.
        self.0.write_all(&bytes)
    }
}

fn head(bytes: &[u8]) -> Option<(ChainHead, &[u8])> {
    let (seq, rest) = bytes.split_first_chunk()?;
    let (hash, rest) = rest.split_first_chunk()?;
    Some(((u64::from_le_bytes(*seq), *hash), rest))
}

/// Serves the server at the other end of a socket pair, until that end is closed.
///
/// # Errors
///
/// Fails if the connection fails, or a message is none of this protocol or comes at the wrong time.
pub fn serve_signer(
    stream: UnixStream,
    mut state: SignerState,
    mut memory: SignerMemory,
) -> Result<(), SignerServiceError> {
    let mut stream = MessageStream::new(stream, LIMIT);
    let mut remembered = state.heads();
    while let Some(request) = stream.next_message::<ToSigner>()? {
        let reply = state.handle(request, now())?;
        // Before the reply: a signer that takes this one's place must know of each seal.
        let heads = state.heads();
        if heads != remembered
            && let Some(heads) = heads
        {
            memory.write(heads).map_err(SignerServiceError::Memory)?;
            remembered = Some(heads);
        }
        if let Some(FromSigner::Refused(refusal)) = &reply {
            tracing::warn!(%refusal, "request of the server not signed");
        }
        if let Some(reply) = reply {
            stream.send(&reply)?;
        }
    }
    Ok(())
}
