//! NATS as the network on which servers meet.
use crate::{
    answering::{Answering, NodeServiceSlot, OpenRequests, RefusedAsk},
    check::{ServerProblem, check_server},
    link::{ClusterAccess, NatsLink},
    records::{ReadStep, RecordReader, RecordWriter, StoredRecord},
    seals::SealQueue,
    sequenced::position,
    streams::ClusterStream,
    subjects::ClusterSubject,
    view::{ClusterStanding, ClusterView},
};
use async_nats::{Event, Message, Subscriber};
use futures_util::{FutureExt, Stream, StreamExt, stream::SelectAll};
use peal_cluster::{
    ClusterOutput, ClusterServer, ClusterServerSettings, ClusterWarning, ContinuedMembership,
    HandedMembership, HandedMembershipError, HeardServers, JoinedServer, JoiningServer,
    LeaveFuture, ProtocolVersion, RefusedSender, ServerKind, ServerNetwork, ServerNotice,
    ServerTransport,
};
use peal_core::{
    MonotonicTime, group::ServerId, server::InterServerMessage, user_scope::UserScope,
};
use peal_model::{Event as PmixEvent, NodeName};
use std::{
    collections::BTreeSet,
    future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::{Instant as TokioInstant, sleep_until, timeout},
};

/// Time between two looks at the stream, for records that did not come by themselves.
const LOOK_EACH: Duration = Duration::from_secs(10);

/// Time between two attempts to connect or to read: elections of NATS servers take some seconds.
const RETRY_EACH: Duration = Duration::from_secs(1);

/// Time of a connection, with its subscriptions, that shows that many servers connect at the moment.
const SLOW_CONNECTION: Duration = Duration::from_millis(50);
/// Time in which those have connected, too.
const JOIN_WAIT: Duration = Duration::from_millis(1000);
/// Servers that connect at the same time as many others write their joins at multiples of this time.
const JOIN_EACH: Duration = Duration::from_millis(500);

/// Time between records that came by themselves and later ones. Where many servers join, those that come
/// meanwhile are processed together.
const SEQUENCED_PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of messages of one subscription that are processed before others.
const MAX_AT_ONCE: usize = 64;

/// Maximum number of beats that are processed before a look at who is silent.
const MAX_BEATS_AT_ONCE: usize = 4096;

/// Time limit of the checks of a NATS server, and time between two checks of one that is not fit.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const CHECK_EACH: Duration = Duration::from_secs(2);

/// Network of the servers of a cluster that meet on NATS.
pub struct NatsNetwork {
    access: ClusterAccess,
    settings: ClusterServerSettings,
    software: String,
    run: u64,
    runtime: Handle,
    view: ClusterView,
    seals: Option<SealQueue>,
    service: NodeServiceSlot,
    /// Server of another process, until this one goes on with it.
    continued: Mutex<Option<ContinuedMembership>>,
}

impl NatsNetwork {
    /// Returns the network for the server of one node. Its task runs in the current runtime.
    ///
    /// `software` is the version of the program, to be shown, and `run` a random number.
    pub fn new(
        access: ClusterAccess,
        settings: ClusterServerSettings,
        software: String,
        run: u64,
    ) -> NatsNetwork {
        NatsNetwork {
            access,
            settings,
            software,
            run,
            runtime: Handle::current(),
            view: ClusterView::default(),
            seals: None,
            service: NodeServiceSlot::default(),
            continued: Mutex::default(),
        }
    }

    /// Goes on with the place of another process of this node.
    pub fn continuing(self, continued: ContinuedMembership) -> NatsNetwork {
        NatsNetwork {
            run: continued.run(),
            continued: Mutex::new(Some(continued)),
            ..self
        }
    }

    /// Sends the seals of this queue to the stream of seals, also after the server has left.
    pub fn sealing(self, seals: SealQueue) -> NatsNetwork {
        NatsNetwork {
            seals: Some(seals),
            ..self
        }
    }

    /// Returns the place of the service that answers requests of other nodes.
    pub fn service(&self) -> NodeServiceSlot {
        self.service.clone()
    }

    /// Returns a view of the cluster, which follows it.
    pub fn view(&self) -> ClusterView {
        self.view.clone()
    }
}

/// Order of a record that came by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordArrival {
    /// It is the next one, or was read before.
    InOrder,
    /// Some before it did not come, and have to be read.
    AfterOthers,
}

