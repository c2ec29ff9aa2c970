//! Host environment at the other end of a stub's connection: upcalls and their answers.
use crate::host_environment::UpcallOverNodes;
use peal_core::job_control::ControlResult;
use peal_model::{Bytes, Info, Infos, Proc, Status, UserIdentity, Value, code, key};
use peal_stub::{
    HostNotice, HostUpcall, RequestNumber, ServerMessage, UpcallKind, UpcallNumber, UpcallResult,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Answer of a host environment.
pub(super) type UpcallAnswer = Result<UpcallResult, Status>;

/// Limits of the upcalls to one host environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UpcallLimits {
    /// Time for the answer to an upcall that does not wait for other procs.
    pub(super) timeout: Duration,
    /// Number of open upcalls.
    pub(super) open: usize,
}

/// A connected host environment.
pub struct RemoteHost {
    /// Name by which the host environment's process is known.
    pub(super) name: Proc,
    /// User of the process, as the kernel says.
    pub(super) identity: UserIdentity,
    offered: BTreeSet<UpcallKind>,
    outgoing: mpsc::Sender<ServerMessage>,
    upcalls: Mutex<OpenUpcalls>,
    /// Requests for values of procs of this node that are not answered.
    values_requests: Mutex<BTreeMap<RequestNumber, Proc>>,
    limits: UpcallLimits,
}

#[derive(Default)]
struct OpenUpcalls {
    open: BTreeMap<UpcallNumber, UpcallCaller>,
    last: u64,
    /// True after the end of the connection, when no answer can come.
    ended: bool,
    /// Answers that came while they were kept back, if they are.
    held: Option<BTreeMap<UpcallNumber, UpcallAnswer>>,
    /// Upcalls of the previous process of this server whose answers nobody awaits yet.
    continued: Vec<ContinuedUpcall>,
}

/// Part of the server that waits for an answer.
struct UpcallCaller {
    reply_to: oneshot::Sender<UpcallAnswer>,
    /// Upcall as another process of the server knows it, if that can await the answer.
    over_nodes: Option<UpcallOverNodes>,
}

/// Open upcall that another process of the server awaits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HandedUpcall {
    number: UpcallNumber,
    upcall: UpcallOverNodes,
}

/// Upcall of the previous process of this server.
pub(super) struct ContinuedUpcall {
    pub(super) upcall: UpcallOverNodes,
    number: UpcallNumber,
    answer: oneshot::Receiver<UpcallAnswer>,
}

/// Host environment as another process of the server knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HandedHostEnvironment {
    name: Proc,
    identity: UserIdentity,
    offered: BTreeSet<UpcallKind>,
    last_upcall: u64,
    upcalls: Vec<HandedUpcall>,
}

impl fmt::Debug for RemoteHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host environment {}", self.name)
    }
}

impl RemoteHost {
    pub(super) fn new(
        name: Proc,
        identity: UserIdentity,
        offered: Vec<UpcallKind>,
        outgoing: mpsc::Sender<ServerMessage>,
        limits: UpcallLimits,
    ) -> RemoteHost {
        RemoteHost {
            name,
            identity,
            offered: offered.into_iter().collect(),
            outgoing,
            upcalls: Mutex::default(),
            values_requests: Mutex::default(),
            limits,
        }
    }

    /// Makes the host environment of a connection that the previous process of this server had.
    pub(super) fn continued(
        handed: HandedHostEnvironment,
        outgoing: mpsc::Sender<ServerMessage>,
        limits: UpcallLimits,
    ) -> RemoteHost {
        let HandedHostEnvironment {
            name,
            identity,
            offered,
            last_upcall,
            upcalls,
        } = handed;
        let mut open = OpenUpcalls {
            last: last_upcall,
            ..OpenUpcalls::default()
        };
        for HandedUpcall { number, upcall } in upcalls {
            let (reply_to, answer) = oneshot::channel();
            let caller = UpcallCaller {
                reply_to,
                over_nodes: Some(upcall.clone()),
            };
            open.open.insert(number, caller);
            open.continued.push(ContinuedUpcall {
                upcall,
                number,
                answer,
            });
        }
        RemoteHost {
            name,
            identity,
            offered,
            outgoing,
            upcalls: Mutex::new(open),
            values_requests: Mutex::default(),
            limits,
        }
    }

