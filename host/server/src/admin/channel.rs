//! The admin channel's connections: who calls, one request, its replies. Bounded in number, size and time.
use super::{
    access::{AdminAccess, Caller},
    dispatch::{AdminDispatcher, AdminParts, AdminResult, AfterReply, ProcessCommand},
    protocol::{AdminEnvelope, AdminReply, AdminRequest, MAX_REQUEST, PROTOCOL, ServerPhase},
    socket::{AdminSocket, SocketClaim, SocketError},
    watch::{Watcher, encoded},
};
use peal_store::TraceRateLimit;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::{JoinHandle, JoinSet},
};
use tracing::{Instrument, Span, field};

/// How many may call at once; others wait to be accepted.
const CONNECTIONS: usize = 16;

/// How many may wait for the server's end; others are not told of it.
const WAITING: usize = 256;

/// How long a caller may take to ask, and to take a reply.
const TIME: Duration = Duration::from_secs(10);

/// How many orders may wait to be carried out.
const ORDERS: usize = 16;

/// The least time between two lines on callers who may not.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(1);

/// How long the listener waits after the system had no room for a connection.
const BREATHE: Duration = Duration::from_millis(50);

/// A running admin channel.
pub struct AdminChannel {
    desk: Arc<AdminDispatcher>,
    listener: JoinHandle<()>,
}

impl AdminChannel {
    /// Starts listening on a name that was claimed. Orders come out of the queue that is returned.
    pub fn start(
        claim: SocketClaim,
        parts: AdminParts,
    ) -> Result<(AdminChannel, mpsc::Receiver<ProcessCommand>), SocketError> {
        let socket = claim.listen(parts.group.as_ref())?;
        let (send, orders) = mpsc::channel(ORDERS);
        let access = AdminAccess::new(parts.group.clone());
        let desk = Arc::new(AdminDispatcher::new(parts, send));
        let listener = tokio::spawn(listen(socket, desk.clone(), Arc::new(access)));
        Ok((AdminChannel { desk, listener }, orders))
    }

    /// The server is about to end, and so far on its way. There is no way back.
    pub fn enter(&self, phase: ServerPhase) {
        self.desk.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// Tells those who wait that the server has ended, and removes the socket.
    pub async fn close(self) {
        self.enter(ServerPhase::Ended);
        if let Err(error) = self.listener.await {
            tracing::error!(%error, "the admin channel failed");
        }
    }
}

async fn listen(socket: AdminSocket, desk: Arc<AdminDispatcher>, access: Arc<AdminAccess>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let refusals = Arc::new(TraceRateLimit::new(BETWEEN_REFUSALS));
    let mut phase = desk.phase.subscribe();
    let mut calls = JoinSet::new();
    loop {
        let seat = tokio::select! {
            seat = room.clone().acquire_owned(), if calls.len() < CONNECTIONS + WAITING => seat,
            Some(_) = calls.join_next() => continue,
            () = ended(&mut phase) => break,
        };
        // The semaphore is never closed.
        let Ok(seat) = seat else { break };
        tokio::select! {
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (desk, access, refusals) = (desk.clone(), access.clone(), refusals.clone());
                    let span = tracing::error_span!("admin call", uid = field::Empty, pid = field::Empty);
                    let call = async move { serve(stream, seat, &desk, access, &refusals).await };
                    calls.spawn(call.instrument(span));
                }
                Err(error) => {
                    tracing::warn!(%error, "a caller on the admin socket could not be accepted");
                    tokio::time::sleep(BREATHE).await;
                }
            },
            () = ended(&mut phase) => break,
        }
    }
    // Before those who wait hear of the end: they may start the next server at once.
    drop(socket);
    let all = async { while calls.join_next().await.is_some() {} };
    // A caller who does not read is not waited for any longer.
    let _ = tokio::time::timeout(TIME, all).await;
}

/// Waits for the end of the server, also if that came without a word.
async fn ended(phase: &mut watch::Receiver<ServerPhase>) {
    let _ = phase.wait_for(|phase| *phase == ServerPhase::Ended).await;
}