/// Shared by the task of a network, the server's connection, and views.
pub(crate) struct Shared {
    state: Mutex<ClusterServer>,
    obstacle: Mutex<Option<Obstacle>>,
    started: Instant,
    /// Passage of the outputs of the state.
    passage: Mutex<OutputPassage>,
    /// Signals outputs of the state to the task.
    wake: Notify,
    left: watch::Sender<LeavePhase>,
}

/// Passage of the outputs of a server's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutputPassage {
    Open,
    /// They wait in the state.
    Held,
}

/// Reason for which a server does not meet others.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Obstacle {
    /// No NATS server is reached.
    Away(String),
    /// The NATS server is not fit.
    Unfit(ServerProblem),
}

/// Progress of leaving the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeavePhase {
    Member,
    Leaving,
    Left,
}

impl Shared {
    /// Returns the relation of the server to its cluster.
    pub(crate) fn standing(&self) -> ClusterStanding {
        match self.obstacle() {
            Some(Obstacle::Away(reason)) => ClusterStanding::Away(reason),
            Some(Obstacle::Unfit(problem)) => ClusterStanding::Unfit(problem),
            None => {
                let state = self.state();
                match state.id() {
                    Some(id) => ClusterStanding::Member(id),
                    None if state.is_withdrawn() => ClusterStanding::Superseded,
                    None => ClusterStanding::Joining,
                }
            }
        }
    }

    /// Returns another server as the sender of a refused message.
    fn sender(&self, server: ServerId) -> RefusedSender {
        let state = self.state();
        let member = state.membership().member(server);
        member.map_or(RefusedSender::Server(server), |member| {
            RefusedSender::Node(member.node.clone())
        })
    }

    /// Returns the number of servers in the cluster.
    pub(crate) fn servers(&self) -> usize {
        self.state().membership().members().count()
    }

    /// Returns the nodes of the cluster; none unless this server is a member.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeName> {
        if self.obstacle().is_some() {
            return BTreeSet::new();
        }
        let state = self.state();
        if state.id().is_none() {
            return BTreeSet::new();
        }
        state.membership().nodes().cloned().collect()
    }

    /// Returns true while a NATS server is reached that has passed the checks.
    pub(crate) fn is_reached(&self) -> bool {
        self.obstacle().is_none()
    }

    /// Returns true unless a check of the NATS server has failed.
    fn is_fit(&self) -> bool {
        !matches!(self.obstacle(), Some(Obstacle::Unfit(_)))
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let obstacle = self.obstacle.lock();
        obstacle.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what keeps the server from meeting others. Returns true if it is another reason than before.
    fn obstructed(&self, obstacle: Option<Obstacle>) -> bool {
        let present = self.obstacle.lock();
        let mut present = present.unwrap_or_else(PoisonError::into_inner);
        let is_new = *present != obstacle;
        *present = obstacle;
        is_new
    }

    fn state(&self) -> MutexGuard<'_, ClusterServer> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passage(&self) -> MutexGuard<'_, OutputPassage> {
        // No code panics while it holds the lock.
        self.passage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.started.elapsed()
    }

    /// Changes the state, and has the task carry out the results.
    fn change(&self, change: impl FnOnce(&mut ClusterServer, MonotonicTime)) {
        change(&mut self.state(), self.now());
        self.wake.notify_one();
    }
}

impl ServerNetwork for NatsNetwork {
    fn join(&self, server: Arc<dyn JoinedServer>, kind: ServerKind) -> Arc<dyn ServerTransport> {
        let ProtocolVersion { major, minor } = ProtocolVersion::CURRENT;
        let joining = JoiningServer {
            major,
            minor,
            software: self.software.clone(),
            kind,
            run: self.run,
        };
        let settings = ClusterServerSettings {
            max_waiting_event_bytes: server.max_server_inbox_bytes(),
            ..self.settings
        };
        let continued = self.continued.lock();
        let continued = continued.unwrap_or_else(PoisonError::into_inner).take();
        let started = Instant::now();
        let (state, started) = match continued {
            Some(continued) => {
                let clock = Duration::from_millis(continued.clock.0);
                let state = continued.server(settings);
                // The clock began after the machine, so that this time exists.
                (state, started.checked_sub(clock).unwrap_or(started))
            }
            None => {
                let node = self.access.node.clone();
                (ClusterServer::new(node, joining, settings), started)
            }
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            obstacle: Mutex::new(Some(Obstacle::Away("no connection yet".to_owned()))),
            started,
            passage: Mutex::new(OutputPassage::Open),
            wake: Notify::new(),
            left: watch::Sender::new(LeavePhase::Member),
        });
        self.view.follow(shared.clone());
        let task = NetworkTask {
            access: self.access.clone(),
            shared: shared.clone(),
            server,
            run: self.run,
            seals: self.seals.clone(),
            service: self.service.clone(),
        };
        self.runtime.spawn(task.run());
        Arc::new(NatsTransport {
            shared,
            patience: self.access.timeout,
        })
    }
}

