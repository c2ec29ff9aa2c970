//! Connected server of a host environment, and the tasks that serve it.
use super::{
    fork::ForkBlock,
    handshake::Accepted,
    link::{HostLink, Incoming, LinkEnd, LinkError, PendingReply},
    lock, model_variables,
    upcalls::{AnswerPath, HostModule, Leftovers},
};
use crate::{
    abi::CProc, client::operations::ProgramData, convert::ConvertError, heap_array::HeapArray,
    trace,
};
use peal_client::Client;
use peal_model::{Event, Info, Nspace, Proc, Range, Status, Value, code, key};
use peal_stub::{HostNotice, HostRequest, ServerMessage, ServerWelcome};
use std::{
    collections::HashMap,
    io,
    os::fd::{AsRawFd, OwnedFd},
    slice,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{SetOnce, mpsc};

/// Time within which the other connection to a lost server ends, too.
const OTHER_LOSS: Duration = Duration::from_secs(1);

/// Server of this process.
#[derive(Debug)]
pub(crate) struct HostServer {
    link: Arc<HostLink>,
    pub(super) module: HostModule,
    /// Procs that the host environment has registered.
    pub(super) clients: HostClients,
    pub(super) answers: AnswerPath,
    leftovers: Arc<Leftovers>,
    /// Events for the handlers of this process.
    events: mpsc::UnboundedSender<Event>,
    /// Client of this process, by which its handlers get events.
    client: SetOnce<HostClient>,
    /// Socket of forked children.
    _children: OwnedFd,
}

/// Client of a host environment.
struct HostClient(Client);

impl std::fmt::Debug for HostClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}", self.0.me())
    }
}

impl HostServer {
    /// Begins to serve a server that has accepted this process.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a descriptor.
    pub(super) fn begin(
        accepted: Accepted,
        module: HostModule,
    ) -> io::Result<(Arc<HostServer>, ServerWelcome)> {
        let Accepted {
            link,
            incoming,
            welcome,
            children,
        } = accepted;
        let link = Arc::new(link);
        let leftovers = Arc::new(Leftovers::new()?);
        let (events, raised) = mpsc::unbounded_channel();
        ForkBlock::publish(&welcome.environment, children.as_raw_fd());
        let host = Arc::new(HostServer {
            link: link.clone(),
            module,
            clients: HostClients::default(),
            answers: AnswerPath::new(link.clone(), leftovers.clone()),
            leftovers: leftovers.clone(),
            events,
            client: SetOnce::new(),
            _children: children,
        });
        tokio::spawn(async move { link.send_outgoing().await });
        tokio::spawn(leftovers.drop_late());
        tokio::spawn(host.clone().deliver_events(raised));
        tokio::spawn(host.clone().receive(incoming));
        Ok((host, welcome))
    }

    /// Gives the client of this process.
    pub(super) fn set_client(&self, client: Client) {
        // It is given once.
        let _ = self.client.set(HostClient(client));
    }

    /// Sends a request to the server.
    pub(super) fn request(&self, request: HostRequest) -> Result<PendingReply, Status> {
        self.link.request(request)
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        ForkBlock::withdraw();
        model_variables::forget_all();
        self.link.close();
    }

    /// Serves the messages of the server until the stream ends.
    async fn receive(self: Arc<HostServer>, mut incoming: Incoming) {
        let error: LinkError = loop {
            let next = incoming.next(&self.link).await;
            // Here no function of the host environment runs on this thread.
            self.leftovers.drop_all();
            match next {
                Ok(ServerMessage::Reply { number, reply }) => self.link.accept_reply(number, reply),
                Ok(ServerMessage::Upcall { number, upcall }) => self.call(number, upcall),
                Ok(ServerMessage::Notice(notice)) => self.note(notice),
                Ok(ServerMessage::Welcome(_) | ServerMessage::Refusal(_)) => {
                    tracing::warn!("server answered the first message twice");
                }
                Err(error) => break error,
            }
        };
        if self.link.end() == LinkEnd::Lost {
            trace::say(&format!("the server is lost: {error}"));
            self.tell_loss().await;
        }
    }

