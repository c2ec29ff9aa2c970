//! Connections of the admin channel. Each carries one request and its replies, and is bounded in
//! number, size and time.
use super::{
    access::{AdminAccess, Caller},
    activity::ActivityWatcher,
    dispatch::{AdminDispatcher, AdminParts, AdminResult, AfterReply, ProcessCommand},
    protocol::{AdminEnvelope, AdminReply, AdminRequest, MAX_REQUEST, ServerPhase},
    registered_jobs::AdminJob,
    socket::{AdminSocket, SocketClaim, SocketError},
    watch::{Watcher, encoded},
    watcher_shares::WatcherKind,
};
use crate::{
    activity::ActivityViewer,
    client_writer::Behind,
    fair_semaphore::{FairPermit, FairSemaphore},
    request_pacer::RequestPacer,
};
use peal_model::Nspace;
use peal_store::TraceRateLimit;
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::{JoinHandle, JoinSet},
};
use tracing::{Instrument, Span, field};

/// Upper bound of calls of root and the server's user that are served at once; others wait.
const CONNECTIONS: usize = 16;

/// Upper bounds of calls of all other users, and of one of them, that are served at once; others are
/// refused.
const OTHER_CONNECTIONS: usize = 64;
const CONNECTIONS_OF_USER: usize = 8;

/// Minimum time of a call of a user that may not administer. With the bound above it limits the
/// rate of one user's calls.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// Upper bound of admins that wait for the end of the server. While it is reached, no further
/// connection is accepted.
const WAITING: usize = 256;

/// Number of refused callers that get their reply after a delay. They would call again at once.
const REFUSED: usize = 64;

/// Time in which a caller must send its request, and in which it must read a reply.
const TIME: Duration = Duration::from_secs(10);

/// Upper bound of commands that wait for the process.
const MAX_COMMANDS: usize = 16;

/// Minimum interval between two log lines about refused callers.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(1);

/// Pause of the listener after the system failed to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Running admin channel.
pub struct AdminChannel {
    dispatcher: Arc<AdminDispatcher>,
    listener: JoinHandle<()>,
}

impl AdminChannel {
    /// Starts to listen on a claimed socket. Returns the channel and the queue of commands for the
    /// process.
    pub fn start(
        claim: SocketClaim,
        parts: AdminParts,
    ) -> Result<(AdminChannel, mpsc::Receiver<ProcessCommand>), SocketError> {
        let socket = claim.listen(parts.group.as_ref())?;
        let (send, commands) = mpsc::channel(MAX_COMMANDS);
        let access = AdminAccess::new(parts.group.clone());
        let dispatcher = Arc::new(AdminDispatcher::new(parts, send));
        let listener = tokio::spawn(listen(socket, dispatcher.clone(), Arc::new(access)));
        Ok((
            AdminChannel {
                dispatcher,
                listener,
            },
            commands,
        ))
    }

    /// Returns the jobs that were registered at this channel. None is registered or deregistered until the
    /// result is dropped.
    pub async fn hold_registrations(&self) -> impl Deref<Target = BTreeMap<Nspace, AdminJob>> {
        self.dispatcher.hold_registrations().await
    }

    /// Adds jobs that were registered at the channel of another process of this server.
    pub async fn restore(&self, jobs: BTreeMap<Nspace, AdminJob>) {
        self.dispatcher.restore(jobs).await;
    }

    /// Returns the journal of jobs that launchers register elsewhere than at this channel.
    pub fn job_journal(&self) -> JobJournal {
        JobJournal(self.dispatcher.clone())
    }

    /// Sets the phase of the server. Phases only advance; an earlier one is ignored.
    pub fn enter(&self, phase: ServerPhase) {
        self.dispatcher.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// Notifies waiting callers that the server has ended, and removes the socket.
    pub async fn close(self) {
        self.enter(ServerPhase::Ended);
        if let Err(error) = self.listener.await {
            tracing::error!(%error, "admin channel task failed");
        }
    }
}

/// Journal of jobs of other launchers: their records in the store, and the modules of their users.
#[derive(Clone)]
pub struct JobJournal(Arc<AdminDispatcher>);

impl JobJournal {
    /// Returns true if the server takes new jobs.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.phase.borrow() == ServerPhase::Serving
    }

    /// Records the start of a job. Returns when the modules of its user run.
    pub(crate) async fn started(&self, nspace: Nspace, uid: u32, size: u32) {
        self.0.job_started(nspace, uid, size).await;
    }

    /// Records the end of a job: 0 if all procs that connected have finalized.
    pub(crate) async fn ended(&self, nspace: Nspace, exit_status: i32) {
        self.0.job_ended(nspace, exit_status).await;
    }
}