/// Connection of a server to the others of its cluster.
struct NatsTransport {
    shared: Arc<Shared>,
    /// Time limit of leaving.
    patience: Duration,
}

impl ServerTransport for NatsTransport {
    fn distribute(&self, event: Arc<PmixEvent>, reach: UserScope) {
        self.shared
            .change(|state, now| state.distribute(&event, reach, now));
    }

    fn send(&self, to: ServerId, message: InterServerMessage) {
        self.shared
            .change(|state, now| state.send(to, message, now));
    }

    fn sender(&self, server: ServerId) -> RefusedSender {
        self.shared.sender(server)
    }

    fn room(&self, of: ServerId) {
        self.shared.change(|state, now| state.room(of, now));
    }

    fn hold(&self) {
        *self.shared.passage() = OutputPassage::Held;
    }

    fn release(&self) {
        *self.shared.passage() = OutputPassage::Open;
        self.shared.wake.notify_one();
    }

    fn handed(&self) -> Result<Option<HandedMembership>, HandedMembershipError> {
        HandedMembership::of(&self.shared.state(), self.shared.now()).map(Some)
    }

    fn leave(&self) -> LeaveFuture {
        self.shared.change(|state, _| state.leave());
        self.shared.left.send_if_modified(|phase| {
            let is_member = *phase == LeavePhase::Member;
            if is_member {
                *phase = LeavePhase::Leaving;
            }
            is_member
        });
        let mut left = self.shared.left.subscribe();
        let patience = self.patience;
        Box::pin(async move {
            let left = left.wait_for(|phase| *phase == LeavePhase::Left);
            // The others declare a server gone whose record did not get through.
            let _ = timeout(patience, left).await;
        })
    }
}

/// Task that carries out what the state of a server wants.
struct NetworkTask {
    access: ClusterAccess,
    shared: Arc<Shared>,
    server: Arc<dyn JoinedServer>,
    run: u64,
    seals: Option<SealQueue>,
    service: NodeServiceSlot,
}

/// Connection to NATS with its subscriptions.
struct Session {
    link: NatsLink,
    /// Time at which the first connection was begun, until it is made.
    began: Option<Instant>,
    /// Subscriptions. There are none before the NATS server was checked.
    frames: SelectAll<Subscriber>,
    sequenced: SelectAll<Subscriber>,
    /// The first record that came by itself during a read.
    first_sequenced: Option<Message>,
    /// Time of the next ones.
    sequenced_at: TokioInstant,
    /// Time before which this server does not join.
    join_at: TokioInstant,
    /// Time at which a read that has ended counts.
    caught_up_at: Option<TokioInstant>,
    beats: SelectAll<Subscriber>,
    heard: Option<HeardServers>,
    asks: SelectAll<Subscriber>,
    answering: Answering,
    reader: RecordReader,
    writer: RecordWriter,
}

impl NetworkTask {
    async fn run(self) {
        let mut leaving = self.shared.left.subscribe();
        let gone = async {
            // An error means that nobody is left who could say so.
            let _ = leaving.wait_for(|phase| *phase != LeavePhase::Member).await;
        };
        let began = Instant::now();
        let link = tokio::select! {
            link = self.connect() => link,
            () = gone => return self.end(),
        };
        if let Some(seals) = self.seals.clone() {
            let (client, subjects) = (link.client.clone(), link.subjects.clone());
            // The trail ends after the server has left, with a last seal.
            tokio::spawn(seals.send(client, subjects, link.node.clone(), self.shared.clone()));
        }
        let mut session = Session::new(link, began, self.run, self.service.clone());
        self.follow(&mut session).await;
        self.end();
    }

