//! State that a client's calls and its event task share: name, handlers and connections.
use crate::{
    Call, ClientError, ClientSettings, caller,
    client::bounded,
    event_registrations::ServerUpdate,
    events::{CalledHandlers, ClientHandlers, EventRetention, IncomingEvent},
    group::InvitationAnswer,
    group::LedInvitations,
    handler::{ExternalHandler, Handler, HandlerRequests, RaisedEvent},
    lock,
    queue::{Arrivals, EventQueue, WaitingItem},
    queued_item::QueuedItem,
    server_connection::{ConnectTarget, Connected, PendingReply, ServerConnection},
};
use peal_core::{
    audience,
    registration::{HandlerRegistration, RegistrationId},
};
use peal_model::{
    CommandCode, Event, Info, ModuleRegistration, Proc, Range, RegistrationChange, Request, Status,
    Value, code, key,
};
use peal_wire::ServerUri;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// State of a client, which may be connected to several servers.
pub(crate) struct ClientSession {
    pub(crate) me: Proc,
    pub(crate) settings: ClientSettings,
    pub(crate) handlers: ClientHandlers,
    pub(crate) queue: EventQueue,
    /// Connections; calls go to the first. A lost one stays until another is attached, so that
    /// calls can name the lost server.
    links: Mutex<Vec<Arc<ServerConnection>>>,
    pub(crate) presence: ServerPresence,
    /// Held while the registrations change here and the servers are told, so that all see the same
    /// order. It is never held while a reply is awaited: the reply may lie behind events whose
    /// handling needs this lock.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// Invitations of this proc.
    pub(crate) led_invitations: LedInvitations,
    runtime: tokio::runtime::Handle,
}

/// Existence of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPresence {
    /// There is a server, or was one.
    Servers,
    /// There never is one.
    Never,
}

impl ClientSession {
    /// Creates the session with this first connection; without one, it never has a server.
    pub(crate) fn new(
        me: Proc,
        first: Option<Arc<ServerConnection>>,
        settings: ClientSettings,
        handlers: ClientHandlers,
        queue: EventQueue,
    ) -> ClientSession {
        // The job data have arrived over it, so its end is a loss from now on.
        first
            .iter()
            .for_each(|first| first.loss_detection.set(true));
        let presence = if first.is_some() {
            ServerPresence::Servers
        } else {
            ServerPresence::Never
        };
        let links = Mutex::new(first.into_iter().collect());
        let runtime = tokio::runtime::Handle::current();
        let changes = tokio::sync::Mutex::default();
        let led_invitations = LedInvitations::default();
        ClientSession {
            me,
            settings,
            handlers,
            queue,
            links,
            presence,
            changes,
            led_invitations,
            runtime,
        }
    }

    /// Waits for a call to the server that calls go to, at most for `limit`.
    pub(crate) async fn bounded<T>(
        &self,
        command: CommandCode,
        limit: Option<Duration>,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let server = || self.link(command).ok().map(|link| link.server_info());
        bounded(command, limit, server, call).await
    }

