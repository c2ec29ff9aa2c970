//! Task that carries out what the state of a server's deployment wants.
use super::{
    exchange::{DeploymentError, ExchangeState, FetchedModule, FetchedSet, ModuleWork},
    objects::{self, ObjectError, ObjectStore},
};
use crate::{
    link::{ClusterAccess, NatsLink},
    records::{READ_TIMEOUT, ReadStep, RecordReader, StoredRecord},
    streams::ClusterStream,
    subjects::ClusterSubject,
};
use async_nats::{
    Event, HeaderMap, ServerError, Subscriber,
    jetstream::{self, context::PublishErrorKind},
};
use futures_util::StreamExt;
use peal_cluster::{
    DeployedSet, DeploymentOutput, DeploymentRecord, NodeReport, ObjectId, PendingRecord,
    PreparedSet, ProposalError, RecordPosition, SetNumber, WriteResult,
};
use peal_model::NodeName;
use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// Time between two looks at the members and at what is due.
const TICK: Duration = Duration::from_millis(500);
/// Ticks between two looks at the stream, for records of which no notice came.
const TICKS_OF_LOOK: u32 = 20;
/// Time between two attempts to connect.
const RETRY_EACH: Duration = Duration::from_secs(1);

/// Record of an administrator, to be stored.
pub(super) struct RecordOrder {
    pub(super) pending: PendingRecord,
    pub(super) reply: oneshot::Sender<Result<(), DeploymentError>>,
}

/// Reason for which a message is not stored.
enum StoreFailure {
    /// The node may not publish there.
    Forbidden,
    /// Another message came first.
    Late,
    /// The NATS server did not answer, or refused otherwise.
    Other(String),
}

pub(super) struct DeploymentTask {
    pub(super) access: ClusterAccess,
    pub(super) members: Box<dyn Fn() -> BTreeSet<NodeName> + Send + Sync>,
    pub(super) state: Arc<ExchangeState>,
    pub(super) work: mpsc::Sender<ModuleWork>,
    /// Sets that were fetched and are still in the record.
    pub(super) sets: BTreeMap<SetNumber, Arc<FetchedSet>>,
}

/// Connection with its subscription.
struct Session {
    link: NatsLink,
    objects: ObjectStore,
    reader: RecordReader,
    /// Notices that something was stored.
    notices: Option<Subscriber>,
    /// True if something was stored since the read began.
    is_outdated: bool,
    is_lost: bool,
}