    fn end(&self) {
        self.shared.left.send_replace(LeavePhase::Left);
    }

    /// Connects to a NATS server, for as long as it takes.
    async fn connect(&self) -> NatsLink {
        loop {
            match NatsLink::connect(&self.access).await {
                Ok(link) => return link,
                Err(error) => {
                    let obstacle = Obstacle::Away(error.to_string());
                    if self.shared.obstructed(Some(obstacle)) {
                        tracing::warn!(%error, "cluster not reached, this server is alone");
                    }
                }
            }
            tokio::time::sleep(RETRY_EACH).await;
        }
    }

    /// Carries out what happens until this server has left.
    async fn follow(&self, session: &mut Session) {
        let mut look = self.reach(session).await;
        loop {
            if let Some(at) = self.all_sequenced(session) {
                look = at;
            }
            self.carry_out(session).await;
            if *self.shared.left.borrow() == LeavePhase::Leaving {
                session.writer.finish().await;
                return;
            }
            let due = self.shared.state().due_at();
            let due = due.map(|at| {
                let at = self.shared.started + Duration::from_millis(at.0);
                TokioInstant::from_std(at)
            });
            tokio::select! {
                event = session.link.events.recv() => match event {
                    Some(Event::Connected) => look = self.reach(session).await,
                    Some(Event::Disconnected) => {
                        tracing::warn!("cluster not reached, this server is alone for now");
                        self.lose(session, Obstacle::Away("the connection was lost".to_owned()));
                    }
                    // What was dropped is asked for again: frames by the links, records here.
                    Some(Event::SlowConsumer(_)) => {
                        self.shared.state().beats_missed(self.shared.now());
                        session.forget_sequenced();
                        look = self.look(session).await;
                    }
                    Some(Event::Closed) | None => return,
                    Some(other) if self.shared.is_fit() => {
                        tracing::warn!(event = %other, "NATS connection");
                    }
                    // The reason was traced.
                    Some(other) => tracing::debug!(event = %other, "NATS connection"),
                },
                Some(message) = session.frames.next() => self.frames(session, &message),
                step = session.reader.next() => look = self.read_step(session, step),
                message = Session::next_sequenced(&mut session.sequenced, session.sequenced_at),
                    if session.first_sequenced.is_none() =>
                {
                    // Those that come during a read follow what is read.
                    session.first_sequenced = Some(message);
                }
                () = elapsed(session.caught_up_at) => {
                    session.caught_up_at = None;
                    self.shared.state().caught_up();
                }
                // There may be more of them than are processed at once.
                () = future::ready(()), if session.has_sequenced() => {}
                Some(message) = session.beats.next() => self.beat(session, &message),
                Some(message) = session.asks.next() => {
                    if let Err(RefusedAsk { from, reason }) = session.answering.take(&message) {
                        self.server.message_refused(from, &reason);
                    }
                }
                () = self.shared.wake.notified() => {}
                () = elapsed(due) => {
                    // Who has sent a beat must not be declared gone because it was not read.
                    for _ in 0..MAX_BEATS_AT_ONCE {
                        let Some(message) = ready(&mut session.beats) else {
                            break;
                        };
                        self.beat(session, &message);
                    }
                    let now = self.shared.now();
                    self.shared.state().elapse(now);
                }
                () = sleep_until(look), if !session.reader.is_reading() => {
                    look = self.look(session).await;
                }
            }
        }
    }

    /// Gives up the connection, until the NATS server is reached and fit again. Returns true if the reason
    /// is another one than before.
    fn lose(&self, session: &mut Session, obstacle: Obstacle) -> bool {
        session.writer.drop_pending();
        session.stop_reading();
        self.shared.state().disconnected();
        self.shared.obstructed(Some(obstacle))
    }

