//! Proxy between a connection of the program and a connection to the server.
use super::handlers::AttachHandlers;
use peal_core::MonotonicTime;
use peal_model::{Event, Info, Proc, Range, Reply, Request, Value, code, key};
use peal_proxy::{ClientProxy, EventDisposition, OwnRequestId, ProxyEvent, ProxySide};
use peal_wire::{DecodeLimits, ServerUri, WireError};
use std::{collections::BTreeMap, fmt, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// Limit of the bytes that wait to be written to one side. Above it, the other side is not read.
const PENDING: usize = 1 << 20;
/// Limit of queued commands, and of queued decisions about events.
const MAX_QUEUED_COMMANDS: usize = 1024;

/// Command for a proxied connection.
#[derive(Debug)]
pub enum ProxyCommand {
    /// Sends the server this request; the text describes it in logs.
    Ask(Request, String),
    /// Delivers an event to the program.
    Deliver(Arc<Event>),
}

impl fmt::Display for ProxyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyCommand::Ask(_, what) => f.write_str(what),
            ProxyCommand::Deliver(event) => write!(f, "event {}", event.code),
        }
    }
}

/// State that all connections share.
pub struct ProxySettings {
    /// Name and address of the server.
    pub server: ServerUri,
    /// Limits of one message.
    pub limits: DecodeLimits,
    /// Time limit of the server for requests of handlers.
    pub request_timeout: Duration,
    /// Handlers of the events.
    pub handlers: Arc<AttachHandlers>,
}

/// Proxied connection.
struct ProxiedConnection {
    settings: Arc<ProxySettings>,
    relay: ClientProxy,
    began: Instant,
    me: Option<Proc>,
    /// Requests of handlers that the server has not answered, with their descriptions.
    open_requests: BTreeMap<OwnRequestId, String>,
    decide: mpsc::Sender<(u64, EventDisposition)>,
    order: mpsc::Sender<ProxyCommand>,
}

/// Relays a connection until it ends.
pub async fn relay(client: TcpStream, settings: Arc<ProxySettings>) -> io::Result<()> {
    let server = TcpStream::connect(settings.server.addr).await?;
    // Nagle's algorithm would hold small frames back until earlier ones are acknowledged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client_in, mut client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let (decide, mut decisions) = mpsc::channel(MAX_QUEUED_COMMANDS);
    let (order, mut orders) = mpsc::channel(MAX_QUEUED_COMMANDS);
    let relay = ClientProxy::new(settings.limits, settings.request_timeout);
    let mut relayed = ProxiedConnection {
        settings,
        relay,
        began: Instant::now(),
        me: None,
        open_requests: BTreeMap::new(),
        decide,
        order,
    };
    relayed.register_events();
    let mut up = Vec::new();
    let mut down = Vec::new();
    let mut from_client = vec![0; 64 * 1024];
    let mut from_server = vec![0; 64 * 1024];
    let mut server_is_there = true;
    loop {
        let late = relayed.tick();
        relayed.handle_proxy_events();
        up.extend(relayed.relay.take(ProxySide::Server));
        down.extend(relayed.relay.take(ProxySide::Client));
        // The program still receives the events that handlers hold before it sees the end.
        if !server_is_there && relayed.relay.is_settled() && down.is_empty() {
            return client_out.shutdown().await;
        }
        tokio::select! {
            got = client_in.read(&mut from_client), if up.len() < PENDING => {
                let bytes = got.ok().and_then(|count| from_client.get(..count)).unwrap_or_default();
                if bytes.is_empty() {
                    // The server still gets what the program sent last.
                    relayed.relay.ended(ProxySide::Client);
                    up.extend(relayed.relay.take(ProxySide::Server));
                    return server_out.write_all(&up).await;
                }
                relayed.relay.feed(ProxySide::Client, bytes);
            }
            got = server_in.read(&mut from_server),
                if server_is_there && down.len() < PENDING && !relayed.relay.is_full() =>
            {
                let bytes = got.ok().and_then(|count| from_server.get(..count)).unwrap_or_default();
                if bytes.is_empty() {
                    server_is_there = false;
                    relayed.relay.ended(ProxySide::Server);
                    relayed.lost().await;
                }
                relayed.relay.feed(ProxySide::Server, bytes);
            }
            written = write_available(&mut server_out, &up), if !up.is_empty() && server_is_there => drop(up.drain(..written?)),
            written = write_available(&mut client_out, &down), if !down.is_empty() => drop(down.drain(..written?)),
            Some((number, verdict)) = decisions.recv() => {
                relayed.relay.decided(number, verdict);
                relayed.register_events();
            }
            Some(order) = orders.recv() => relayed.execute(order),
            // `select!` evaluates the future even where the condition is false.
            () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {}
        }
    }
}

