//! What a client's calls and its event task share: who it is, its handlers, and its connections.
use crate::{
    Call, ClientError, ClientSettings,
    event_registrations::ServerUpdate,
    events::{ClientHandlers, EventRetention, EventRun, Hearers, IncomingEvent},
    group::EndedInvitations,
    group::InvitationAnswer,
    handler::{Handler, RaisedEvent},
    lock,
    queue::{Arrivals, EventQueue, QueuedItem},
    server_connection::{ConnectTarget, Connected, PendingReply, ServerConnection},
};
use peal_core::{
    audience,
    registration::{Registration, RegistrationId},
};
use peal_model::{CommandCode, Event, Info, Proc, Range, Request, Status, Value, code, key};
use peal_sandbox::{Module, ModuleRegistration, RegistrationChange};
use peal_wire::ServerUri;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::timeout;

/// The one client that this process is, however many servers it is connected to.
pub(crate) struct ClientSession {
    pub(crate) me: Proc,
    pub(crate) settings: ClientSettings,
    pub(crate) handlers: ClientHandlers,
    pub(crate) queue: EventQueue,
    /// The connections; calls go to the first of them. One that is lost stays until there is another, so that calls can say
    /// which server is gone.
    links: Mutex<Vec<Arc<ServerConnection>>>,
    pub(crate) company: Company,
    /// Held while a change of the registrations is made here and told to the servers, so that all see the same order. Never
    /// while an answer is waited for, which may lie behind events whose handling needs it.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// The invitations of ours that are over.
    pub(crate) over: EndedInvitations,
    runtime: tokio::runtime::Handle,
}

/// Whether there is anybody but us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Company {
    /// There is a server, or was one.
    Servers,
    /// There never is.
    Nobody,
}

impl ClientSession {
    /// With the server that this connection leads to; without one, alone.
    pub(crate) fn new(
        me: Proc,
        first: Option<Arc<ServerConnection>>,
        settings: ClientSettings,
        handlers: ClientHandlers,
        queue: EventQueue,
    ) -> ClientSession {
        first.iter().for_each(|first| first.held.set(true));
        let company = if first.is_some() {
            Company::Servers
        } else {
            Company::Nobody
        };
        let links = Mutex::new(first.into_iter().collect());
        let runtime = tokio::runtime::Handle::current();
        let (changes, over) = (tokio::sync::Mutex::default(), EndedInvitations::default());
        ClientSession {
            me,
            settings,
            handlers,
            queue,
            links,
            company,
            changes,
            over,
            runtime,
        }
    }

    /// The connection that calls go to.
    pub(crate) fn link(&self, command: CommandCode) -> Result<Arc<ServerConnection>, ClientError> {
        let (first, call) = (lock(&self.links).first().cloned(), Call(command));
        first.ok_or(match self.company {
            Company::Servers => ClientError::NoConnection { call },
            Company::Nobody => ClientError::Alone { call },
        })
    }

    /// The servers that there are, the one that calls go to first.
    pub(crate) fn servers(&self) -> Vec<Proc> {
        let links = lock(&self.links);
        links
            .iter()
            .filter(|link| !link.is_lost())
            .map(|link| link.server.proc.clone())
            .collect()
    }

    /// The server that calls go to, unless it is lost.
    pub(crate) fn server(&self) -> Option<Proc> {
        let links = lock(&self.links);
        links
            .first()
            .filter(|link| !link.is_lost())
            .map(|link| link.server.proc.clone())
    }

    /// Connects to one more server and asks it for the events that our handlers want. Calls go to it if there is no other.
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
            let _turn = self.changes.lock().await;
            for wanted in self.handlers.wanted() {
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
        for pending in pending {
            pending.answer().await?;
        }
        attaching.settled()
    }

    /// Tells the server that calls go to that we are alive.
    pub(crate) async fn beat(&self) -> Result<(), ClientError> {
        self.link(CommandCode::Monitor)?.beat().await
    }

