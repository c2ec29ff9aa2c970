//! The sinks of a server by name, and the handle of a sink.
use crate::{
    QueueBounds, QueueDurability, SinkError, SinkHealth, SinkKind, SinkSettings, SinkUse,
    SinkWriteError,
    file::FileSink,
    health::SharedHealth,
    mail::MailRules,
    queue::{DeliveryQueue, QueuedMessage},
    syslog::SyslogFormat,
    webhook::WebhookBody,
    worker::{SinkTransport, SinkWorker},
};
use peal_model::Mail;
use peal_store::{OutboxBounds, SinkQueue, SinkQueues, Store};
use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// A message for a sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkMessage {
    /// Complete bytes: for syslog a message without its frame, for a file one or more lines, for a
    /// web service a text or a JSON object.
    Bytes(Vec<u8>),
    /// The parts of a mail.
    Mail(Mail),
}

/// Destination of a sink, with the checks before acceptance.
#[derive(Debug)]
enum SinkRoute {
    File(FileSink),
    Syslog(SyslogFormat, Arc<DeliveryQueue>),
    Mail(Box<MailRules>, Arc<DeliveryQueue>),
    Webhook(WebhookBody, Arc<DeliveryQueue>),
}

/// A sink.
pub struct SinkHandle {
    name: String,
    route: SinkRoute,
    gauge: Arc<SharedHealth>,
}

impl fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkHandle")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SinkHandle {
    /// Returns the name of the sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Accepts a message or refuses it, without waiting for a network. A user, if there is one, is
    /// charged for it until it is delivered. When this returns, a file
    /// was written, and a message of a queue with durability `store` is in the store.
    pub fn submit(&self, uid: Option<u32>, message: SinkMessage) -> Result<(), SinkWriteError> {
        let kind = |carries| {
            Err(SinkWriteError::Kind {
                name: self.name.clone(),
                carries,
            })
        };
        let done = match (&self.route, message) {
            (SinkRoute::File(file), SinkMessage::Bytes(bytes)) => {
                let written = file.write(bytes);
                // A file has no worker that would count.
                let mut health = self.gauge.lock();
                match &written {
                    Ok(()) => health.delivered += 1,
                    Err(refused) => health.last_error = Some(refused.to_string()),
                }
                written
            }
            (SinkRoute::Syslog(lines, queue), SinkMessage::Bytes(bytes)) => lines
                .check(&bytes)
                .and_then(|()| queue.accept(uid, lines.parcel(bytes), &self.gauge)),
            (SinkRoute::Mail(rules, queue), SinkMessage::Mail(mail)) => rules
                .message_for(mail)
                .and_then(|parcel: QueuedMessage| queue.accept(uid, parcel, &self.gauge)),
            (SinkRoute::Webhook(body, queue), SinkMessage::Bytes(bytes)) => body
                .message_for(&bytes)
                .and_then(|parcel| queue.accept(uid, parcel, &self.gauge)),
            (SinkRoute::Mail(..), SinkMessage::Bytes(_)) => kind("mails only"),
            (
                SinkRoute::File(_) | SinkRoute::Syslog(..) | SinkRoute::Webhook(..),
                SinkMessage::Mail(_),
            ) => kind("bytes only, not mails"),
        };
        if done.is_err() {
            self.gauge.lock().refused += 1;
        }
        done
    }

    /// Returns the state of the sink.
    pub fn health(&self) -> SinkHealth {
        self.gauge.lock().clone()
    }

    fn queue(&self) -> Option<&DeliveryQueue> {
        match &self.route {
            SinkRoute::File(_) => None,
            SinkRoute::Syslog(_, queue)
            | SinkRoute::Mail(_, queue)
            | SinkRoute::Webhook(_, queue) => Some(queue),
        }
    }
}

/// All sinks of a server.
#[derive(Debug)]
pub struct Sinks(BTreeMap<String, Arc<SinkHandle>>);

/// An opened sink before its thread is started.
struct UnstartedSink {
    handle: SinkHandle,
    worker: Option<SinkWorker>,
}

impl Sinks {
    /// Opens all sinks or none. Messages that an earlier process left in the store are delivered.
    /// So are messages of other instances in this process that are closed later, within half a
    /// minute.
    pub fn open(
        settings: Vec<SinkSettings>,
        store: Option<&Arc<Store>>,
    ) -> Result<Sinks, SinkError> {
        let outboxes = store.map(Store::outboxes).transpose()?;
        let mut prepared: BTreeMap<String, UnstartedSink> = BTreeMap::new();
        for sink in settings {
            sink.check()?;
            let name = sink.name.clone();
            let (handle, worker) = prepare(sink, outboxes.as_ref())?;
            if prepared
                .insert(name.clone(), UnstartedSink { handle, worker })
                .is_some()
            {
                return Err(SinkError::Twice { name });
            }
        }
        if let Some(outboxes) = &outboxes {
            log_orphans(outboxes, &prepared)?;
        }
        // If a thread cannot be started, the drop of this value ends those that were.
        let mut sinks = Sinks(BTreeMap::new());
        for (name, UnstartedSink { handle, worker }) in prepared {
            sinks.0.insert(name.clone(), Arc::new(handle));
            if let Some(worker) = worker {
                let thread = thread::Builder::new().name(format!("sink {name}"));
                thread
                    .spawn(move || worker.run())
                    .map_err(|source| SinkError::Thread { name, source })?;
            }
        }
        Ok(sinks)
    }

