//! One connection of the program, and ours to the server for it.
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

/// How much may wait to be written to one side, in bytes, before the other is read no further.
const PENDING: usize = 1 << 20;
/// How many orders may wait, and decisions about events.
const ORDERS: usize = 1024;

/// Something to be done on a connection.
#[derive(Debug)]
pub enum ProxyCommand {
    /// Asks the server for this, which is to be called so.
    Ask(Request, String),
    /// Hands the program an event.
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

/// What all connections share.
pub struct Between {
    /// The server.
    pub server: ServerUri,
    /// What is refused for its size.
    pub limits: DecodeLimits,
    /// How long the server may take for what handlers want.
    pub patience: Duration,
    /// The handlers.
    pub handlers: Arc<AttachHandlers>,
}

/// A connection that is relayed.
struct Relayed {
    between: Arc<Between>,
    relay: ClientProxy,
    began: Instant,
    me: Option<Proc>,
    /// What handlers want and the server has not answered.
    asked: BTreeMap<OwnRequestId, String>,
    decide: mpsc::Sender<(u64, EventDisposition)>,
    order: mpsc::Sender<ProxyCommand>,
}

/// Relays a connection until its end.
pub async fn relay(client: TcpStream, between: Arc<Between>) -> io::Result<()> {
    let server = TcpStream::connect(between.server.addr).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client_in, mut client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let (decide, mut decisions) = mpsc::channel(ORDERS);
    let (order, mut orders) = mpsc::channel(ORDERS);
    let relay = ClientProxy::new(between.limits, between.patience);
    let mut relayed = Relayed {
        between,
        relay,
        began: Instant::now(),
        me: None,
        asked: BTreeMap::new(),
        decide,
        order,
    };
    relayed.want();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut from_client, mut from_server) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut server_is_there = true;
    loop {
        let late = relayed.tick();
        relayed.look();
        up.extend(relayed.relay.take(ProxySide::Server));
        down.extend(relayed.relay.take(ProxySide::Client));
        if !server_is_there && relayed.relay.is_settled() && down.is_empty() {
            return client_out.shutdown().await;
        }
        tokio::select! {
            got = client_in.read(&mut from_client), if up.len() < PENDING => {
                let bytes = got.ok().and_then(|count| from_client.get(..count)).unwrap_or_default();
                if bytes.is_empty() {
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
            written = some(&mut server_out, &up), if !up.is_empty() && server_is_there => drop(up.drain(..written?)),
            written = some(&mut client_out, &down), if !down.is_empty() => drop(down.drain(..written?)),
            Some((number, verdict)) = decisions.recv() => {
                relayed.relay.decided(number, verdict);
                relayed.want();
            }
            Some(order) = orders.recv() => relayed.obey(order),
            () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {}
        }
    }
}

async fn some(to: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
    match to.write(bytes).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

impl Relayed {
    /// Asks the server for the events that the handlers want now.
    fn want(&mut self) {
        for codes in self.between.handlers.codes() {
            if let Err(error) = self.relay.want(&codes) {
                tracing::warn!(%error, "the server is not asked for events that handlers want");
            }
        }
    }

    /// Tells the relay what time it is. Returns when to do that again.
    fn tick(&mut self) -> Option<Instant> {
        let now =
            MonotonicTime(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.relay
            .tick(now)
            .and_then(|next| self.began.checked_add(Duration::from_millis(next.0)))
    }

    /// Looks at what has happened.
    fn look(&mut self) {
        while let Some(happening) = self.relay.happening() {
            match happening {
                ProxyEvent::Welcomed(me) => {
                    tracing::debug!(?me, "the program is connected");
                    self.me = me.clone();
                    self.between.handlers.connected(me, self.order.clone());
                }
                ProxyEvent::Blind(error) => {
                    let why = error.map(|error| error.to_string());
                    tracing::warn!(
                        why,
                        "this connection is not understood: it is passed on without handlers"
                    );
                }
                ProxyEvent::Event { number, event } => {
                    let (handlers, decide) = (self.between.handlers.clone(), self.decide.clone());
                    tokio::spawn(async move {
                        let verdict = handlers.handle(event).await;
                        // The connection may have ended.
                        let _ = decide.send((number, verdict)).await;
                    });
                }
                ProxyEvent::Answered { ask, outcome } => self.answered(ask, outcome),
                ProxyEvent::Late { ask } => {
                    let (server, patience) = (&self.between.server, self.between.patience);
                    tracing::warn!(
                        "the server at {server} has not answered within {patience:?}: {}",
                        self.what(ask)
                    );
                }
            }
        }
    }

    fn obey(&mut self, order: ProxyCommand) {
        match order {
            ProxyCommand::Deliver(event) => {
                if let Err(error) = self.relay.deliver(event) {
                    tracing::warn!(%error, "the program does not get an event that a handler raised");
                }
            }
            ProxyCommand::Ask(request, what) => match self.relay.ask(&request) {
                Ok(ask) => drop(self.asked.insert(ask, what)),
                Err(error) => tracing::warn!("{what} is not sent: {error}"),
            },
        }
    }

    fn answered(&mut self, ask: OwnRequestId, outcome: Result<Reply, WireError>) {
        let (what, server) = (self.what(ask).to_owned(), &self.between.server);
        self.asked.remove(&ask);
        match outcome.map(|reply| reply.status().ok()) {
            Ok(Ok(())) => tracing::debug!("{what} is done"),
            Ok(Err(status)) => {
                tracing::warn!("{what} is refused by the server at {server}: {status}")
            }
            Err(error) => tracing::warn!(
                "the answer of the server at {server} to {what} is not understood: {error}"
            ),
        }
    }

    /// What was asked for.
    fn what(&self, ask: OwnRequestId) -> &str {
        self.asked
            .get(&ask)
            .map_or("the registration for handlers", String::as_str)
    }

    /// The server is gone: the program will see it, and the handlers hear it as those of any client do.
    async fn lost(&self) {
        let me = self.me.clone();
        let affected = Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(self.between.server.proc.clone()),
        );
        let event = Event {
            code: code::PMIX_ERR_LOST_CONNECTION,
            source: me,
            range: Range::Namespace,
            infos: vec![affected],
        };
        // What they make of it changes nothing.
        drop(self.between.handlers.handle(Arc::new(event)).await);
    }
}