    /// Lets calls go to this server from now on.
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

    /// Takes a connection out; its end is then no loss.
    pub(crate) fn detach(&self, server: &Proc) -> Result<Arc<ServerConnection>, ClientError> {
        let mut links = lock(&self.links);
        match links.iter().position(|link| link.server.proc == *server) {
            Some(at) => {
                let link = links.remove(at);
                link.held.set(false);
                Ok(link)
            }
            None => Err(not_attached(&links, server)),
        }
    }

    /// Takes all connections out.
    pub(crate) fn detach_all(&self) -> Vec<Arc<ServerConnection>> {
        let links = std::mem::take(&mut *lock(&self.links));
        links.iter().for_each(|link| link.held.set(false));
        links
    }

    /// Tells the servers of a change; a registration will be answered. Only the server that calls go to can refuse it: the
    /// others are told as far as they are there.
    pub(crate) async fn tell(&self, what: ServerUpdate) -> Result<Vec<PendingReply>, ClientError> {
        let (mut pending, mut refused) = (Vec::new(), None);
        let links = lock(&self.links).clone();
        for (at, link) in links.iter().enumerate() {
            let told = match what.clone() {
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
                    link.tell(Request::DeregisterEvents { codes }).await
                }
            };
            match told {
                // The others must hear of it all the same.
                Err(error) if at == 0 => refused = Some(error),
                Err(error) => tracing::warn!(%error, "a server is not told what the handlers want"),
                Ok(()) => {}
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(pending),
        }
    }

    /// Takes a handler out and tells the servers of codes that no other handler wants; false if there is none of that number.
    pub(crate) async fn deregister(&self, id: RegistrationId) -> Result<bool, ClientError> {
        let _turn = self.changes.lock().await;
        match self.handlers.deregister(id) {
            Some(for_server) => match self.tell(for_server).await {
                // A server that is gone sends nothing more.
                Ok(_) | Err(ClientError::Lost { .. }) => Ok(true),
                Err(error) => Err(error),
            },
            None => Ok(false),
        }
    }

    /// Takes out, in its own time, a handler whose registration came to nothing.
    pub(crate) fn give_up(self: Arc<Self>, id: RegistrationId) {
        let session = self.clone();
        self.runtime
            .spawn(async move { session.deregister_in_time(id).await });
    }