    /// Checks the NATS server after a connection was made, and reads the sequence if it is fit. Returns the
    /// time of the next look.
    async fn reach(&self, session: &mut Session) -> TokioInstant {
        let report = timeout(CHECK_TIMEOUT, check_server(&mut session.link)).await;
        let problem = match report {
            Ok(report) => report.require_fit().err(),
            Err(_) => Some(ServerProblem::Silent {
                request: "the checks".to_owned(),
                limit: CHECK_TIMEOUT,
            }),
        };
        if let Some(problem) = problem {
            if self.lose(session, Obstacle::Unfit(problem.clone())) {
                tracing::error!(error = %problem, "cluster not joined: the NATS server is not fit");
            }
            return TokioInstant::now() + CHECK_EACH;
        }
        // Before anything is read: what comes meanwhile waits there. A NATS server that was not fit may have
        // refused subscriptions.
        if let Err(error) = session.subscribe().await {
            tracing::warn!(%error, "subscriptions on NATS not made");
            self.lose(session, Obstacle::Away(error.to_string()));
            return TokioInstant::now() + RETRY_EACH;
        }
        let heard = session.heard.clone();
        if let Some(heard) = heard {
            self.hear(session, &heard).await;
        }
        self.shared.obstructed(None);
        if let Some(began) = session.began.take() {
            session.join_at = join_time(began.elapsed());
        }
        let now = self.shared.now();
        self.shared.state().connected(now);
        self.read(session)
    }

    /// Does what is due for the phase of the connection: a check or a read. Returns the time of the next look.
    async fn look(&self, session: &mut Session) -> TokioInstant {
        match self.shared.obstacle() {
            Some(Obstacle::Unfit(_)) => self.reach(session).await,
            // The connection says when it is there again.
            Some(Obstacle::Away(_)) => TokioInstant::now() + LOOK_EACH,
            None => self.read(session),
        }
    }

    /// Begins to read the records that did not come by themselves. Returns the time of the next look.
    fn read(&self, session: &mut Session) -> TokioInstant {
        session.stop_reading();
        session.reader.begin(self.shared.state().position());
        TokioInstant::now() + LOOK_EACH
    }

    /// Takes a step of the read. Returns the time of the next look.
    fn read_step(&self, session: &mut Session, step: ReadStep) -> TokioInstant {
        let mut wait = LOOK_EACH;
        match step {
            ReadStep::Restarted => {
                self.shared.state().restarted();
                session.forget_sequenced();
                return self.read(session);
            }
            ReadStep::Record(record) => self.stored(session, &record),
            ReadStep::End(last) => {
                self.shared.state().skip(last);
                session.caught_up_at = Some(session.join_at);
            }
            ReadStep::Failed(error) => {
                tracing::warn!(%error, "records of the cluster not read");
                wait = RETRY_EACH;
            }
        }
        TokioInstant::now() + wait
    }

    /// Processes a record that was read.
    fn stored(&self, session: &Session, record: &StoredRecord) {
        let now = self.shared.now();
        match session.link.subjects.parse(&record.subject) {
            Ok(
                ClusterSubject::Member { node: writer } | ClusterSubject::Verdict { by: writer },
            ) => {
                let mut state = self.shared.state();
                state.record(record.at, writer, &record.bytes, now);
            }
            Ok(_) | Err(_) => {
                self.refuse_subject(&record.subject);
                self.shared.state().skip(record.at);
            }
        }
    }

    /// Processes a frame, and those that wait behind it.
    fn frames(&self, session: &mut Session, first: &Message) {
        self.frame(session, first);
        for _ in 1..MAX_AT_ONCE {
            let Some(message) = ready(&mut session.frames) else {
                return;
            };
            self.frame(session, &message);
        }
    }

    /// Processes the records that came by themselves, or ends a read before them. Returns the time of the
    /// next look if others have to be read first.
    fn all_sequenced(&self, session: &mut Session) -> Option<TokioInstant> {
        if session.reader.is_reading() {
            let first = session.first_sequenced.as_ref();
            if let Some(at) = first.and_then(position) {
                session.reader.end_before(at);
            }
            return None;
        }
        let mut message = session.first_sequenced.take()?;
        session.sequenced_at = TokioInstant::now() + SEQUENCED_PAUSE;
        for _ in 0..MAX_AT_ONCE {
            if self.sequenced(session, &message) == RecordArrival::AfterOthers {
                return Some(self.read(session));
            }
            message = ready(&mut session.sequenced)?;
        }
        session.first_sequenced = Some(message);
        None
    }

    fn frame(&self, session: &Session, message: &Message) {
        let now = self.shared.now();
        match session.link.subjects.parse(&message.subject) {
            Ok(ClusterSubject::Direct { from, .. }) => {
                self.shared.state().frame(from, &message.payload, now);
            }
            // Stored messages may come under their own subjects.
            Ok(_) | Err(_) => self.refuse_subject(&message.subject),
        }
    }

