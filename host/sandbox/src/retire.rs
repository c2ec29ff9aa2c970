//! The end of modules that are dropped while the engine goes on: their instances are told on a thread of its own.
use crate::instance::Instance;
use std::sync::{
    OnceLock,
    mpsc::{Receiver, Sender, channel},
};
use std::thread;

/// Stops instances on a thread that is started for the first of them and ends with this.
#[derive(Default)]
pub(crate) struct Retirement(OnceLock<Option<Sender<Box<Instance>>>>);

impl Retirement {
    /// Has an instance stopped, soon. Where there is no thread to be had it is dropped without a word.
    pub(crate) fn retire(&self, instance: Box<Instance>) {
        if let Some(sender) = self.0.get_or_init(start) {
            // The thread goes on for as long as we are there.
            let _ = sender.send(instance);
        }
    }
}

fn start() -> Option<Sender<Box<Instance>>> {
    let (sender, receiver) = channel();
    let started = thread::Builder::new()
        .name("peal-retire".into())
        .stack_size(STACK)
        .spawn(move || work(&receiver));
    let failed = started
        .map(drop)
        .inspect_err(|error| tracing::warn!(%error, "modules are not told when they stop"));
    failed.is_ok().then_some(sender)
}

/// Guests take at most 512 KiB of it.
const STACK: usize = 4 * 1024 * 1024;

fn work(retired: &Receiver<Box<Instance>>) {
    retired.iter().for_each(|instance| instance.stop());
}