    async fn deregister_in_time(&self, id: RegistrationId) {
        match timeout(self.settings.answer_timeout, self.deregister(id)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "the server is not told that a handler has gone")
            }
            Err(_) => tracing::warn!("the server takes no word of a handler that has gone"),
        }
    }

    /// Lets an event pass our handlers, and then what they raised for ourselves; what comes of that in turn goes to the server only.
    /// Returns what is to be answered to invitations.
    async fn pass(self: &Arc<Self>, run: EventRun) -> Vec<InvitationAnswer> {
        let (mut own, hearers) = (Vec::new(), run.hearers);
        // An invitation is answered by the handlers that were there when it came.
        let advice = self
            .handle(run, &mut own)
            .await
            .filter(|_| hearers == Hearers::All);
        let mut advice: Vec<InvitationAnswer> = advice.into_iter().collect();
        for event in own {
            let run = self.handlers.begin(self.incoming(event));
            advice.extend(self.handle(run, &mut Vec::new()).await);
        }
        advice
    }

    /// An event for our handlers. Later ones hear it, too, but for our own events that others hear: those no server sends back.
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

    /// Runs an event through handlers and does what they asked for. What they raised for ourselves is put into `own`. Returns what
    /// is to be answered to an invitation.
    async fn handle(
        self: &Arc<Self>,
        run: EventRun,
        own: &mut Vec<Event>,
    ) -> Option<InvitationAnswer> {
        let wishes = self.handlers.run(run).await;
        for id in wishes.gone {
            self.deregister_in_time(id).await;
        }
        for (module, change) in wishes.changes {
            self.change(module, change).await;
        }
        for RaisedEvent { code, range, infos } in wishes.raised {
            let event = Event {
                code,
                source: Some(self.me.clone()),
                range,
                infos,
            };
            if audience::includes(&event, &self.me) {
                self.queue.observers.see(&QueuedItem::Event(event.clone()));
                own.push(event.clone());
            }
            if range == Range::ProcLocal {
                continue;
            }
            if let Err(error) = self.raise(event).await {
                tracing::warn!(%error, %code, "an event that a handler raised is not sent");
                if let ClientError::Pack { server, .. } = error {
                    own.push(internal(GARBLED, &self.me, &[server]));
                }
            }
        }
        wishes.advice
    }

    /// Changes what a component is registered for, if it may. What cannot be is traced: the component has returned.
    async fn change(self: &Arc<Self>, module: Arc<Module>, change: RegistrationChange) {
        match change {
            RegistrationChange::Deregister(number) => {
                let id = RegistrationId(number);
                if self.handlers.is_of(id, &module) {
                    self.deregister_in_time(id).await;
                }
            }
            RegistrationChange::Register(wish) if self.handlers.has_room_for(&module) => {
                let name = module.name().to_owned();
                if let Err(error) = self.register_wish(module, wish).await {
                    tracing::warn!(module = name, %error, "a component cannot be registered as it wishes");
                }
            }
            RegistrationChange::Register(_) => tracing::warn!(
                module = module.name(),
                "a component may have no more registrations"
            ),
        }
    }

    /// The server's answer is not waited for here: it may lie behind events whose handling waits for us.
    async fn register_wish(
        self: &Arc<Self>,
        module: Arc<Module>,
        wish: ModuleRegistration,
    ) -> Result<(), ClientError> {
        let registration =
            Registration::from_directives(&wish.codes, &wish.directives, Some(&self.me))?;
        let registration = registration.named(wish.name.as_deref(), module.name());
        let turn = self.changes.lock().await;
        let handler = Handler::Component {
            module,
            tag: wish.tag,
        };
        let (id, for_server) = self.handlers.register(&wish.codes, registration, handler)?;
        self.queue.put(QueuedItem::Registered, None);
        let limit = self.settings.answer_timeout;
        let command = CommandCode::RegisterEvents;
        let server = self.link(command).ok().map(|link| link.whose());
        let late = ClientError::TimedOut {
            call: Call(command),
            server,
            limit,
        };
        let told = timeout(limit, self.tell(for_server))
            .await
            .unwrap_or(Err(late));
        drop(turn);
        let session = self.clone();
        let answers = told.inspect_err(|_| self.clone().give_up(id))?;
        self.runtime.spawn(async move {
            for answer in answers.into_iter().take(1) {
                if let Err(error) = answer.answer().await {
                    tracing::warn!(%error, "a registration that a component wished for is refused");
                    session.clone().give_up(id);
                }
            }
        });
        Ok(())
    }

    /// Raises events in their order and without being waited for, for ourselves too where we are meant.
    pub(crate) fn announce(self: &Arc<Self>, events: Vec<Event>) {
        let session = self.clone();
        self.runtime.spawn(async move {
            for event in events {
                if audience::includes(&event, &session.me) {
                    let own = QueuedItem::Event(event.clone());
                    let room = session.queue.room(&own).await;
                    session.queue.put(own, room);
                }
                if event.range == Range::ProcLocal {
                    continue;
                }
                if let Err(error) = session.raise(event).await {
                    tracing::debug!(%error, "an event is not sent");
                }
            }
        });
    }

    /// Sends an event without waiting for the answer, which may lie behind more events than may wait: handling them must
    /// not wait for it.
    async fn raise(&self, event: Event) -> Result<(), ClientError> {
        let link = self.link(CommandCode::Notify)?;
        let Event {
            code, range, infos, ..
        } = event;
        let limit = self.settings.answer_timeout;
        let sent = timeout(limit, link.raise(Request::Notify { code, range, infos })).await;
        let call = Call(CommandCode::Notify);
        if !sent.unwrap_or(Err(ClientError::TimedOut {
            call,
            server: Some(link.whose()),
            limit,
        }))? {
            tracing::warn!(%code, "the server answers too few events: one that a handler raised is not sent");
        }
        Ok(())
    }

    /// The events by which our handlers hear of what arrived.
    async fn events_of(&self, arrival: QueuedItem, arrivals: &mut Arrivals) -> Vec<IncomingEvent> {
        if let QueuedItem::Event(event) = arrival {
            return vec![self.incoming(event)];
        }
        // What concerns a connection that was, no later handler need hear.
        let once = |event| IncomingEvent {
            event,
            retention: EventRetention::Once,
        };
        self.internal_events(arrival, arrivals)
            .await
            .into_iter()
            .map(once)
            .collect()
    }

    async fn internal_events(&self, arrival: QueuedItem, arrivals: &mut Arrivals) -> Vec<Event> {
        match arrival {
            QueuedItem::Event(_) | QueuedItem::Registered => Vec::new(),
            QueuedItem::Garbled(server, error) => {
                tracing::warn!(%error, %server, "message could not be packed or unpacked");
                vec![internal(GARBLED, &self.me, &[server])]
            }
            QueuedItem::Lost(held, _) if !held.get() => Vec::new(),
            QueuedItem::Lost(_, server) => {
                let others_are_left = !self.servers().is_empty();
                let window = if others_are_left {
                    self.settings.loss_window
                } else {
                    Duration::ZERO
                };
                let mut lost = arrivals.further_losses(window).await;
                lost.insert(0, server);
                let mut by_its_other_name = internal(LOST_TO_SERVER, &self.me, &lost);
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

/// A connection that is not yet known to stand: if it comes to nothing, also because the caller gave up, it is taken out again.
struct Attaching<'a> {
    session: &'a ClientSession,
    link: Option<Arc<ServerConnection>>,
}

impl Attaching<'_> {
    /// From now on its end is a loss; if that has come already, nobody will hear of it but who attached.
    fn settled(mut self) -> Result<Arc<ServerConnection>, ClientError> {
        let call = Call(CommandCode::JobData);
        let link = self
            .link
            .as_ref()
            .ok_or(ClientError::NoConnection { call })?
            .clone();
        link.held.set(true);
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
            link.held.set(false);
            lock(&self.session.links).retain(|other| !Arc::ptr_eq(other, &link));
        }
    }
}