impl DeploymentTask {
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<RecordOrder>) {
        let mut link = loop {
            tokio::select! {
                link = NatsLink::connect(&self.access) => match link {
                    Ok(link) => break link,
                    // The network of the server says why.
                    Err(error) => tracing::debug!(%error, "modules of the cluster: not connected"),
                },
                order = orders.recv() => match order {
                    Some(order) => refuse_away(order),
                    None => return,
                },
            }
            sleep(RETRY_EACH).await;
        };
        // Events of the time before the session began.
        while link.events.try_recv().is_ok() {}
        let mut session = Session {
            objects: ObjectStore::new(&link.client, &link.subjects, &link.node),
            reader: RecordReader::new(&link.client, &link.subjects, ClusterStream::Modules),
            notices: None,
            is_outdated: false,
            is_lost: false,
            link,
        };
        let mut ticks: u32 = 0;
        loop {
            self.look_at_members(&mut session).await;
            self.carry_out(&mut session).await;
            tokio::select! {
                event = session.link.events.recv() => match event {
                    Some(event) => self.event(&mut session, &event),
                    None => return,
                },
                step = session.reader.next() => self.read_step(&mut session, step),
                () = notice(&mut session.notices) => session.is_outdated = true,
                order = orders.recv() => match order {
                    Some(order) => self.order(&mut session, order).await,
                    None => return,
                },
                () = self.state.wake.notified() => {}
                () = sleep(TICK) => {
                    ticks = ticks.wrapping_add(1);
                    session.is_outdated |= ticks.is_multiple_of(TICKS_OF_LOOK);
                }
            }
            if session.is_outdated && session.notices.is_some() && !session.reader.is_reading() {
                session.is_outdated = false;
                session.reader.begin(self.state.deployment().position());
            }
        }
    }

    /// Follows the members. Nothing is read before this server is one: its network checks whether the NATS
    /// server lets nodes publish as others.
    async fn look_at_members(&self, session: &mut Session) {
        let members = (self.members)();
        let is_member = members.contains(&session.link.node);
        self.state.deployment().set_members(members);
        match (is_member, session.notices.is_some()) {
            (true, false) => {
                let subject = session.link.subjects.stored_in_modules();
                match session.link.client.subscribe(subject).await {
                    Ok(notices) => {
                        session.notices = Some(notices);
                        session.is_outdated = true;
                    }
                    Err(error) => tracing::warn!(%error, "modules of the cluster not followed"),
                }
            }
            (false, true) => self.lose(session),
            _ => {}
        }
    }

    fn lose(&self, session: &mut Session) {
        session.notices = None;
        session.reader.stop();
        self.state.deployment().disconnected();
    }

    fn event(&self, session: &mut Session, event: &Event) {
        match event {
            // The members say when the server is one again.
            Event::Disconnected => self.lose(session),
            Event::Connected => session.is_outdated = true,
            other => tracing::debug!(event = %other, "NATS connection for modules"),
        }
    }

    fn read_step(&self, session: &mut Session, step: ReadStep) {
        match step {
            ReadStep::Restarted => {
                tracing::warn!("the store of the cluster's modules was made anew");
                self.state.deployment().restarted();
                session.is_outdated = true;
            }
            ReadStep::Record(record) => self.stored(session, &record),
            ReadStep::End(last) => self.state.deployment().caught_up(last),
            ReadStep::Failed(error) => {
                tracing::debug!(%error, "records about modules not read");
            }
        }
    }

    /// Applies a record or report that was read.
    fn stored(&self, session: &Session, stored: &StoredRecord) {
        let mut deployment = self.state.deployment();
        match session.link.subjects.parse(&stored.subject) {
            Ok(ClusterSubject::Deployment { by }) => {
                match DeploymentRecord::decode(&stored.bytes) {
                    Ok(record) => deployment.apply_record(stored.at, record),
                    Err(error) => {
                        tracing::warn!(%by, %error, "record of the deployment of modules refused");
                        deployment.skip(stored.at);
                    }
                }
            }
            Ok(ClusterSubject::Readiness { node }) => match NodeReport::decode(&stored.bytes) {
                Ok(report) => deployment.apply_report(stored.at, node, report),
                Err(error) => {
                    tracing::warn!(%node, %error, "report about modules refused");
                    deployment.skip(stored.at);
                }
            },
            Ok(_) | Err(_) => deployment.skip(stored.at),
        }
    }

    async fn carry_out(&mut self, session: &mut Session) {
        loop {
            let output = self.state.deployment().next_output(self.state.now());
            let Some(output) = output else {
                return;
            };
            match output {
                DeploymentOutput::Prepare(set) => self.prepare(session, set).await,
                DeploymentOutput::Run(set) => self.have_run(set).await,
                DeploymentOutput::Report(report) => self.report(session, report).await,
                DeploymentOutput::Write(pending) => drop(self.write(session, pending).await),
                DeploymentOutput::Provide(object) => self.provide(session, &object).await,
            }
        }
    }

    /// Fetches a set, and has it prepared.
    async fn prepare(&mut self, session: &Session, set: DeployedSet) {
        let number = set.number;
        self.forget_old_sets();
        let sources = self.state.deployment().sources(&set);
        let result = match self.fetched(session, set, &sources).await {
            Ok(fetched) => {
                self.sets.insert(number, fetched.clone());
                // An error means that the server ends.
                let _ = self.work.send(ModuleWork::Prepare(fetched)).await;
                return;
            }
            Err(ObjectError::Missing { object }) => PreparedSet::Lacks(object),
            Err(error @ (ObjectError::TooLarge { .. } | ObjectError::Unreadable { .. })) => {
                PreparedSet::Refused(error.to_string())
            }
            Err(ObjectError::Request { reason }) => {
                tracing::debug!(
                    reason,
                    set = number.0,
                    "module set of the cluster not fetched"
                );
                PreparedSet::Interrupted
            }
        };
        let now = self.state.now();
        self.state.deployment().prepared(number, result, now);
    }

    async fn fetched(
        &self,
        session: &Session,
        set: DeployedSet,
        sources: &[NodeName],
    ) -> Result<Arc<FetchedSet>, ObjectError> {
        if let Some(known) = self.sets.get(&set.number)
            && known.set.object == set.object
        {
            return Ok(known.clone());
        }
        let bytes: Arc<[u8]> = session.objects.fetch(&set.object, sources).await?.into();
        let contents = objects::module_set(&bytes)?;
        let mut modules = Vec::new();
        for module in contents.modules {
            let known = self
                .sets
                .values()
                .find_map(|set| set.object(&module.component));
            let component = match known {
                Some(component) => component,
                None => session
                    .objects
                    .fetch(&module.component, sources)
                    .await?
                    .into(),
            };
            modules.push(FetchedModule { module, component });
        }
        Ok(Arc::new(FetchedSet {
            set,
            bytes,
            modules,
        }))
    }

    /// Drops sets that are in no record any more.
    fn forget_old_sets(&mut self) {
        let deployment = self.state.deployment();
        if let Some(record) = deployment.record() {
            self.sets.retain(|number, fetched| {
                record
                    .set(*number)
                    .is_some_and(|set| set.object == fetched.set.object)
            });
        }
    }

    async fn have_run(&self, set: Option<DeployedSet>) {
        let work = match set {
            None => ModuleWork::Run(None),
            Some(set) => match self.sets.get(&set.number) {
                Some(fetched) => ModuleWork::Run(Some(fetched.clone())),
                None => {
                    // It has gone from a record in between, and is in another one.
                    let mut deployment = self.state.deployment();
                    deployment.reconsider();
                    deployment.prepared(set.number, PreparedSet::Interrupted, self.state.now());
                    return;
                }
            },
        };
        // An error means that the server ends.
        let _ = self.work.send(work).await;
    }

    async fn report(&self, session: &mut Session, report: NodeReport) {
        let node = session.link.node.clone();
        let subject = session
            .link
            .subjects
            .text(&ClusterSubject::Readiness { node });
        let stored = match report.encode() {
            Ok(bytes) => session.store(subject, HeaderMap::new(), bytes).await,
            Err(error) => Err(StoreFailure::Other(error.to_string())),
        };
        self.handle_loss(session);
        let result = match stored {
            Ok(at) => WriteResult::Stored(at),
            Err(failure) => {
                tracing::debug!(reason = failure.text(), "report about modules not stored");
                WriteResult::Refused
            }
        };
        let now = self.state.now();
        self.state.deployment().reported(report, result, now);
    }

    /// Stores a record, unless another one came first.
    async fn write(
        &self,
        session: &mut Session,
        PendingRecord { record, after }: PendingRecord,
    ) -> Result<(), DeploymentError> {
        let node = session.link.node.clone();
        let by = node.clone();
        let subject = session
            .link
            .subjects
            .text(&ClusterSubject::Deployment { by });
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", after.0.to_string());
        headers.insert(
            "Nats-Expected-Last-Subject-Sequence-Subject",
            session.link.subjects.deployments(),
        );
        let stored = match record.encode() {
            Ok(bytes) => session.store(subject, headers, bytes).await,
            Err(error) => Err(StoreFailure::Other(error.to_string())),
        };
        self.handle_loss(session);
        session.is_outdated = true;
        let (result, outcome) = match stored {
            Ok(at) => (WriteResult::Stored(at), Ok(())),
            Err(failure) => {
                tracing::warn!(
                    reason = failure.text(),
                    "record of the deployment of modules not stored"
                );
                match failure {
                    StoreFailure::Forbidden => (
                        WriteResult::Forbidden,
                        Err(DeploymentError::NoDeployer { node }),
                    ),
                    StoreFailure::Late => {
                        let changed = DeploymentError::Proposal(ProposalError::Changed);
                        (WriteResult::Refused, Err(changed))
                    }
                    StoreFailure::Other(reason) => {
                        let error = DeploymentError::NotStored { reason };
                        (WriteResult::Refused, Err(error))
                    }
                }
            }
        };
        let now = self.state.now();
        self.state.deployment().wrote(record, result, now);
        outcome
    }

    async fn order(&self, session: &mut Session, order: RecordOrder) {
        let RecordOrder { pending, reply } = order;
        let outcome = self.write(session, pending).await;
        // An error means that the administrator has gone.
        let _ = reply.send(outcome);
    }

    /// Stores an object again that another node lacks.
    async fn provide(&self, session: &Session, id: &ObjectId) {
        let Some(bytes) = self.sets.values().find_map(|set| set.object(id)) else {
            return;
        };
        match session.objects.store(&bytes).await {
            Ok(_) => tracing::info!(object = %id, "object of a module set stored again"),
            Err(error) => tracing::warn!(object = %id, %error, "object of a module set not stored"),
        }
    }

    /// Takes notice of a connection that was lost while something was stored.
    fn handle_loss(&self, session: &mut Session) {
        if std::mem::take(&mut session.is_lost) {
            self.lose(session);
        }
    }
}