/// Calls that are served at once.
struct CallLimits {
    /// Permits of root and the server's user.
    own: Arc<Semaphore>,
    /// Permits of all other users.
    others: FairSemaphore,
    /// Permits of refused callers that wait for their reply.
    refused: Semaphore,
}

/// Permit of a call, until it is dropped.
struct CallPermit {
    _own: Option<OwnedSemaphorePermit>,
    _other: Option<FairPermit>,
}

impl CallLimits {
    fn new() -> CallLimits {
        CallLimits {
            own: Arc::new(Semaphore::new(CONNECTIONS)),
            others: FairSemaphore::new(OTHER_CONNECTIONS, CONNECTIONS_OF_USER),
            refused: Semaphore::new(REFUSED),
        }
    }

    /// Returns the permit of a call. Root and the server's user wait for it. Other users get none
    /// if too many calls are served, because they must not fill the queue of those who wait.
    async fn permit(
        &self,
        caller: Caller,
        access: &AdminAccess,
        pacer: &RequestPacer,
    ) -> Option<CallPermit> {
        if access.is_own(caller) {
            pacer.note(None, Behind::Nothing, Instant::now());
            Some(CallPermit {
                // The semaphore is never closed.
                _own: self.own.clone().acquire_owned().await.ok(),
                _other: None,
            })
        } else {
            Some(CallPermit {
                _own: None,
                _other: Some(self.others.try_take(caller.uid)?),
            })
        }
    }
}