    /// Returns the host environment for another process of the server, while all answers are kept back.
    pub(super) fn handed(&self) -> HandedHostEnvironment {
        let upcalls = self.upcalls();
        let of = |(number, caller): (&UpcallNumber, &UpcallCaller)| {
            Some(HandedUpcall {
                number: *number,
                upcall: caller.over_nodes.clone()?,
            })
        };
        HandedHostEnvironment {
            name: self.name.clone(),
            identity: self.identity,
            offered: self.offered.clone(),
            last_upcall: upcalls.last,
            upcalls: upcalls.open.iter().filter_map(of).collect(),
        }
    }

    /// Returns true if the host environment has this upcall.
    pub(super) fn offers(&self, kind: UpcallKind) -> bool {
        self.offered.contains(&kind)
    }

    /// Makes an upcall, and waits for its answer.
    ///
    /// # Errors
    ///
    /// The status of the host environment; `PMIX_ERR_NOT_SUPPORTED` if it does not offer the upcall,
    /// `PMIX_ERR_TIMEOUT` if it does not answer, `PMIX_ERR_LOST_CONNECTION` if it has gone, and
    /// `PMIX_ERR_OUT_OF_RESOURCE` if too many upcalls are open.
    pub(super) async fn call(&self, upcall: HostUpcall) -> UpcallAnswer {
        self.call_known_as(upcall, None).await
    }

    /// Makes an upcall whose answer another process of the server can await, as in [`RemoteHost::call`].
    ///
    /// # Errors
    ///
    /// Those of [`RemoteHost::call`].
    pub(super) async fn call_over_nodes(
        &self,
        upcall: HostUpcall,
        known_as: UpcallOverNodes,
    ) -> UpcallAnswer {
        self.call_known_as(upcall, Some(known_as)).await
    }

    async fn call_known_as(
        &self,
        upcall: HostUpcall,
        over_nodes: Option<UpcallOverNodes>,
    ) -> UpcallAnswer {
        let kind = upcall.kind();
        let answer = self.answer_to(upcall, over_nodes).await;
        if let Err(status) = &answer {
            tracing::debug!(host = %self.name, upcall = ?kind, %status, "upcall failed");
        }
        answer
    }

