//! Host environment of the tests: callbacks that report to a channel.
use peal_libpmix::abi::{CServerModule, CStatus};
use std::{
    ffi::c_void,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

/// Time after which a callback that does not come fails a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a module without functions.
pub fn module() -> CServerModule {
    // SAFETY: zero is valid for optional functions.
    unsafe { std::mem::zeroed() }
}

/// Receiver of statuses that callbacks get.
pub struct Statuses {
    receiver: Receiver<CStatus>,
    sender: Box<Sender<CStatus>>,
}

impl Statuses {
    pub fn new() -> Statuses {
        let (sender, receiver) = channel();
        Statuses {
            receiver,
            sender: Box::new(sender),
        }
    }

    /// Returns the pointer for a callback.
    pub fn data(&self) -> *mut c_void {
        (&raw const *self.sender).cast_mut().cast()
    }

    /// Waits for the next status.
    pub fn next(&self) -> CStatus {
        match self.receiver.recv_timeout(PATIENCE) {
            Ok(status) => status,
            Err(error @ RecvTimeoutError::Timeout) => panic!("no callback: {error}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns true if a callback has come that nothing waited for.
    pub fn has_more(&self) -> bool {
        self.receiver.try_recv().is_ok()
    }
}

/// Callback that reports its status (`pmix_op_cbfunc_t`).
pub unsafe extern "C" fn report(status: CStatus, data: *mut c_void) {
    // SAFETY: the pointer is that of `Statuses::data`.
    let sender = unsafe { &*data.cast::<Sender<CStatus>>() };
    sender.send(status).unwrap();
}