    /// Waits for a call on the thread of the caller, which reads from the connection that calls go
    /// to.
    pub(crate) fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        let first = lock(&self.links).first().map(|link| link.inbound.clone());
        caller::wait(&self.runtime, first, call)
    }

    /// Returns the connection that calls go to.
    pub(crate) fn link(&self, command: CommandCode) -> Result<Arc<ServerConnection>, ClientError> {
        let first = lock(&self.links).first().cloned();
        let call = Call(command);
        first.ok_or(match self.presence {
            ServerPresence::Servers => ClientError::NoConnection { call },
            ServerPresence::Never => ClientError::Alone { call },
        })
    }

    /// Returns the connected servers, the one that calls go to first.
    pub(crate) fn servers(&self) -> Vec<Proc> {
        let links = lock(&self.links);
        links
            .iter()
            .filter(|link| !link.is_lost())
            .map(|link| link.server.proc.clone())
            .collect()
    }

    /// Returns the server that calls go to, unless it is lost.
    pub(crate) fn server(&self) -> Option<Proc> {
        let links = lock(&self.links);
        links
            .first()
            .filter(|link| !link.is_lost())
            .map(|link| link.server.proc.clone())
    }

    /// Connects to one more server, and registers the handlers' events with it. Calls go to it if
    /// there is no other.
    pub(crate) async fn attach(
        &self,
        to: ConnectTarget,
    ) -> Result<Arc<ServerConnection>, ClientError> {
        let Connected { link, .. } =
            ServerConnection::connect(to, &self.settings, self.queue.clone()).await?;
        link.ask(Request::JobData).await?;
        let attaching = Attaching {
            session: self,
            link: Some(link.clone()),
        };
        let mut pending = Vec::new();
        {
            // A handler that registers meanwhile waits for this lock. So its codes are either among
            // the updates here, or are sent to the new connection too.
            let _turn = self.changes.lock().await;
            for wanted in self.handlers.all_updates() {
                if let ServerUpdate::Register(codes, levels) = wanted {
                    pending.push(
                        link.post(Request::RegisterEvents {
                            codes,
                            infos: levels.directives(),
                        })
                        .await?,
                    );
                }
            }
            let mut links = lock(&self.links);
            links.retain(|link| !link.is_lost());
            links.push(link.clone());
        }
        // Not under the lock: a reply may lie behind events whose handling needs it.
        for pending in pending {
            pending.answer().await?;
        }
        attaching.settled()
    }

    /// Sends a heartbeat to the server that calls go to.
    pub(crate) async fn beat(&self) -> Result<(), ClientError> {
        self.link(CommandCode::Monitor)?.beat().await
    }

    /// Sends calls to this server from now on.
    pub(crate) fn prefer(&self, server: &Proc) -> Result<(), ClientError> {
        let mut links = lock(&self.links);
        match links
            .iter()
            .position(|link| link.server.proc == *server && !link.is_lost())
        {
            Some(at) => {
                links.swap(0, at);
                Ok(())
            }
            None => Err(not_attached(&links, server)),
        }
    }

    /// Removes a connection; its end is then not a loss.
    pub(crate) fn detach(&self, server: &Proc) -> Result<Arc<ServerConnection>, ClientError> {
        let mut links = lock(&self.links);
        match links.iter().position(|link| link.server.proc == *server) {
            Some(at) => {
                let link = links.remove(at);
                link.loss_detection.set(false);
                Ok(link)
            }
            None => Err(not_attached(&links, server)),
        }
    }

    /// Removes all connections.
    pub(crate) fn detach_all(&self) -> Vec<Arc<ServerConnection>> {
        let links = std::mem::take(&mut *lock(&self.links));
        links.iter().for_each(|link| link.loss_detection.set(false));
        links
    }

    /// Sends a change of the registrations to the servers, which reply to a registration. Only the
    /// server that calls go to can refuse it; failures of the others are logged.
    pub(crate) async fn update_servers(
        &self,
        what: ServerUpdate,
    ) -> Result<Vec<PendingReply>, ClientError> {
        let mut pending = Vec::new();
        let mut refused = None;
        // A copy, since the lock of the list must not be held across an await.
        let links = lock(&self.links).clone();
        for (at, link) in links.iter().enumerate() {
            let updated = match what.clone() {
                ServerUpdate::Nothing => return Ok(pending),
                ServerUpdate::Register(codes, levels) => {
                    let posted = link
                        .post(Request::RegisterEvents {
                            codes,
                            infos: levels.directives(),
                        })
                        .await;
                    posted.map(|posted| pending.push(posted))
                }
                ServerUpdate::Deregister(codes) => {
                    link.send_without_reply(Request::DeregisterEvents { codes })
                        .await
                }
            };
            match updated {
                // The other servers must receive the change all the same.
                Err(error) if at == 0 => refused = Some(error),
                Err(error) => tracing::warn!(%error, "registration change not sent to a server"),
                Ok(()) => {}
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(pending),
        }
    }

    /// Removes a handler, and deregisters codes that no other handler needs; false if there is no
    /// such registration.
    pub(crate) async fn deregister(&self, id: RegistrationId) -> Result<bool, ClientError> {
        let _turn = self.changes.lock().await;
        match self.handlers.deregister(id) {
            Some(for_server) => match self.update_servers(for_server).await {
                // A lost server sends no more events.
                Ok(_) | Err(ClientError::Lost { .. }) => Ok(true),
                Err(error) => Err(error),
            },
            None => Ok(false),
        }
    }

    /// Removes a handler whose registration failed, in a task of its own.
    pub(crate) fn give_up(self: Arc<Self>, id: RegistrationId) {
        let session = self.clone();
        self.runtime
            .spawn(async move { session.deregister_in_time(id).await });
    }

    async fn deregister_in_time(&self, id: RegistrationId) {
        let limit = self.settings.answer_timeout;
        let deregistered = self.bounded(CommandCode::DeregisterEvents, limit, self.deregister(id));
        match deregistered.await {
            Ok(_) => {}
            Err(error @ ClientError::TimedOut { .. }) => {
                tracing::warn!(%error, "deregistration timed out")
            }
            Err(error) => tracing::debug!(%error, "deregistration not sent"),
        }
    }

    /// Passes recent events to handlers that have registered since, and this new event to all. Passes
    /// answers to invitations to `follow`.
    async fn pass(
        self: &Arc<Self>,
        mut incoming: Option<IncomingEvent>,
        follow: &impl Fn(InvitationAnswer),
    ) {
        while let Some(run) = self.handlers.next(&mut incoming) {
            let called = run.called;
            let mut requests = HandlerRequests::default();
            self.handlers.run(run, &mut requests).await;
            // The most frequent case. A box keeps the other one from making each event's path longer.
            if requests.are_none() {
                continue;
            }
            let answers = Box::pin(self.carry_out_all(requests, called)).await;
            answers.into_iter().for_each(follow);
        }
    }

    /// Carries out the requests of handlers, and then passes on the events for this proc that they
    /// raised. Events that these raise in turn go to the server only, which bounds the recursion.
    /// Returns the answers to invitations.
    async fn carry_out_all(
        self: &Arc<Self>,
        requests: HandlerRequests,
        called: CalledHandlers,
    ) -> Vec<InvitationAnswer> {
        let mut own = Vec::new();
        // Only handlers that were present when an invitation came may answer it.
        let answer = self
            .carry_out(requests, &mut own)
            .await
            .filter(|_| called == CalledHandlers::All);
        let mut answers: Vec<InvitationAnswer> = answer.into_iter().collect();
        for event in own {
            let run = self.handlers.begin(self.incoming(event));
            let mut requests = HandlerRequests::default();
            self.handlers.run(run, &mut requests).await;
            answers.extend(self.carry_out(requests, &mut Vec::new()).await);
        }
        answers
    }

    /// Wraps an event for the handlers. Later handlers receive it too, except an event of this proc
    /// for other procs: the server does not send those back.
    fn incoming(&self, event: Event) -> IncomingEvent {
        let is_for_others =
            event.source.as_ref() == Some(&self.me) && event.range != Range::ProcLocal;
        let once = is_for_others || event.is_do_not_cache();
        IncomingEvent {
            event,
            retention: if once {
                EventRetention::Once
            } else {
                EventRetention::ForLater
            },
        }
    }

    /// Carries out the requests of handlers. Events for this proc that they raised are added to `own`.
    /// Returns the answer to an invitation.
    async fn carry_out(
        self: &Arc<Self>,
        requests: HandlerRequests,
        own: &mut Vec<Event>,
    ) -> Option<InvitationAnswer> {
        // Registrations change before the events are raised, so that a handler which has
        // deregistered does not receive its own events.
        for id in requests.deregistered {
            self.deregister_in_time(id).await;
        }
        for (handler, change) in requests.changes {
            self.change(handler, change).await;
        }
        for RaisedEvent { code, range, infos } in requests.raised {
            let event = Event {
                code,
                source: Some(self.me.clone()),
                range,
                infos,
            };
            if audience::includes(&event, &self.me) {
                // The event does not go through the queue: this task alone empties it, and would
                // wait for itself if it is full. So the observers are called here.
                self.queue
                    .observers
                    .observe(&QueuedItem::Event(event.clone()));
                own.push(event.clone());
            }
            if range == Range::ProcLocal {
                continue;
            }
            if let Err(error) = self.raise(event).await {
                tracing::warn!(%error, %code, "event raised by a handler not sent");
                // This send queues no event about a request that cannot be packed, unlike a call.
                if let ClientError::Pack { server, .. } = error {
                    own.push(internal(COMM_FAILURE, &self.me, &[server]));
                }
            }
        }
        requests.invitation_answer
    }

    /// Changes a registration of an external handler, within its limits. A failure is logged, since the
    /// handler has returned.
    async fn change(
        self: &Arc<Self>,
        handler: Arc<dyn ExternalHandler>,
        change: RegistrationChange,
    ) {
        match change {
            RegistrationChange::Deregister(number) => {
                let id = RegistrationId(number);
                // A module can end its own registrations only.
                if self.handlers.is_of(id, &handler) {
                    self.deregister_in_time(id).await;
                }
            }
            RegistrationChange::Register(registration_request)
                if self.handlers.has_room_for(&handler) =>
            {
                let name = handler.name().to_owned();
                if let Err(error) = self.register_requested(handler, registration_request).await {
                    tracing::warn!(module = name, %error, "registration requested by a module failed");
                }
            }
            RegistrationChange::Register(_) => tracing::warn!(
                module = handler.name(),
                "registration requested by a module refused: limit reached"
            ),
        }
    }

    /// Registers an external handler by its request. The server's reply is awaited in another task: it may
    /// lie behind events whose handling waits for this one.
    async fn register_requested(
        self: &Arc<Self>,
        handler: Arc<dyn ExternalHandler>,
        registration_request: ModuleRegistration,
    ) -> Result<(), ClientError> {
        let registration = HandlerRegistration::from_directives(
            &registration_request.codes,
            &registration_request.directives,
            Some(&self.me),
        )?;
        let registration = registration.named(registration_request.name.as_deref(), handler.name());
        let turn = self.changes.lock().await;
        let handler = Handler::External {
            handler,
            tag: registration_request.tag,
        };
        let (id, for_server) =
            self.handlers
                .register(&registration_request.codes, registration, handler)?;
        self.queue.put(QueuedItem::Registered, None);
        let limit = self.settings.answer_timeout;
        let update = self.update_servers(for_server);
        let updated = self
            .bounded(CommandCode::RegisterEvents, limit, update)
            .await;
        drop(turn);
        let session = self.clone();
        let answers = updated.inspect_err(|_| self.clone().give_up(id))?;
        self.runtime.spawn(async move {
            // The first is that of the server that calls go to, the only one that can refuse.
            for answer in answers.into_iter().take(1) {
                if let Err(error) = answer.answer().await {
                    tracing::warn!(%error, "registration requested by a module refused by the server");
                    session.clone().give_up(id);
                }
            }
        });
        Ok(())
    }

    /// Raises events in their order, in a task of its own, for this proc too if it is a target.
    pub(crate) fn announce(self: &Arc<Self>, events: Vec<Event>) {
        let session = self.clone();
        self.runtime.spawn(async move {
            for event in events {
                if audience::includes(&event, &session.me) {
                    let own = QueuedItem::Event(event.clone());
                    let room = session.queue.reserve(&own).await;
                    session.queue.put(own, room);
                }
                if event.range == Range::ProcLocal {
                    continue;
                }
                if let Err(error) = session.raise(event).await {
                    tracing::debug!(%error, "event not sent");
                }
            }
        });
    }

    /// Sends an event without waiting for the reply. The reply may lie behind more events than the
    /// queue holds, and their handling must not wait for it.
    async fn raise(&self, event: Event) -> Result<(), ClientError> {
        let link = self.link(CommandCode::Notify)?;
        let Event {
            code, range, infos, ..
        } = event;
        let limit = self.settings.answer_timeout;
        let send = link.raise(Request::Notify { code, range, infos });
        if !self.bounded(CommandCode::Notify, limit, send).await? {
            tracing::warn!(%code, "event raised by a handler dropped: too many without a reply");
        }
        Ok(())
    }

    /// Returns the events that tell the handlers of a queued item that is no event.
    async fn internal_events(&self, arrival: QueuedItem, arrivals: &mut Arrivals) -> Vec<Event> {
        match arrival {
            QueuedItem::Event(_) | QueuedItem::Registered => Vec::new(),
            QueuedItem::Garbled(server, error) => {
                tracing::warn!(%error, %server, "message could not be packed or unpacked");
                vec![internal(COMM_FAILURE, &self.me, &[server])]
            }
            QueuedItem::Lost(held, _) if !held.get() => Vec::new(),
            QueuedItem::Lost(_, server) => {
                let others_are_left = !self.servers().is_empty();
                // Losses of several servers become one event. If no server is left, no later loss
                // can join it.
                let window = if others_are_left {
                    self.settings.loss_window
                } else {
                    Duration::ZERO
                };
                let mut lost = arrivals.further_losses(window).await;
                lost.insert(0, server);
                let mut by_its_other_name = internal(LOST_TO_SERVER, &self.me, &lost);
                // A default handler receives the loss once, under the other code.
                by_its_other_name
                    .infos
                    .push(Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)));
                vec![internal(LOST, &self.me, &lost), by_its_other_name]
            }
        }
    }
}

