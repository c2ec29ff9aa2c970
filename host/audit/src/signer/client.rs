//! Server's end of the signer of its trail.
use super::{
    SignerRules, SignerState,
    message::{
        AnchorTrail, ExtendTrail, FromSigner, LIMIT, OpenTrail, OpenedRun, PROTOCOL, RunId,
        SignerRefusal, StatementPlace, ThinTrail, ToSigner, WantedSeals,
    },
};
use crate::{
    Keys, SealKeyError, SealPublicKey,
    dropped::DroppedStatement,
    hash_chain::{ChainHead, ChainLink},
    key::{CodeKey, DigestKey},
    now,
};
use peal_frames::{MessageStream, StreamError};
use peal_store::{DroppedRows, Seal};
use std::{
    fmt, io,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use thiserror::Error;

/// Number of processes to which a request is sent, one after another.
const MAX_ATTEMPTS: usize = 3;

/// Time limit of a reply. The signer answers within microseconds unless the machine is stopped.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Failure of a request to the signer.
#[derive(Debug, Error)]
pub enum SignerError {
    /// The signer refused the request.
    #[error("the signer of the audit trail refuses: {0}")]
    Refused(#[from] SignerRefusal),
    /// The connection to the signer failed. The next request starts another one.
    #[error("the signer of the audit trail is lost: {0}")]
    Lost(String),
    /// No signer can be started.
    #[error("the signer of the audit trail cannot be started: {0}")]
    NotStarted(io::Error),
    /// The key cannot be read or created.
    #[error(transparent)]
    Key(#[from] SealKeyError),
}

/// Starts a signer and returns the connection to it.
type StartSigner = Arc<dyn Fn() -> io::Result<UnixStream> + Send + Sync>;

/// Place of the secret key of a trail.
#[derive(Clone)]
pub struct TrailSigner(SignerPlace);

#[derive(Clone)]
enum SignerPlace {
    /// A file that this process reads, or creates.
    Here(PathBuf),
    /// A process of its own.
    Process(StartSigner),
}

impl fmt::Debug for TrailSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SignerPlace::Here(key) => f.debug_tuple("Here").field(key).finish(),
            SignerPlace::Process(_) => f.write_str("Process"),
        }
    }
}

impl TrailSigner {
    /// Returns a signer in this process, with a key in a file. The file is created if it is missing.
    pub fn here(key: PathBuf) -> TrailSigner {
        TrailSigner(SignerPlace::Here(key))
    }

    /// Returns a signer in a process that `start` starts: when the trail is opened, and again after
    /// the process was lost. Its rules are its own.
    pub fn process(
        start: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static,
    ) -> TrailSigner {
        TrailSigner(SignerPlace::Process(Arc::new(start)))
    }

    /// Begins a run of a trail that ends with this seal.
    pub(crate) fn open(
        self,
        head: Option<Seal>,
        previous_run: Option<RunId>,
        rules: SignerRules,
    ) -> Result<(OpenSigner, RunKeys), SignerError> {
        let (start, connection) = match self.0 {
            SignerPlace::Here(key) => {
                let state = SignerState::new(Keys::open(&key)?, rules, None);
                (None, SignerConnection::Here(Box::new(state)))
            }
            SignerPlace::Process(start) => {
                let connection = connected(&start)?;
                (Some(start), connection)
            }
        };
        let mut signer = CurrentSigner { connection, head };
        let opened = signer.begin(previous_run)?;
        let signer = OpenSigner {
            start,
            current: Mutex::new(signer),
        };
        Ok((signer, RunKeys::of(&opened)?))
    }
}

/// Keys of a run, none of which can make a seal.
pub(crate) struct RunKeys {
    pub(crate) public: SealPublicKey,
    pub(crate) digests: DigestKey,
    pub(crate) run: RunId,
    pub(crate) journal: CodeKey,
    pub(crate) previous_journal: CodeKey,
}

impl RunKeys {
    fn of(opened: &OpenedRun) -> Result<RunKeys, SignerError> {
        Ok(RunKeys {
            public: opened.public.parse()?,
            digests: DigestKey::new(&opened.digests.0),
            run: opened.run,
            journal: CodeKey::new(&opened.journal.0),
            previous_journal: CodeKey::new(&opened.previous_journal.0),
        })
    }
}

/// Signer of an open trail.
pub(crate) struct OpenSigner {
    /// Starter of a process; none if this process signs.
    start: Option<StartSigner>,
    current: Mutex<CurrentSigner>,
}

struct CurrentSigner {
    connection: SignerConnection,
    /// Seal of the last record that is in the database.
    head: Option<Seal>,
}

enum SignerConnection {
    /// This process.
    Here(Box<SignerState>),
    /// A process.
    Process(MessageStream),
    /// The process was lost.
    None,
}

/// Seals of the last record of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupSeals {
    pub(crate) head: Seal,
    pub(crate) checkpoint: Option<Seal>,
}