    async fn answer_to(
        &self,
        upcall: HostUpcall,
        over_nodes: Option<UpcallOverNodes>,
    ) -> UpcallAnswer {
        let kind = upcall.kind();
        if !self.offers(kind) {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
        let limit = self.limit(&upcall);
        let (number, answer) = self.open(over_nodes)?;
        let _open = OpenUpcall { host: self, number };
        self.send(ServerMessage::Upcall { number, upcall })?;
        self.within(limit, answer, kind).await
    }

    /// Waits for the answer to an upcall of the previous process.
    pub(super) async fn answer_to_continued(&self, upcall: ContinuedUpcall) -> UpcallAnswer {
        let ContinuedUpcall {
            upcall,
            number,
            answer,
        } = upcall;
        let _open = OpenUpcall { host: self, number };
        let (kind, limit) = match upcall {
            UpcallOverNodes::Gather(_) => (UpcallKind::Fence, None),
            UpcallOverNodes::Group { .. } => (UpcallKind::Group, None),
            UpcallOverNodes::DirectModex(_) => (UpcallKind::DirectModex, Some(self.limits.timeout)),
        };
        self.within(limit, answer, kind).await
    }

    /// Waits for an answer, at most this long.
    async fn within(
        &self,
        limit: Option<Duration>,
        answer: oneshot::Receiver<UpcallAnswer>,
        kind: UpcallKind,
    ) -> UpcallAnswer {
        let answer = async { answer.await.unwrap_or(Err(code::PMIX_ERR_LOST_CONNECTION)) };
        let Some(limit) = limit else {
            return answer.await;
        };
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::warn!(host = %self.name, upcall = ?kind, ?limit, "upcall not answered in time");
                Err(code::PMIX_ERR_TIMEOUT)
            }
        }
    }

    /// Returns the time that the host environment has for an upcall; none for one that waits for other
    /// procs, as long as those take. The server has a time limit of the requester for collectives, and the
    /// host environment for lookups, where this is the time beyond it.
    fn limit(&self, upcall: &HostUpcall) -> Option<Duration> {
        let usual = self.limits.timeout;
        match upcall {
            HostUpcall::Fence { .. }
            | HostUpcall::Connect { .. }
            | HostUpcall::Disconnect { .. }
            | HostUpcall::Group { .. } => None,
            HostUpcall::Lookup { infos, .. } => {
                let seconds = infos.value_of(key::PMIX_TIMEOUT).and_then(Value::as_u64);
                match seconds {
                    Some(seconds @ 1..) => Some(usual.saturating_add(Duration::from_secs(seconds))),
                    _ => infos.value_of(key::PMIX_WAIT).is_none().then_some(usual),
                }
            }
            _ => Some(usual),
        }
    }

    /// Makes an upcall without an answer.
    pub(super) fn notice(&self, notice: HostNotice) {
        // A host environment that has gone, or does not read, misses it.
        let _ = self.send(ServerMessage::Notice(notice));
    }

    /// Passes on the answer to an upcall. Answers to upcalls that are not open are ignored: a host
    /// environment may answer twice, or too late.
    pub(super) fn answered(&self, number: UpcallNumber, answer: UpcallAnswer) {
        let mut upcalls = self.upcalls();
        if !upcalls.open.contains_key(&number) {
            tracing::debug!(host = %self.name, number = number.0, "answer to no open upcall ignored");
            return;
        }
        if let Some(held) = &mut upcalls.held {
            // The first answer counts.
            held.entry(number).or_insert(answer);
        } else if let Some(caller) = upcalls.open.remove(&number) {
            // The caller may have gone.
            let _ = caller.reply_to.send(answer);
        }
    }

    /// Keeps further answers back.
    pub(super) fn hold_answers(&self) {
        self.upcalls().held.get_or_insert_default();
    }

    /// Passes on the answers that were kept back, and further ones.
    pub(super) fn release_answers(&self) {
        let held = self.upcalls().held.take();
        for (number, answer) in held.into_iter().flatten() {
            self.answered(number, answer);
        }
    }

    /// Returns the answers that are kept back.
    pub(super) fn held_answers(&self) -> Vec<(UpcallNumber, UpcallAnswer)> {
        let upcalls = self.upcalls();
        let held = upcalls.held.iter().flatten();
        held.map(|(number, answer)| (*number, answer.clone()))
            .collect()
    }

    /// Returns the number of open upcalls whose answers another process of the server can await.
    pub(super) fn upcalls_over_nodes(&self) -> usize {
        let upcalls = self.upcalls();
        let callers = upcalls.open.values();
        callers.filter(|caller| caller.over_nodes.is_some()).count()
    }

    /// Notes a request for the values of a proc, until it is answered.
    pub(super) fn values_request(&self, number: RequestNumber, proc: Proc) {
        self.values_requests().insert(number, proc);
    }

    /// Notes that a request for values is answered.
    pub(super) fn values_sent(&self, number: RequestNumber) {
        self.values_requests().remove(&number);
    }

    /// Returns the open requests for values.
    pub(super) fn open_values_requests(&self) -> BTreeMap<RequestNumber, Proc> {
        self.values_requests().clone()
    }

    /// Returns the number of open requests for values.
    pub(super) fn values_requested(&self) -> usize {
        self.values_requests().len()
    }

    fn values_requests(&self) -> MutexGuard<'_, BTreeMap<RequestNumber, Proc>> {
        // No code panics while it holds the lock.
        self.values_requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the upcalls of the previous process, once.
    pub(super) fn take_continued(&self) -> Vec<ContinuedUpcall> {
        std::mem::take(&mut self.upcalls().continued)
    }

    /// Ends all open upcalls: no answer can come any more.
    pub(super) fn end(&self) {
        let mut upcalls = self.upcalls();
        upcalls.ended = true;
        // The callers get the error of a dropped sender.
        upcalls.open.clear();
        upcalls.held = None;
    }

    fn open(
        &self,
        over_nodes: Option<UpcallOverNodes>,
    ) -> Result<(UpcallNumber, oneshot::Receiver<UpcallAnswer>), Status> {
        let mut upcalls = self.upcalls();
        if upcalls.ended {
            return Err(code::PMIX_ERR_LOST_CONNECTION);
        }
        if upcalls.open.len() >= self.limits.open {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        upcalls.last = upcalls.last.wrapping_add(1);
        let number = UpcallNumber(upcalls.last);
        let (reply_to, answer) = oneshot::channel();
        let caller = UpcallCaller {
            reply_to,
            over_nodes,
        };
        upcalls.open.insert(number, caller);
        Ok((number, answer))
    }

    fn send(&self, message: ServerMessage) -> Result<(), Status> {
        // Never waits: a host environment that does not read must not delay the server.
        self.outgoing.try_send(message).map_err(|error| {
            tracing::warn!(host = %self.name, %error, "message to host environment not sent");
            code::PMIX_ERR_OUT_OF_RESOURCE
        })
    }

    fn upcalls(&self) -> MutexGuard<'_, OpenUpcalls> {
        // No code panics while it holds the lock.
        self.upcalls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open upcall. It is forgotten when its caller no longer waits.
struct OpenUpcall<'a> {
    host: &'a RemoteHost,
    number: UpcallNumber,
}