impl StoreFailure {
    fn text(&self) -> &str {
        match self {
            StoreFailure::Forbidden => "the key of this node may not publish it",
            StoreFailure::Late => "another one came first",
            StoreFailure::Other(reason) => reason,
        }
    }
}

impl Session {
    /// Stores a message, and returns its position.
    async fn store(
        &mut self,
        subject: String,
        headers: HeaderMap,
        bytes: Vec<u8>,
    ) -> Result<RecordPosition, StoreFailure> {
        let context = jetstream::new(self.link.client.clone());
        let stored = async {
            let sent = context.publish_with_headers(subject.clone(), headers, bytes.into());
            sent.await?.await
        };
        let events = &mut self.link.events;
        let mut is_lost = false;
        let forbidden = async {
            loop {
                match events.recv().await {
                    // Without permission there is no answer, but a report.
                    Some(Event::ServerError(ServerError::Other(text)))
                        if text.contains("Permissions Violation") && text.contains(&subject) =>
                    {
                        return;
                    }
                    Some(Event::Disconnected) => is_lost = true,
                    Some(_) => {}
                    None => future::pending().await,
                }
            }
        };
        let outcome = tokio::select! {
            stored = timeout(READ_TIMEOUT, stored) => match stored {
                Ok(Ok(ack)) => Ok(RecordPosition(ack.sequence)),
                Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {
                    Err(StoreFailure::Late)
                }
                Ok(Err(error)) => Err(StoreFailure::Other(error.to_string())),
                Err(_) => Err(StoreFailure::Other("no answer".to_owned())),
            },
            () = forbidden => Err(StoreFailure::Forbidden),
        };
        self.is_lost |= is_lost;
        outcome
    }
}

fn refuse_away(order: RecordOrder) {
    // An error means that the administrator has gone.
    let _ = order
        .reply
        .send(Err(DeploymentError::Proposal(ProposalError::Away)));
}

/// Waits for a notice, and takes those that wait behind it.
async fn notice(notices: &mut Option<Subscriber>) {
    let Some(subscriber) = notices else {
        return future::pending().await;
    };
    if subscriber.next().await.is_none() {
        *notices = None;
    }
}