fn not_attached(links: &[Arc<ServerConnection>], server: &Proc) -> ClientError {
    let attached = links.iter().map(|link| link.server.proc.clone()).collect();
    ClientError::NotAttached {
        server: server.clone(),
        attached,
    }
}

/// Connection that is not confirmed yet. The drop removes it, whether the attachment failed or the
/// caller cancelled it.
struct Attaching<'a> {
    session: &'a ClientSession,
    link: Option<Arc<ServerConnection>>,
}

impl Attaching<'_> {
    /// Marks the connection as held. If it has ended already, only the caller is told, and no
    /// handler.
    fn settled(mut self) -> Result<Arc<ServerConnection>, ClientError> {
        let call = Call(CommandCode::JobData);
        let link = self
            .link
            .as_ref()
            .ok_or(ClientError::NoConnection { call })?
            .clone();
        // The flag is set before the check. Otherwise an end between the two would be reported
        // neither to the caller nor to a handler.
        link.loss_detection.set(true);
        if link.is_lost() {
            return Err(ClientError::Lost {
                call,
                server: link.server.clone(),
            });
        }
        self.link = None;
        Ok(link)
    }
}

impl Drop for Attaching<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.loss_detection.set(false);
            lock(&self.session.links).retain(|other| !Arc::ptr_eq(other, &link));
        }
    }
}