impl Drop for OpenUpcall<'_> {
    fn drop(&mut self) {
        self.host.upcalls().open.remove(&self.number);
    }
}

/// Returns the result of an upcall of another kind than expected as an error.
fn unexpected(result: &UpcallResult, expected: &'static str) -> Status {
    tracing::warn!(
        ?result,
        expected,
        "upcall answered with a result of another kind"
    );
    code::PMIX_ERROR
}

/// Returns the result of an answer. One with a status other than success is an error, unless it is a
/// part of what was requested.
fn result(answer: UpcallAnswer) -> UpcallAnswer {
    match answer? {
        UpcallResult::WithStatus {
            status: code::PMIX_ERR_PARTIAL_SUCCESS | code::PMIX_QUERY_PARTIAL_SUCCESS,
            result,
        } => Ok(*result),
        UpcallResult::WithStatus { status, .. } => Err(status),
        result => Ok(result),
    }
}

/// Takes an answer without contents.
pub(super) fn done(answer: UpcallAnswer) -> Result<(), Status> {
    result(answer).map(drop)
}

/// Takes the infos of an answer.
pub(super) fn infos(answer: UpcallAnswer) -> Result<Vec<Info>, Status> {
    match result(answer)? {
        UpcallResult::Infos(infos) => Ok(infos),
        UpcallResult::Done => Ok(Vec::new()),
        other => Err(unexpected(&other, "infos")),
    }
}

/// Takes the answer to job control. A status of the host environment keeps its infos.
pub(super) fn controlled(answer: UpcallAnswer) -> Result<ControlResult, Status> {
    let (status, answer) = match answer? {
        UpcallResult::WithStatus {
            status: status @ code::PMIX_ERR_NOT_SUPPORTED,
            ..
        } => return Err(status),
        UpcallResult::WithStatus { status, result } => (status, *result),
        answer => (code::PMIX_SUCCESS, answer),
    };
    let infos = infos(Ok(answer))?;
    Ok(ControlResult::OfLauncher { status, infos })
}

/// Takes the bytes of an answer.
pub(super) fn data(answer: UpcallAnswer) -> Result<Bytes, Status> {
    match result(answer)? {
        UpcallResult::Data(data) => Ok(data),
        UpcallResult::Done => Ok(Bytes::default()),
        other => Err(unexpected(&other, "data")),
    }
}

/// Takes the published data of an answer.
pub(super) fn published(answer: UpcallAnswer) -> Result<Vec<peal_model::Pdata>, Status> {
    match result(answer)? {
        UpcallResult::Published(data) => Ok(data),
        other => Err(unexpected(&other, "published data")),
    }
}

/// Takes the new job of an answer.
pub(super) fn spawned(answer: UpcallAnswer) -> Result<peal_model::Nspace, Status> {
    match result(answer)? {
        UpcallResult::Spawned(nspace) => Ok(nspace),
        other => Err(unexpected(&other, "a namespace")),
    }
}

/// Takes the name of a tool of an answer.
pub(super) fn tool(answer: UpcallAnswer) -> Result<Proc, Status> {
    match result(answer)? {
        UpcallResult::Tool(name) => Ok(name),
        other => Err(unexpected(&other, "a name")),
    }
}