/// Takes events as they come, one after the other. Invitations that are to be answered are.
pub(crate) async fn handle_events(
    session: Arc<ClientSession>,
    mut arrivals: Arrivals,
    follow: impl Fn(InvitationAnswer),
) {
    while let Some((arrival, _room)) = arrivals.next().await {
        let events = session.events_of(arrival, &mut arrivals).await;
        // Behind the last one handlers that have registered meanwhile hear recent events.
        for mut incoming in events.into_iter().map(Some).chain([None]) {
            while let Some(run) = session.handlers.next(&mut incoming) {
                session.pass(run).await.into_iter().for_each(&follow);
            }
        }
    }
}

/// The connection to a server is lost.
pub(crate) const LOST: Status = code::PMIX_ERR_LOST_CONNECTION;

/// The same by the name that RFC 0002 has for it (`PMIX_ERR_LOST_SERVER_CONNECTION`), for those who ask for it by that name.
pub(crate) const LOST_TO_SERVER: Status = code::PMIX_ERR_LOST_CONNECTION_TO_SERVER;

/// A message could not be packed or unpacked (`PMIX_ERR_FAILED_COMM` in RFC 0002).
pub(crate) const GARBLED: Status = code::PMIX_ERR_COMM_FAILURE;

/// An event that the client raises for itself alone, about these servers.
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