async fn listen(socket: AdminSocket, dispatcher: Arc<AdminDispatcher>, access: Arc<AdminAccess>) {
    let limits = Arc::new(CallLimits::new());
    let refusals = Arc::new(TraceRateLimit::new(BETWEEN_REFUSALS));
    let mut phase = dispatcher.phase.subscribe();
    let mut calls = JoinSet::new();
    let watchers = dispatcher.parts.watchers.max;
    let most = CONNECTIONS + OTHER_CONNECTIONS + REFUSED + WAITING + watchers;
    loop {
        tokio::select! {
            accepted = socket.listener.accept(), if calls.len() < most => match accepted {
                Ok((stream, _)) => {
                    let dispatcher = dispatcher.clone();
                    let access = access.clone();
                    let refusals = refusals.clone();
                    let limits = limits.clone();
                    // Error level, so that the span is enabled at all log levels.
                    let span = tracing::error_span!("admin call", uid = field::Empty, pid = field::Empty);
                    let call = async move {
                        serve(stream, &limits, &dispatcher, access, &refusals).await;
                    };
                    calls.spawn(call.instrument(span));
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting an admin connection failed");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            // A call has ended, so there may be room for another one.
            Some(_) = calls.join_next() => {}
            () = wait_for_end(&mut phase) => break,
        }
    }
    // Remove the socket before waiting callers get the final reply: they may start the next server
    // at once.
    drop(socket);
    let all = async { while calls.join_next().await.is_some() {} };
    // The wait is bounded: a caller that does not read must not delay the end.
    let _ = tokio::time::timeout(TIME, all).await;
}

/// Waits for the end of the server, also if the sender of phases was dropped.
async fn wait_for_end(phase: &mut watch::Receiver<ServerPhase>) {
    let _ = phase.wait_for(|phase| *phase == ServerPhase::Ended).await;
}

async fn serve(
    stream: UnixStream,
    limits: &CallLimits,
    dispatcher: &AdminDispatcher,
    access: Arc<AdminAccess>,
    refusals: &TraceRateLimit,
) {
    let caller = match stream.peer_cred() {
        Ok(cred) => {
            let span = Span::current();
            span.record("uid", cred.uid());
            span.record("pid", cred.pid());
            Caller {
                uid: cred.uid(),
                gid: cred.gid(),
                pid: cred.pid(),
            }
        }
        Err(error) => {
            return tracing::warn!(%error, "admin caller has no kernel credentials");
        }
    };
    let (mut reader, mut writer) = stream.into_split();
    let Some(permit) = limits
        .permit(caller, &access, &dispatcher.parts.pacer)
        .await
    else {
        if let Ok(_waiting) = limits.refused.try_acquire() {
            tokio::time::sleep(LEAST_TIME).await;
        }
        let reason = format!(
            "user {} has {CONNECTIONS_OF_USER} open calls, or all such users have {OTHER_CONNECTIONS} (fixed limits)",
            caller.uid
        );
        return write_reply(&mut writer, &AdminReply::Refused { reason }).await;
    };
    let (admins, has_group) = (access.admins(), access.has_group());
    let kind = if access.is_own(caller) {
        WatcherKind::Own
    } else {
        WatcherKind::Other
    };
    // The lookup of groups may wait for a directory service.
    let checked = access.clone();
    let allows = move || checked.allows(caller);
    if !tokio::task::spawn_blocking(allows).await.unwrap_or(false) {
        let start = tokio::time::Instant::now();
        let Some(request) = read_request(&mut reader).await else {
            return tokio::time::sleep_until(start + LEAST_TIME).await;
        };
        let call = request.map(|envelope| envelope.call);
        let AdminResult { reply, then } = match call {
            Ok(AdminRequest::Users) => {
                AdminReply::Users(dispatcher.quotas().await.of_user(caller.uid)).into()
            }
            Ok(AdminRequest::Activity { interval_ms }) => {
                let viewer = ActivityViewer::User(caller.uid);
                dispatcher.watch_activity((caller.uid, kind), viewer, interval_ms)
            }
            Ok(_) | Err(_) => {
                let reason = refused(caller, &admins, has_group);
                note_refusal(caller, dispatcher, refusals);
                AdminReply::Refused { reason }.into()
            }
        };
        write_reply(&mut writer, &reply).await;
        let AfterReply::Activity(watcher) = then else {
            drop((reader, writer));
            // The caller has its reply. The permit stays taken for a while.
            return tokio::time::sleep_until(start + LEAST_TIME).await;
        };
        tokio::time::sleep_until(start + LEAST_TIME).await;
        drop(permit);
        return send_further(AfterReply::Activity(watcher), dispatcher, reader, writer).await;
    }
    let Some(request) = read_request(&mut reader).await else {
        return;
    };
    let is_read = request
        .as_ref()
        .is_ok_and(|envelope| envelope.call.is_read());
    let (verb, AdminResult { reply, then }) = match request {
        // All clients and their data go to the caller.
        // Another user could not go on with it: it owns neither the sockets nor the files.
        Ok(envelope) if envelope.call == AdminRequest::HandOver && !access.is_owner(caller) => {
            let reason = "only a process of the server's user can go on with the server".to_owned();
            let refused = AdminReply::Refused { reason };
            (AdminRequest::HandOver.to_string(), refused.into())
        }
        Ok(envelope) if envelope.call == AdminRequest::Upgrade && !access.is_own(caller) => {
            let reason = "only root and the server's user can upgrade the server".to_owned();
            let refused = AdminReply::Refused { reason };
            (AdminRequest::Upgrade.to_string(), refused.into())
        }
        Ok(envelope) => (
            envelope.words(),
            dispatcher.answer(caller, kind, envelope.call).await,
        ),
        Err(reason) => (
            "(not understood)".to_owned(),
            AdminReply::Refused { reason }.into(),
        ),
    };
    // Before the reply: a caller that has its reply finds the record.
    let call = dispatcher.trace(caller, verb, &reply);
    // Requests that change nothing would push those out that do.
    if !is_read {
        dispatcher
            .store(move |store, at| store.admin_called(&call, at))
            .await;
    }
    write_reply(&mut writer, &reply).await;
    // A caller that waits for the end or follows events gives its permit back, so that others can
    // be served.
    drop(permit);
    send_further(then, dispatcher, reader, writer).await;
}

/// Sends what follows the reply to a request.
async fn send_further(
    then: AfterReply,
    dispatcher: &AdminDispatcher,
    mut reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
) {
    let mut phase = dispatcher.phase.subscribe();
    let end = match then {
        AfterReply::Nothing => return,
        AfterReply::Process => {
            // Both halves are of one connection.
            if let Ok(stream) = reader.reunite(writer) {
                dispatcher.pass_on(stream).await;
            }
            return;
        }
        AfterReply::End => {
            wait_for_end(&mut phase).await;
            WatchEnd::ServerEnded
        }
        AfterReply::Events(watcher) => tokio::select! {
            end = follow(*watcher, &mut writer, &mut phase) => end,
            () = wait_for_close(&mut reader) => WatchEnd::WatcherGone,
        },
        AfterReply::Activity(watcher) => tokio::select! {
            end = report(watcher, dispatcher, &mut writer, &mut phase) => end,
            () = wait_for_close(&mut reader) => WatchEnd::WatcherGone,
        },
    };
    if let WatchEnd::ServerEnded = end {
        write_reply(&mut writer, &AdminReply::Ended).await;
    }
}

/// Returns the reason for which a caller may not administer.
fn refused(caller: Caller, admins: &str, has_group: bool) -> String {
    let hint = if has_group {
        ""
    } else {
        "; admin.group in its configuration can permit the members of a group"
    };
    format!(
        "user {} may not administer this server: {admins} may{hint}",
        caller.uid
    )
}

/// Counts and traces a caller that may not administer.
fn note_refusal(caller: Caller, dispatcher: &AdminDispatcher, refusals: &TraceRateLimit) {
    let counters = dispatcher.parts.metrics.counters();
    counters.admin_callers_refused.count();
    if let Some(left_out) = refusals.allow(Instant::now()) {
        let Caller { uid, pid, .. } = caller;
        tracing::warn!(uid, pid, left_out, "admin caller refused");
    }
}

/// End of the event stream of a watcher.
enum WatchEnd {
    /// All events up to the end of the server were sent.
    ServerEnded,
    /// The watcher disconnected, or did not read after the server had ended.
    WatcherGone,
}

/// Sends events to a watcher until the server ends. While the server runs, the watcher may read as
/// slowly as it likes; it receives the number of events that it missed meanwhile.
async fn follow(
    mut watcher: Watcher,
    writer: &mut (impl AsyncWriteExt + Unpin),
    phase: &mut watch::Receiver<ServerPhase>,
) -> WatchEnd {
    loop {
        let batch = tokio::select! {
            // Events that happened before the end are sent before it.
            biased;
            batch = watcher.batch() => batch,
            () = wait_for_end(phase) => None,
        };
        let Some(batch) = batch else {
            return WatchEnd::ServerEnded;
        };
        // A slow reader is given up only after the server has ended: until then it holds up only
        // itself.
        let lines = watcher.lines(batch).await;
        let mut grace_period = phase.clone();
        let grace_period = async {
            wait_for_end(&mut grace_period).await;
            tokio::time::sleep(TIME).await;
        };
        tokio::select! {
            written = writer.write_all(&lines) => if written.is_err() {
                return WatchEnd::WatcherGone;
            },
            () = grace_period => return WatchEnd::WatcherGone,
        }
    }
}

/// Sends reports of the activity to a watcher until the server ends. The watcher may read as slowly as it
/// likes: the next report is made after the previous one was written.
async fn report(
    mut watcher: Box<ActivityWatcher>,
    dispatcher: &AdminDispatcher,
    writer: &mut (impl AsyncWriteExt + Unpin),
    phase: &mut watch::Receiver<ServerPhase>,
) -> WatchEnd {
    loop {
        let max_age = watcher.viewer().least_interval();
        let Some(sample) = dispatcher.sampler.sample(dispatcher, max_age).await else {
            return WatchEnd::WatcherGone;
        };
        // A report may be long, and the current thread also serves other connections.
        let made = tokio::task::spawn_blocking(move || {
            let line = watcher.line(&sample);
            (watcher, line)
        });
        let Ok((maker, Some(line))) = made.await else {
            return WatchEnd::WatcherGone;
        };
        watcher = maker;
        tokio::select! {
            written = writer.write_all(&line) => if written.is_err() {
                return WatchEnd::WatcherGone;
            },
            () = wait_for_end(phase) => return WatchEnd::WatcherGone,
        }
        tokio::select! {
            () = tokio::time::sleep(watcher.interval()) => {}
            () = wait_for_end(phase) => return WatchEnd::ServerEnded,
        }
    }
}

/// Waits until the caller has closed the connection. Bytes that it sends before are ignored.
async fn wait_for_close(reader: &mut (impl AsyncReadExt + Unpin)) {
    let mut bytes = [0; 64];
    while reader.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

/// Reads a request. The error is the reason for the refusal. Returns none if the caller has closed the
/// connection without a request: it only looked who listens.
async fn read_request(reader: impl AsyncReadExt + Unpin) -> Option<Result<AdminEnvelope, String>> {
    let mut line = Vec::new();
    // One byte more than permitted, so that a longer request is noticed.
    let mut reader = BufReader::new(reader.take(MAX_REQUEST as u64 + 1));
    let read = tokio::time::timeout(TIME, reader.read_until(b'\n', &mut line)).await;
    let refusal = match read {
        Err(_) => format!("no request was received within {TIME:?}"),
        Ok(Err(error)) => format!("reading the request failed: {error}"),
        Ok(Ok(0)) => return None,
        Ok(Ok(_)) if line.len() > MAX_REQUEST => {
            format!("the request is longer than {MAX_REQUEST} bytes")
        }
        Ok(Ok(_)) if !line.ends_with(b"\n") => {
            "the request is cut off: it must be one line of JSON".to_owned()
        }
        Ok(Ok(_)) => return Some(AdminEnvelope::parse(&line)),
    };
    Some(Err(refusal))
}

/// Writes a reply. Failures are only traced: a caller that is gone or does not read harms no other.
async fn write_reply(writer: &mut (impl AsyncWriteExt + Unpin), reply: &AdminReply) {
    let Some(line) = encoded(reply) else { return };
    match tokio::time::timeout(TIME, writer.write_all(&line)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin caller disconnected before its reply"),
        Err(_) => tracing::debug!("admin caller does not read its reply"),
    }
}