    /// Returns the sink with this name, if there is one.
    pub fn get(&self, name: &str) -> Option<Arc<SinkHandle>> {
        self.0.get(name).cloned()
    }

    /// Returns the states of all sinks.
    pub fn health(&self) -> BTreeMap<String, SinkHealth> {
        self.0
            .iter()
            .map(|(name, handle)| (name.clone(), handle.health()))
            .collect()
    }

    /// Returns what each user holds in the queues of all sinks, and how often each was refused.
    pub fn use_by_user(&self) -> BTreeMap<u32, SinkUse> {
        let mut users: BTreeMap<u32, SinkUse> = BTreeMap::new();
        for (uid, held) in self.queues().flat_map(DeliveryQueue::use_by_user) {
            let user = users.entry(uid).or_default();
            user.messages = user.messages.saturating_add(held.messages);
            user.bytes = user.bytes.saturating_add(held.bytes);
            user.refused = user.refused.saturating_add(held.refused);
        }
        users
    }

    /// Returns the sums of the bounds of all queues.
    pub fn bounds(&self) -> QueueBounds {
        let none = QueueBounds {
            messages: 0,
            bytes: 0,
            user_messages: 0,
            user_bytes: 0,
        };
        self.queues()
            .map(DeliveryQueue::bounds)
            .fold(none, |sum, bounds| QueueBounds {
                messages: sum.messages.saturating_add(bounds.messages),
                bytes: sum.bytes.saturating_add(bounds.bytes),
                user_messages: sum.user_messages.saturating_add(bounds.user_messages),
                user_bytes: sum.user_bytes.saturating_add(bounds.user_bytes),
            })
    }

    fn queues(&self) -> impl Iterator<Item = &DeliveryQueue> {
        self.0.values().filter_map(|handle| handle.queue())
    }

    /// Stops accepting messages and delivers queued ones until the deadline. The rest is lost or
    /// stays in the store. Returns the sinks that are still delivering a message; their threads end
    /// after their network timeouts.
    pub fn close(&self, deadline: Duration) -> Vec<String> {
        let until = Instant::now()
            .checked_add(deadline)
            .unwrap_or_else(Instant::now);
        self.end(until);
        let busy = self
            .0
            .iter()
            .filter(|(_, handle)| handle.queue().is_some_and(|queue| !queue.wait(until)));
        busy.map(|(name, _)| name.clone()).collect()
    }

    fn end(&self, until: Instant) {
        self.queues().for_each(|queue| queue.close(until));
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.end(Instant::now());
    }
}

fn prepare(
    sink: SinkSettings,
    outboxes: Option<&Arc<SinkQueues>>,
) -> Result<(SinkHandle, Option<SinkWorker>), SinkError> {
    let SinkSettings {
        name,
        kind,
        queue: bounds,
        durability,
        retry,
    } = sink;
    let gauge = Arc::new(SharedHealth::default());
    let outbox = |name: &str| -> Result<Option<SinkQueue>, SinkError> {
        if durability == QueueDurability::Memory {
            return Ok(None);
        }
        let outboxes = outboxes.ok_or_else(|| SinkError::NoStore {
            name: name.to_owned(),
        })?;
        let bounds = OutboxBounds {
            messages: bounds.messages as u64,
            bytes: bounds.bytes as u64,
        };
        Ok(Some(outboxes.of(name, bounds)))
    };
    let queue = |name: &str| {
        Ok::<_, SinkError>(Arc::new(DeliveryQueue::new(
            name.to_owned(),
            bounds,
            retry,
            outbox(name)?,
        )))
    };
    let worker = |queue: &Arc<DeliveryQueue>, carrier: Box<dyn SinkTransport>| {
        Some(SinkWorker {
            name: name.clone(),
            queue: queue.clone(),
            gauge: gauge.clone(),
            carrier,
        })
    };
    let (way, worker) = match kind {
        // The thread of the sender writes the file, so there is neither queue nor worker.
        SinkKind::File(settings) => (SinkRoute::File(FileSink::open(&name, settings)?), None),
        SinkKind::Syslog(settings) => {
            let queue = queue(&name)?;
            let worker = worker(&queue, settings.carrier(&name)?);
            (
                SinkRoute::Syslog(SyslogFormat::new(&name, &settings), queue),
                worker,
            )
        }
        SinkKind::Mail(settings) => {
            let rules = MailRules::new(&name, &settings)?;
            let queue = queue(&name)?;
            let worker = worker(&queue, settings.carrier(&name)?);
            (SinkRoute::Mail(Box::new(rules), queue), worker)
        }
        SinkKind::Webhook(settings) => {
            let queue = queue(&name)?;
            let worker = worker(&queue, settings.carrier(&name)?);
            (
                SinkRoute::Webhook(WebhookBody::new(&name, &settings), queue),
                worker,
            )
        }
    };
    Ok((
        SinkHandle {
            name,
            route: way,
            gauge,
        },
        worker,
    ))
}

/// Logs messages in the store that have no sink. They stay there until a sink has that name.
fn log_orphans(
    outboxes: &Arc<SinkQueues>,
    sinks: &BTreeMap<String, UnstartedSink>,
) -> Result<(), SinkError> {
    for (sink, messages) in outboxes.messages_by_sink()? {
        if !sinks.contains_key(&sink) {
            tracing::warn!(
                sink,
                messages,
                "store has messages for an unknown sink, they stay until it is configured"
            );
        }
    }
    Ok(())
}