    /// Carries out an upcall that is not answered.
    fn note(&self, notice: HostNotice) {
        match notice {
            HostNotice::ClientConnected(proc) => self.client_connected(&proc),
            HostNotice::ClientLost(proc) => self.tell(Event {
                code: code::PMIX_ERR_LOST_CONNECTION,
                source: Some(proc.clone()),
                range: Range::ProcLocal,
                infos: vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc))],
            }),
            HostNotice::Event(event) => self.tell(event),
        }
    }

    /// Passes an event to the handlers of this process, after those before it.
    fn tell(&self, event: Event) {
        // The task ends with the progress thread, on which this is called.
        let _ = self.events.send(event);
    }

    async fn deliver_events(self: Arc<HostServer>, mut events: mpsc::UnboundedReceiver<Event>) {
        while let Some(event) = events.recv().await {
            self.client.wait().await.0.deliver(event).await;
        }
    }

    /// Tells the handlers of this process that the server is lost. The client tells it, too, when its
    /// own connection ends; here is told what it does not see.
    async fn tell_loss(&self) {
        let HostClient(client) = self.client.wait().await;
        tokio::time::sleep(OTHER_LOSS).await;
        if client.has_lost_server() {
            return;
        }
        let server = client.server().unwrap_or_else(|| client.me().clone());
        self.tell(Event {
            code: code::PMIX_ERR_LOST_CONNECTION,
            source: Some(client.me().clone()),
            range: Range::ProcLocal,
            infos: vec![Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(server),
            )],
        });
    }
}

/// Procs that the host environment has registered, with what it gave for them.
#[derive(Debug, Default)]
pub(super) struct HostClients(Mutex<HashMap<Proc, HostClientEntry>>);

/// Proc of the host environment.
#[derive(Debug)]
struct HostClientEntry {
    /// Pointer of the host environment, which its callbacks about the proc get.
    object: ProgramData,
    name: Arc<ClientName>,
}

/// Proc in its C form. Callbacks about it may never complete, so it lives as long as the proc is
/// registered, and at least until they return.
#[derive(Debug)]
pub(super) struct ClientName(HeapArray<CProc>);

// SAFETY: nothing changes the array.
unsafe impl Sync for ClientName {}

impl ClientName {
    pub(super) fn as_ptr(&self) -> *const CProc {
        self.0.as_slice().as_ptr()
    }
}

/// Arguments of a callback about a proc.
#[derive(Debug, Clone)]
pub(super) struct PassedClient {
    pub(super) name: Arc<ClientName>,
    pub(super) object: ProgramData,
}

impl HostClients {
    /// Adds a proc, or changes its object.
    pub(super) fn add(&self, proc: Proc, object: ProgramData) -> Result<(), ConvertError> {
        let name = Arc::new(ClientName(HeapArray::from_models(slice::from_ref(&proc))?));
        let mut clients = lock(&self.0);
        let entry = HostClientEntry { object, name };
        clients.entry(proc).or_insert(entry).object = object;
        Ok(())
    }

    /// Returns what a callback about a proc gets. One that was not registered, such as a tool, has a
    /// null pointer.
    pub(super) fn passed(&self, proc: &Proc) -> Result<PassedClient, ConvertError> {
        if !lock(&self.0).contains_key(proc) {
            self.add(proc.clone(), ProgramData::new(std::ptr::null_mut()))?;
        }
        let clients = lock(&self.0);
        let missing = ConvertError::NullPointer { what: "proc" };
        let entry = clients.get(proc).ok_or(missing)?;
        Ok(PassedClient {
            name: entry.name.clone(),
            object: entry.object,
        })
    }

    /// Returns the object of a proc; null if it was not registered.
    pub(super) fn object(&self, proc: &Proc) -> ProgramData {
        let clients = lock(&self.0);
        clients.get(proc).map_or_else(
            || ProgramData::new(std::ptr::null_mut()),
            |entry| entry.object,
        )
    }

    /// Forgets a proc.
    pub(super) fn forget(&self, proc: &Proc) {
        lock(&self.0).remove(proc);
    }

    /// Forgets the procs of a job.
    pub(super) fn forget_job(&self, nspace: &Nspace) {
        lock(&self.0).retain(|proc, _| proc.nspace != *nspace);
    }
}