async fn serve(
    stream: UnixStream,
    seat: OwnedSemaphorePermit,
    desk: &AdminDispatcher,
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
            return tracing::warn!(%error, "the kernel does not say who calls on the admin socket");
        }
    };
    let (mut reader, mut writer) = stream.into_split();
    let (who, has_group) = (access.who(), access.has_group());
    if !tokio::task::spawn_blocking(move || access.allows(caller))
        .await
        .unwrap_or(false)
    {
        desk.parts.metrics.counters().admin_callers_refused.count();
        if let Some(left_out) = refusals.allow(Instant::now()) {
            tracing::warn!(
                uid = caller.uid,
                pid = caller.pid,
                left_out,
                "a caller who may not administer is refused"
            );
        }
        let hint = if has_group {
            ""
        } else {
            "; admin.group in its configuration names a group whose members may, too"
        };
        let reason = format!(
            "user {} may not administer this server: {who} may{hint}",
            caller.uid
        );
        return say(&mut writer, &AdminReply::Refused { reason }).await;
    }
    let (verb, AdminResult { reply, then }) = match read(&mut reader).await {
        Ok(call) => (call.to_string(), desk.answer(caller, call).await),
        Err(reason) => (
            "(not understood)".to_owned(),
            AdminReply::Refused { reason }.into(),
        ),
    };
    desk.record(caller, verb, &reply).await;
    say(&mut writer, &reply).await;
    drop(seat);
    let mut phase = desk.phase.subscribe();
    match then {
        AfterReply::Nothing => return,
        AfterReply::End => ended(&mut phase).await,
        AfterReply::Events(watcher) => {
            let followed = tokio::select! {
                followed = follow(*watcher, &mut writer, &mut phase) => followed,
                () = gone(&mut reader) => WatchEnd::NotToTheEnd,
            };
            if let WatchEnd::NotToTheEnd = followed {
                return;
            }
        }
    }
    say(&mut writer, &AdminReply::Ended).await;
}

/// How far a watcher could be told of events.
enum WatchEnd {
    /// To the end of the server.
    ToTheEnd,
    /// Until he had gone, or did not read what he was told last.
    NotToTheEnd,
}

/// Tells a watcher of events until the server ends. He may take as long as he likes for what he is told: what he misses meanwhile
/// he is told, too.
async fn follow(
    mut watcher: Watcher,
    writer: &mut (impl AsyncWriteExt + Unpin),
    phase: &mut watch::Receiver<ServerPhase>,
) -> WatchEnd {
    loop {
        let batch = tokio::select! {
            // All that has happened before the end comes before it.
            biased;
            batch = watcher.batch() => batch,
            () = ended(phase) => None,
        };
        let Some(batch) = batch else {
            return WatchEnd::ToTheEnd;
        };
        let lines = watcher.lines(batch).await;
        let mut patience = phase.clone();
        let patience = async {
            ended(&mut patience).await;
            tokio::time::sleep(TIME).await;
        };
        tokio::select! {
            written = writer.write_all(&lines) => if written.is_err() {
                return WatchEnd::NotToTheEnd;
            },
            () = patience => return WatchEnd::NotToTheEnd,
        }
    }
}

/// Waits until a caller has gone. What he says before that has no meaning.
async fn gone(reader: &mut (impl AsyncReadExt + Unpin)) {
    let mut bytes = [0; 64];
    while reader.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

/// Reads a request, or says what is wrong with it.
async fn read(reader: impl AsyncReadExt + Unpin) -> Result<AdminRequest, String> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader.take(MAX_REQUEST as u64 + 1));
    match tokio::time::timeout(TIME, reader.read_until(b'\n', &mut line)).await {
        Err(_) => return Err(format!("no request came within {TIME:?}")),
        Ok(Err(error)) => return Err(format!("the request cannot be read: {error}")),
        Ok(Ok(_)) if line.len() > MAX_REQUEST => {
            return Err(format!("the request is longer than {MAX_REQUEST} bytes"));
        }
        Ok(Ok(_)) if !line.ends_with(b"\n") => {
            return Err("the request is cut off: a line of JSON is needed".to_owned());
        }
        Ok(Ok(_)) => {}
    }
    let of = |error: serde_json::Error| format!("the request makes no sense: {error}");
    let request: AdminEnvelope<serde_json::Value> = serde_json::from_slice(&line).map_err(of)?;
    if request.peal != PROTOCOL {
        return Err(format!(
            "the request speaks version {} of the protocol, this server {PROTOCOL}",
            request.peal
        ));
    }
    serde_json::from_value(request.call).map_err(of)
}

/// Writes a reply. If the caller has gone, or does not read, it is not for us to mind.
async fn say(writer: &mut (impl AsyncWriteExt + Unpin), reply: &AdminReply) {
    let Some(line) = encoded(reply) else { return };
    match tokio::time::timeout(TIME, writer.write_all(&line)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a caller on the admin socket has gone"),
        Err(_) => tracing::debug!("a caller on the admin socket does not read"),
    }
}