impl OpenSigner {
    /// Seals records that follow `from`.
    pub(crate) fn extend(
        &self,
        from: ChainHead,
        links: Vec<ChainLink>,
        seals: WantedSeals,
    ) -> Result<GroupSeals, SignerError> {
        match self.call(ToSigner::Extend(ExtendTrail { from, links, seals }))? {
            FromSigner::Sealed { head, checkpoint } => Ok(GroupSeals {
                head: head.into(),
                checkpoint: checkpoint.map(Seal::from),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Reports that the records up to this seal are in the database. No later failure is of
    /// consequence for them.
    pub(crate) fn commit(&self, head: Seal) {
        let mut current = self.current();
        let request = ToSigner::Commit((head.seq, head.hash));
        current.head = Some(head);
        match &mut current.connection {
            SignerConnection::Here(state) => drop(state.handle(request, now())),
            SignerConnection::Process(stream) => {
                if let Err(error) = stream.send(&request) {
                    tracing::warn!(%error, "signer of the audit trail lost");
                    current.connection = SignerConnection::None;
                }
            }
            SignerConnection::None => {}
        }
    }

    /// Seals a record up to which all are dropped.
    pub(crate) fn anchor(&self, before: ChainHead, link: ChainLink) -> Result<Seal, SignerError> {
        match self.call(ToSigner::Anchor(AnchorTrail { before, link }))? {
            FromSigner::Anchored(seal) => Ok(seal.into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Signs a statement about a range whose calls and denials are dropped.
    pub(crate) fn thin(
        &self,
        previous: Option<DroppedRows>,
        before: ChainHead,
        links: Vec<ChainLink>,
    ) -> Result<DroppedStatement, SignerError> {
        let replaced = previous.as_ref().map(|previous| previous.last);
        let request = ThinTrail {
            previous: previous.map(Into::into),
            before,
            links,
        };
        match self.call(ToSigner::Thin(request))? {
            FromSigner::Thinned { statement, place } => Ok(DroppedStatement {
                rows: statement.into(),
                replaced: replaced.filter(|_| place == StatementPlace::Instead),
            }),
            other => Err(unexpected(&other)),
        }
    }

    fn current(&self) -> MutexGuard<'_, CurrentSigner> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. A process that was lost is started again first, and if it is lost now, the
    /// request goes to the next one: it is either carried out by it, or refused.
    fn call(&self, request: ToSigner) -> Result<FromSigner, SignerError> {
        let mut current = self.current();
        let mut attempts = MAX_ATTEMPTS;
        loop {
            attempts -= 1;
            let done = self
                .reconnect(&mut current)
                .and_then(|()| current.exchange(&request));
            match done {
                Err(SignerError::Lost(error)) if attempts > 0 && self.start.is_some() => {
                    tracing::warn!(
                        error,
                        "signer of the audit trail lost; starting another one"
                    );
                }
                done => return done,
            }
        }
    }

    /// Starts a process in the place of a lost one.
    fn reconnect(&self, current: &mut CurrentSigner) -> Result<(), SignerError> {
        if let (SignerConnection::None, Some(start)) = (&current.connection, &self.start) {
            current.connection = connected(start)?;
            // The keys of the run stay, so that those of the new signer are not used.
            current.begin(None)?;
        }
        Ok(())
    }
}

impl CurrentSigner {
    /// Begins a run.
    fn begin(&mut self, previous_run: Option<RunId>) -> Result<OpenedRun, SignerError> {
        let open = OpenTrail {
            protocol: PROTOCOL,
            head: self.head.clone().map(Into::into),
            previous_run,
        };
        match self.exchange(&ToSigner::Open(open)) {
            Ok(FromSigner::Opened(opened)) if opened.protocol == PROTOCOL => Ok(opened),
            Ok(other) => {
                self.connection = SignerConnection::None;
                Err(unexpected(&other))
            }
            Err(error) => {
                // A process that did not begin cannot be asked again.
                if let SignerConnection::Process(_) = self.connection {
                    self.connection = SignerConnection::None;
                }
                Err(error)
            }
        }
    }

    /// Sends a request and waits for the reply.
    fn exchange(&mut self, request: &ToSigner) -> Result<FromSigner, SignerError> {
        let reply = match &mut self.connection {
            SignerConnection::Here(state) => state
                .handle(request.clone(), now())
                .map_err(|error| error.to_string())
                .and_then(|reply| reply.ok_or_else(|| "no reply".to_owned())),
            SignerConnection::Process(stream) => stream
                .send(request)
                .and_then(|()| stream.next_message())
                .map_err(|error| error.to_string())
                .and_then(|reply| reply.ok_or_else(|| "it has ended".to_owned())),
            SignerConnection::None => Err("it was not started".to_owned()),
        };
        match reply {
            Ok(FromSigner::Refused(refusal)) => Err(refusal.into()),
            Ok(reply) => Ok(reply),
            Err(error) => {
                if let SignerConnection::Process(_) = self.connection {
                    self.connection = SignerConnection::None;
                }
                Err(SignerError::Lost(error))
            }
        }
    }
}

fn connected(start: &StartSigner) -> Result<SignerConnection, SignerError> {
    let stream = start().map_err(SignerError::NotStarted)?;
    stream
        .set_read_timeout(Some(REPLY_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(REPLY_TIMEOUT)))
        .map_err(SignerError::NotStarted)?;
    Ok(SignerConnection::Process(MessageStream::new(stream, LIMIT)))
}

fn unexpected(reply: &FromSigner) -> SignerError {
    SignerError::Lost(format!("unexpected reply {reply:?}"))
}

impl From<StreamError> for SignerError {
    fn from(error: StreamError) -> SignerError {
        SignerError::Lost(error.to_string())
    }
}
