//! The sinks of a server, by name, and what is done with one of them.
use crate::{
    Durability, Health, Refused, SinkError, SinkKind, SinkSettings,
    file::FileSink,
    health::Gauge,
    mail::MailRules,
    queue::{Parcel, Queue},
    syslog::Lines,
    worker::{Carrier, Worker},
};
use peal_model::Mail;
use peal_store::{Outbox, OutboxBounds, Outboxes, Store};
use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What a sink is given to carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Bytes as they are to arrive: for syslog a complete message without its frame, for a file a line or some.
    Bytes(Vec<u8>),
    /// A mail, in its parts.
    Mail(Mail),
}

/// Where a sink leads, as far as accepting goes.
#[derive(Debug)]
enum Way {
    File(FileSink),
    Syslog(Lines, Arc<Queue>),
    Mail(Box<MailRules>, Arc<Queue>),
}

/// One sink.
pub struct SinkHandle {
    name: String,
    way: Way,
    gauge: Arc<Gauge>,
}

impl fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkHandle")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SinkHandle {
    /// By which it is known.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a message or refuses it, without waiting for a network. A file is written when this returns, a message that is to
    /// survive the process is in the store.
    pub fn submit(&self, message: Message) -> Result<(), Refused> {
        let kind = |carries| {
            Err(Refused::Kind {
                name: self.name.clone(),
                carries,
            })
        };
        let done = match (&self.way, message) {
            (Way::File(file), Message::Bytes(bytes)) => {
                let written = file.write(bytes);
                let mut health = self.gauge.lock();
                match &written {
                    Ok(()) => health.delivered += 1,
                    Err(refused) => health.last_error = Some(refused.to_string()),
                }
                written
            }
            (Way::Syslog(lines, queue), Message::Bytes(bytes)) => lines
                .check(&bytes)
                .and_then(|()| queue.accept(lines.parcel(bytes), &self.gauge)),
            (Way::Mail(rules, queue), Message::Mail(mail)) => rules
                .letter(mail)
                .and_then(|parcel: Parcel| queue.accept(parcel, &self.gauge)),
            (Way::Mail(..), Message::Bytes(_)) => kind("mail, and no bytes"),
            (Way::File(_) | Way::Syslog(..), Message::Mail(_)) => kind("bytes, and no mail"),
        };
        if done.is_err() {
            self.gauge.lock().refused += 1;
        }
        done
    }

    /// How it fares.
    pub fn health(&self) -> Health {
        self.gauge.lock().clone()
    }

    fn queue(&self) -> Option<&Queue> {
        match &self.way {
            Way::File(_) => None,
            Way::Syslog(_, queue) | Way::Mail(_, queue) => Some(queue),
        }
    }
}

/// All sinks of a server.
#[derive(Debug)]
pub struct Sinks(BTreeMap<String, Arc<SinkHandle>>);

/// A sink as it is before any of them has a thread.
struct Prepared {
    handle: SinkHandle,
    worker: Option<Worker>,
}

impl Sinks {
    /// Opens all or none. What an earlier process left in the store for one of them is delivered, and so is, within half a
    /// minute, what others of this process leave there that are closed later.
    pub fn open(
        settings: Vec<SinkSettings>,
        store: Option<&Arc<Store>>,
    ) -> Result<Sinks, SinkError> {
        let outboxes = store.map(Store::outboxes).transpose()?;
        let mut prepared: BTreeMap<String, Prepared> = BTreeMap::new();
        for sink in settings {
            sink.check()?;
            let name = sink.name.clone();
            let (handle, worker) = prepare(sink, outboxes.as_ref())?;
            if prepared
                .insert(name.clone(), Prepared { handle, worker })
                .is_some()
            {
                return Err(SinkError::Twice { name });
            }
        }
        if let Some(outboxes) = &outboxes {
            tell_orphans(outboxes, &prepared)?;
        }
        // If one cannot start, those that have end when this is dropped.
        let mut sinks = Sinks(BTreeMap::new());
        for (name, Prepared { handle, worker }) in prepared {
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

    /// A sink of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<Arc<SinkHandle>> {
        self.0.get(name).cloned()
    }

    /// How each fares.
    pub fn health(&self) -> BTreeMap<String, Health> {
        self.0
            .iter()
            .map(|(name, handle)| (name.clone(), handle.health()))
            .collect()
    }

    /// Accepts nothing more and tries to deliver what waits, until then at most. What is not delivered is lost, or stays in the
    /// store. Returns the sinks that are still busy with a message: their threads end with the network's patience.
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
        for queue in self.0.values().filter_map(|handle| handle.queue()) {
            queue.close(until);
        }
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.end(Instant::now());
    }
}

fn prepare(
    sink: SinkSettings,
    outboxes: Option<&Arc<Outboxes>>,
) -> Result<(SinkHandle, Option<Worker>), SinkError> {
    let SinkSettings {
        name,
        kind,
        queue: bounds,
        durability,
        retry,
    } = sink;
    let gauge = Arc::new(Gauge::default());
    let outbox = |name: &str| -> Result<Option<Outbox>, SinkError> {
        if durability == Durability::Memory {
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
        Ok::<_, SinkError>(Arc::new(Queue::new(
            name.to_owned(),
            bounds,
            retry,
            outbox(name)?,
        )))
    };
    let worker = |queue: &Arc<Queue>, carrier: Box<dyn Carrier>| {
        Some(Worker {
            name: name.clone(),
            queue: queue.clone(),
            gauge: gauge.clone(),
            carrier,
        })
    };
    let (way, worker) = match kind {
        SinkKind::File(settings) => (Way::File(FileSink::open(&name, settings)?), None),
        SinkKind::Syslog(settings) => {
            let queue = queue(&name)?;
            let worker = worker(&queue, settings.carrier(&name)?);
            (Way::Syslog(Lines::new(&name, &settings), queue), worker)
        }
        SinkKind::Mail(settings) => {
            let rules = MailRules::new(&name, &settings)?;
            let queue = queue(&name)?;
            let worker = worker(&queue, settings.carrier(&name)?);
            (Way::Mail(Box::new(rules), queue), worker)
        }
    };
    Ok((SinkHandle { name, way, gauge }, worker))
}

/// Messages of sinks that are not there any more wait until they are.
fn tell_orphans(
    outboxes: &Arc<Outboxes>,
    sinks: &BTreeMap<String, Prepared>,
) -> Result<(), SinkError> {
    for (sink, messages) in outboxes.kept()? {
        if !sinks.contains_key(&sink) {
            tracing::warn!(
                sink,
                messages,
                "the store has messages for a sink that is not there: they wait for one of its name"
            );
        }
    }
    Ok(())
}