async fn write_available(to: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
    match to.write(bytes).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

impl ProxiedConnection {
    /// Registers the events that the handlers need at present.
    fn register_events(&mut self) {
        for codes in self.settings.handlers.codes() {
            if let Err(error) = self.relay.register_codes(&codes) {
                tracing::warn!(%error, "registration for handlers not sent");
            }
        }
    }

    /// Passes the time to the proxy. Returns the time of the next call.
    fn tick(&mut self) -> Option<Instant> {
        let now =
            MonotonicTime(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.relay
            .tick(now)
            .and_then(|next| self.began.checked_add(Duration::from_millis(next.0)))
    }

    /// Handles the events that the proxy reports.
    fn handle_proxy_events(&mut self) {
        while let Some(happening) = self.relay.next_event() {
            match happening {
                ProxyEvent::Welcomed(me) => {
                    tracing::debug!(?me, "program connected");
                    self.me = me.clone();
                    self.settings.handlers.connected(me, self.order.clone());
                }
                ProxyEvent::Blind(error) => {
                    let why = error.map(|error| error.to_string());
                    tracing::warn!(why, "connection not decoded, relayed without handlers");
                }
                ProxyEvent::Event { number, event } => {
                    let handlers = self.settings.handlers.clone();
                    let decide = self.decide.clone();
                    tokio::spawn(async move {
                        let verdict = handlers.handle(event).await;
                        // The connection may have ended.
                        let _ = decide.send((number, verdict)).await;
                    });
                }
                ProxyEvent::Answered {
                    request_id,
                    outcome,
                } => self.answered(request_id, outcome),
                ProxyEvent::Late { request_id } => {
                    let server = &self.settings.server;
                    let request_timeout = self.settings.request_timeout;
                    tracing::warn!(
                        request = self.description(request_id),
                        %server,
                        ?request_timeout,
                        "no reply to a request of a handler in time"
                    );
                }
            }
        }
    }

    fn execute(&mut self, order: ProxyCommand) {
        // A failed request of a handler must not disturb the program, so errors are only logged.
        match order {
            ProxyCommand::Deliver(event) => {
                if let Err(error) = self.relay.deliver(event) {
                    tracing::warn!(%error, "event raised by a handler not delivered to the program");
                }
            }
            ProxyCommand::Ask(request, what) => match self.relay.send_request(&request) {
                Ok(request_id) => drop(self.open_requests.insert(request_id, what)),
                Err(error) => {
                    tracing::warn!(request = what, %error, "request of a handler not sent")
                }
            },
        }
    }

    fn answered(&mut self, request_id: OwnRequestId, outcome: Result<Reply, WireError>) {
        let what = self.description(request_id).to_owned();
        let server = &self.settings.server;
        self.open_requests.remove(&request_id);
        match outcome.map(|reply| reply.status().ok()) {
            Ok(Ok(())) => tracing::debug!(request = what, "request of a handler succeeded"),
            Ok(Err(status)) => {
                tracing::warn!(
                    request = what,
                    %server,
                    %status,
                    "request of a handler refused by the server"
                )
            }
            Err(error) => tracing::warn!(
                request = what,
                %server,
                %error,
                "reply to a request of a handler not decoded"
            ),
        }
    }

    /// Returns the description of a request.
    fn description(&self, request_id: OwnRequestId) -> &str {
        self.open_requests
            .get(&request_id)
            .map_or("the registration for handlers", String::as_str)
    }

    /// Passes the loss of the server to the handlers, as for any client. The program sees the
    /// closed connection itself.
    async fn lost(&self) {
        let me = self.me.clone();
        let affected = Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(self.settings.server.proc.clone()),
        );
        let event = Event {
            code: code::PMIX_ERR_LOST_CONNECTION,
            source: me,
            range: Range::Namespace,
            infos: vec![affected],
        };
        // The results cannot change anything: the connection is gone.
        drop(self.settings.handlers.handle(Arc::new(event)).await);
    }
}
