//! Those inside the client who hear of what arrives before the handlers do, and whatever these are busy with: so a handler can wait
//! for what comes of an event behind its own.
use crate::{lock, queue::QueuedItem};
use std::sync::{Arc, Mutex, Weak};

/// Somebody who hears of what arrives. It is called where that is read, and must not wait.
pub(crate) trait Observer: Send + Sync {
    /// Something has arrived.
    fn see(&self, arrival: &QueuedItem);
}

/// All of them. Whoever is dropped is one no more.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<Mutex<Vec<Weak<dyn Observer>>>>);

impl Observers {
    /// One more.
    pub(crate) fn add(&self, observer: &Arc<impl Observer + 'static>) {
        let observer: Weak<dyn Observer> = Arc::downgrade(&(observer.clone() as Arc<dyn Observer>));
        lock(&self.0).push(observer);
    }

    /// Tells all of them.
    pub(crate) fn see(&self, arrival: &QueuedItem) {
        let there: Vec<Arc<dyn Observer>> = {
            let mut all = lock(&self.0);
            all.retain(|observer| observer.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        there.iter().for_each(|observer| observer.see(arrival));
    }
}