    fn beat(&self, session: &Session, message: &Message) {
        let now = self.shared.now();
        let subject = session.link.subjects.parse(&message.subject);
        if let Ok(ClusterSubject::Broadcast { from }) = subject {
            self.shared.state().beat(&from, now);
        }
    }

    fn sequenced(&self, session: &Session, message: &Message) -> RecordArrival {
        let subject = session.link.subjects.parse(&message.subject);
        let (
            Some(at),
            Ok(ClusterSubject::Member { node: writer } | ClusterSubject::Verdict { by: writer }),
        ) = (position(message), subject)
        else {
            self.refuse_subject(&message.subject);
            return RecordArrival::InOrder;
        };
        let mut state = self.shared.state();
        if at.0 > state.position().0.saturating_add(1) {
            return RecordArrival::AfterOthers;
        }
        let now = self.shared.now();
        state.record(at, writer, &message.payload, now);
        RecordArrival::InOrder
    }

    /// Refuses a message under a subject that no message has there.
    fn refuse_subject(&self, subject: &str) {
        let reason = format!("{subject:?} is no subject of messages for this server");
        self.server.message_refused(RefusedSender::Unknown, &reason);
    }

    /// Carries out the results of the state in their order.
    async fn carry_out(&self, session: &mut Session) {
        loop {
            let Some(output) = self.next_output() else {
                return;
            };
            match output {
                ClusterOutput::Transmit { to, frame } => {
                    let from = session.link.node.clone();
                    session
                        .publish(ClusterSubject::Direct { from, to }, frame)
                        .await;
                }
                ClusterOutput::Beat => {
                    let from = session.link.node.clone();
                    session
                        .publish(ClusterSubject::Broadcast { from }, Vec::new())
                        .await;
                }
                ClusterOutput::Write(record) => session.writer.write(record),
                ClusterOutput::Hear(servers) => self.hear(session, &servers).await,
                // The server was told.
                ClusterOutput::Tell(_) => {}
                ClusterOutput::Warn(warning) => self.warn(&warning),
            }
        }
    }

    /// Returns the next result of the state, unless results are held.
    fn next_output(&self) -> Option<ClusterOutput> {
        // Until the server was told: after a hold it is told of nothing.
        let passage = self.shared.passage();
        loop {
            if *passage == OutputPassage::Held {
                return None;
            }
            let output = self.shared.state().next_output();
            match output? {
                ClusterOutput::Tell(notice) => self.tell(notice),
                output => return Some(output),
            }
        }
    }

    fn tell(&self, notice: ServerNotice) {
        match notice {
            ServerNotice::Enrolled(id) => {
                tracing::info!(id = id.0, "cluster joined");
                self.server.enroll(id);
            }
            ServerNotice::Joined { id, kind } => self.server.server_joined(id, kind),
            ServerNotice::Left(id) => self.server.server_left(id),
            ServerNotice::Message { from, message } => {
                if let Err(message) = self.server.server_message(from, message) {
                    self.shared.state().refused(from, *message);
                }
            }
            ServerNotice::LastMessage { from, message } => self.server.last_message(from, message),
        }
    }

    fn warn(&self, warning: &ClusterWarning) {
        match warning {
            // After a server has left, frames of it may still be on their way.
            ClusterWarning::Misdirected { .. } => {
                tracing::debug!(%warning, "frame of the cluster dropped");
            }
            ClusterWarning::Superseded(_) => tracing::error!(%warning, "cluster left"),
            ClusterWarning::DeclaredGone
            | ClusterWarning::SequenceLost
            | ClusterWarning::Encoding(_)
            | ClusterWarning::HeldUp(_)
            | ClusterWarning::Incompatible { .. } => tracing::warn!(%warning, "cluster"),
            other => {
                let from = match other.refused_sender() {
                    Some(RefusedSender::Server(id)) => self.shared.sender(id),
                    Some(from) => from,
                    None => RefusedSender::Unknown,
                };
                self.server.message_refused(from, &other.to_string());
            }
        }
    }