/// Takes the credential of an answer, and the infos about it.
pub(super) fn credential(answer: UpcallAnswer) -> Result<(Bytes, Vec<Info>), Status> {
    match result(answer)? {
        UpcallResult::Credential { credential, infos } => Ok((credential, infos)),
        other => Err(unexpected(&other, "a credential")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::server::FenceId;
    use peal_model::{Nspace, Rank};
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    fn host(open: usize, timeout: Duration) -> (RemoteHost, mpsc::Receiver<ServerMessage>) {
        let (outgoing, sent) = mpsc::channel(8);
        let name = Proc::new(Nspace::new("host").unwrap(), Rank(0));
        let root = UserIdentity { uid: 0, gid: 0 };
        let offered = vec![UpcallKind::Query, UpcallKind::Fence];
        let limits = UpcallLimits { timeout, open };
        (RemoteHost::new(name, root, offered, outgoing, limits), sent)
    }

    fn query() -> HostUpcall {
        HostUpcall::Query {
            source: Proc::new(Nspace::new("job").unwrap(), Rank(0)),
            queries: Vec::new(),
        }
    }

    #[tokio::test]
    async fn answer_reaches_its_caller_once_and_others_are_ignored() {
        let (host, mut sent) = host(8, Duration::from_secs(60));
        let answer = async {
            let Some(ServerMessage::Upcall { number, .. }) = sent.recv().await else {
                panic!("an upcall should be sent")
            };
            host.answered(UpcallNumber(number.0 + 7), Err(code::PMIX_ERROR));
            host.answered(number, Ok(UpcallResult::Done));
            host.answered(number, Err(code::PMIX_ERROR));
        };
        let (result, ()) = tokio::join!(host.call(query()), answer);
        assert_eq!(result, Ok(UpcallResult::Done));
    }

    #[tokio::test(start_paused = true)]
    async fn host_that_never_answers_costs_a_timeout() {
        let (host, _sent) = host(1, Duration::from_secs(60));
        assert_eq!(host.call(query()).await, Err(code::PMIX_ERR_TIMEOUT));
        // The next upcall has room again.
        assert_eq!(host.call(query()).await, Err(code::PMIX_ERR_TIMEOUT));
    }

    #[tokio::test]
    async fn unoffered_upcall_is_not_sent() {
        let (host, mut sent) = host(8, Duration::from_secs(60));
        let connect = HostUpcall::Connect {
            procs: Vec::new(),
            infos: Vec::new(),
        };
        assert_eq!(host.call(connect).await, Err(code::PMIX_ERR_NOT_SUPPORTED));
        assert!(sent.try_recv().is_err());
    }

    #[tokio::test]
    async fn held_answers_are_passed_on_later_or_elsewhere() {
        let (old, mut sent) = host(8, Duration::from_secs(60));
        let fence = HostUpcall::Fence {
            procs: Vec::new(),
            infos: Vec::new(),
            data: Bytes::default(),
        };
        let known_as = UpcallOverNodes::Gather(FenceId(7));
        let mut call = Box::pin(old.call_over_nodes(fence, known_as.clone()));
        assert!(poll_once(&mut call).is_pending());
        let Some(ServerMessage::Upcall { number, .. }) = sent.recv().await else {
            panic!("an upcall should be sent")
        };
        old.hold_answers();
        old.answered(number, Ok(UpcallResult::Done));
        assert!(poll_once(&mut call).is_pending());
        assert_eq!(old.upcalls_over_nodes(), 1);
        let (outgoing, _sent) = mpsc::channel(8);
        let new = RemoteHost::continued(old.handed(), outgoing, old.limits);
        old.release_answers();
        assert_eq!(call.await, Ok(UpcallResult::Done));
        let [continued] = <[ContinuedUpcall; 1]>::try_from(new.take_continued())
            .unwrap_or_else(|_| panic!("one upcall should be continued"));
        assert_eq!(continued.upcall, known_as);
        new.answered(number, Err(code::PMIX_ERROR));
        assert_eq!(
            new.answer_to_continued(continued).await,
            Err(code::PMIX_ERROR)
        );
        assert_eq!(new.upcalls_over_nodes(), 0);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn end_of_connection_ends_open_upcalls() {
        let (host, _sent) = host(8, Duration::from_secs(60));
        let (result, ()) = tokio::join!(host.call(query()), async { host.end() });
        assert_eq!(result, Err(code::PMIX_ERR_LOST_CONNECTION));
        assert_eq!(
            host.call(query()).await,
            Err(code::PMIX_ERR_LOST_CONNECTION)
        );
    }
}
