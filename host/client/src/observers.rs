//! Observers of the queue inside the client. They see an item before the handlers do, so that a
//! handler can wait for the consequences of a later event.
use crate::{lock, queued_item::QueuedItem};
use std::sync::{Arc, Mutex, Weak};

/// Observer of queued items. It is called by the task that reads the connection, and must not wait.
pub(crate) trait Observer: Send + Sync {
    /// Receives an item that was put into the queue.
    fn observe(&self, arrival: &QueuedItem);
}

/// List of observers. A dropped observer is removed from it.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<Mutex<Vec<Weak<dyn Observer>>>>);

impl Observers {
    /// Adds an observer.
    pub(crate) fn add(&self, observer: &Arc<impl Observer + 'static>) {
        let observer: Weak<dyn Observer> = Arc::downgrade(&(observer.clone() as Arc<dyn Observer>));
        lock(&self.0).push(observer);
    }

    /// Passes an item to all observers.
    pub(crate) fn observe(&self, arrival: &QueuedItem) {
        let there: Vec<Arc<dyn Observer>> = {
            let mut all = lock(&self.0);
            all.retain(|observer| observer.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        there.iter().for_each(|observer| observer.observe(arrival));
    }
}
