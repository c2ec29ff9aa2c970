//! Stop of the instances of dropped modules, on a thread of its own.
use crate::instance::Instance;
use std::sync::{
    OnceLock,
    mpsc::{Receiver, Sender, channel},
};
use std::thread;

/// Thread that stops instances. It is started for the first instance and ends when this is dropped.
#[derive(Default)]
pub(crate) struct Retirement(OnceLock<Option<Sender<Box<Instance>>>>);

impl Retirement {
    /// Queues an instance to be stopped. Without a thread the instance is dropped without a call of
    /// `lifecycle.stop`.
    pub(crate) fn retire(&self, instance: Box<Instance>) {
        if let Some(sender) = self.0.get_or_init(start) {
            // The receiver lives until the sender is dropped, so sending does not fail.
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
        .inspect_err(|error| tracing::warn!(%error, "thread for lifecycle.stop not started"));
    failed.is_ok().then_some(sender)
}

/// Stack of the thread in bytes; guests take at most 512 KiB of it.
const STACK: usize = 4 * 1024 * 1024;

fn work(retired: &Receiver<Box<Instance>>) {
    retired.iter().for_each(|instance| instance.stop());
}