/// Handles queued items one after the other, and passes answers to invitations to `follow`.
pub(crate) async fn handle_events(
    session: Arc<ClientSession>,
    mut arrivals: Arrivals,
    follow: impl Fn(InvitationAnswer),
) {
    let wait = session.settings.local_event_wait;
    loop {
        let WaitingItem { item, room } = arrivals.next().await;
        if let QueuedItem::Event(event) = item {
            let is_local = event.range == Range::ProcLocal;
            session.pass(Some(session.incoming(event)), &follow).await;
            if is_local {
                arrivals.stay_awake(wait);
            }
        } else {
            for event in session.internal_events(item, &mut arrivals).await {
                // An event about a past connection is of no use to later handlers.
                let retention = EventRetention::Once;
                let incoming = IncomingEvent { event, retention };
                session.pass(Some(incoming), &follow).await;
            }
            session.pass(None, &follow).await;
        }
        drop(room);
    }
}

/// Status of a lost connection to a server.
pub(crate) const LOST: Status = code::PMIX_ERR_LOST_CONNECTION;

/// Status of RFC 0002 for the same (`PMIX_ERR_LOST_SERVER_CONNECTION`), for handlers that
/// registered for that one.
pub(crate) const LOST_TO_SERVER: Status = code::PMIX_ERR_LOST_CONNECTION_TO_SERVER;

/// Status of a message that could not be packed or unpacked (`PMIX_ERR_FAILED_COMM` in RFC 0002).
pub(crate) const COMM_FAILURE: Status = code::PMIX_ERR_COMM_FAILURE;

/// Returns an event about these servers that is delivered in this process alone.
fn internal(code: Status, me: &Proc, servers: &[ServerUri]) -> Event {
    let affected = match servers {
        [one] => Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(one.proc.clone())),
        many => Info::new(
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::procs(many.iter().map(|server| server.proc.clone())),
        ),
    };
    Event {
        code,
        source: Some(me.clone()),
        range: Range::ProcLocal,
        infos: vec![affected],
    }
}