    /// Subscribes to the beats of these servers, and of no others.
    async fn hear(&self, session: &mut Session, servers: &HeardServers) {
        let subjects: Vec<String> = match servers {
            HeardServers::All => vec![session.link.subjects.broadcasts()],
            HeardServers::Only(ids) => {
                let state = self.shared.state();
                let members = ids.iter().filter_map(|id| state.membership().member(*id));
                members
                    .map(|member| {
                        let from = member.node.clone();
                        session
                            .link
                            .subjects
                            .text(&ClusterSubject::Broadcast { from })
                    })
                    .collect()
            }
        };
        let mut beats = SelectAll::new();
        for subject in subjects {
            match session.link.client.subscribe(subject.clone()).await {
                Ok(subscriber) => beats.push(subscriber),
                Err(error) => tracing::warn!(%error, subject, "beats of the cluster not heard"),
            }
        }
        // The subscriptions that this replaces end with their subscribers.
        session.beats = beats;
        session.heard = Some(servers.clone());
    }
}

impl Session {
    fn new(link: NatsLink, began: Instant, run: u64, service: NodeServiceSlot) -> Session {
        let NatsLink {
            client,
            subjects,
            node,
            ..
        } = &link;
        Session {
            reader: RecordReader::new(client, subjects, ClusterStream::Members),
            writer: RecordWriter::start(client, subjects, node, run),
            answering: Answering {
                client: client.clone(),
                subjects: subjects.clone(),
                node: node.clone(),
                service,
                open: OpenRequests::default(),
            },
            link,
            began: Some(began),
            frames: SelectAll::new(),
            sequenced: SelectAll::new(),
            first_sequenced: None,
            sequenced_at: TokioInstant::now(),
            join_at: TokioInstant::now(),
            caught_up_at: None,
            beats: SelectAll::new(),
            heard: None,
            asks: SelectAll::new(),
        }
    }

    /// Subscribes to records, frames and requests, in the place of earlier subscriptions.
    async fn subscribe(&mut self) -> Result<(), async_nats::SubscribeError> {
        let NatsLink {
            client,
            subjects,
            node,
            ..
        } = &self.link;
        let sequenced = client.subscribe(subjects.sequenced()).await?;
        let frames = client.subscribe(subjects.messages_to(node)).await?;
        let asks = client.subscribe(subjects.asks_to(node)).await?;
        self.sequenced = [sequenced].into_iter().collect();
        self.frames = [frames].into_iter().collect();
        self.asks = [asks].into_iter().collect();
        Ok(())
    }

    /// Gives up a read, and does not count one that has ended.
    fn stop_reading(&mut self) {
        self.reader.stop();
        self.caught_up_at = None;
    }

    /// Returns the next record that came by itself, from a time on. May be cancelled.
    async fn next_sequenced(sequenced: &mut SelectAll<Subscriber>, at: TokioInstant) -> Message {
        sleep_until(at).await;
        match sequenced.next().await {
            Some(message) => message,
            None => future::pending().await,
        }
    }

    /// Drops records that came by themselves, of which some may be missing. A read begins next.
    fn forget_sequenced(&mut self) {
        self.first_sequenced = None;
        while ready(&mut self.sequenced).is_some() {}
    }

    /// Returns true if records that came by themselves can be processed.
    fn has_sequenced(&self) -> bool {
        self.first_sequenced.is_some() && !self.reader.is_reading()
    }

    async fn publish(&self, subject: ClusterSubject, payload: Vec<u8>) {
        let subject = self.link.subjects.text(&subject);
        // What is lost is sent again.
        if let Err(error) = self.link.client.publish(subject, payload.into()).await {
            tracing::debug!(%error, "frame for the cluster not published");
        }
    }
}

/// Waits for a time, or for ever.
async fn elapsed(at: Option<TokioInstant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
    }
}

/// Returns the time at which a server joins whose connection took this long. Many servers that start at
/// the same time connect slowly. If all have subscribed before the first joins, none has to read the
/// records of others one by one; and if all write at the same moment, a NATS server sends many records
/// at once.
fn join_time(connection: Duration) -> TokioInstant {
    let now = TokioInstant::now();
    if connection < SLOW_CONNECTION {
        return now;
    }
    // Servers on several nodes agree about the moment by their clocks, which need not be right.
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default() + JOIN_WAIT;
    let step = JOIN_EACH.as_millis();
    let rest = u64::try_from(step - since.as_millis() % step).unwrap_or_default();
    now + JOIN_WAIT + Duration::from_millis(rest)
}

/// Returns a message that is there already.
fn ready(messages: &mut (impl Stream<Item = Message> + Unpin)) -> Option<Message> {
    messages.next().now_or_never().flatten()
}
