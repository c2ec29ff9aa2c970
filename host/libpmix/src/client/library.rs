//! State of the process: how often it is initialized, its progress thread and its client.
//!
//! A forked child begins anew: the state names its process, and the child's copy of it is never
//! used again, not even its locks, which another thread may have held at the time of the fork.
use super::{
    completions::HandlerCompletions,
    fork::ForkNumber,
    progress::{self, ProgressThread},
    tokens::Tokens,
};
use crate::{
    abi::{CInfo, CValue},
    heap_array::HeapArray,
    server::{HostServer, PendingUpcall},
};
use peal_client::{Client, ClientError, Tool};
use peal_model::{Proc, Status, code};
use std::{
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
    time::Duration,
};

/// Time limit of the server for the goodbye of a client, after which the connection is closed all
/// the same.
const GOODBYE: Duration = Duration::from_secs(10);

/// State of a process; null before the first call that needs one. It is never freed.
static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());

/// State of one process.
#[derive(Debug)]
pub(crate) struct Library {
    process: ForkNumber,
    /// Held during the whole of a first init or last finalize.
    transition: Mutex<()>,
    state: Mutex<InitState>,
    /// Handlers of the program that have not completed.
    pub(crate) completions: HandlerCompletions,
    /// Infos that the program has yet to release.
    pub(crate) releases: Tokens<HeapArray<CInfo>>,
    /// Upcalls that a host environment has not answered.
    pub(crate) upcalls: Tokens<PendingUpcall>,
}

#[derive(Debug, Default)]
struct InitState {
    inits: usize,
    running: Option<Arc<Running>>,
}

/// An initialized library.
pub(crate) struct Running {
    pub(crate) progress: ProgressThread,
    pub(crate) client: Client,
    pub(crate) tool: Option<Tool>,
    /// The server of this process, if it is a host environment.
    pub(crate) host: Option<Arc<HostServer>>,
    /// Values to which the program has pointers (`PMIX_GET_POINTER_VALUES`).
    pub(crate) values: Mutex<Vec<HeapArray<CValue>>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "library of {}", self.client.me())
    }
}

/// Connection of a process.
pub(crate) enum Connection {
    /// Connection of a client.
    Client(Client),
    /// Connection of a tool.
    Tool(Tool),
    /// Connections of a host environment: that to its server, and that of a client or tool.
    Host {
        /// The first.
        server: Arc<HostServer>,
        /// The other one.
        client: Box<Connection>,
    },
}

impl Connection {
    /// Returns the connected library.
    fn into_running(self, progress: ProgressThread) -> Running {
        let (client, tool) = match self {
            Connection::Client(client) => (client, None),
            Connection::Tool(tool) => ((*tool).clone(), Some(tool)),
            Connection::Host { server, client } => {
                let host = Some(server);
                return Running {
                    host,
                    ..client.into_running(progress)
                };
            }
        };
        Running {
            progress,
            client,
            tool,
            host: None,
            values: Mutex::default(),
        }
    }
}

/// Error of a first init.
pub(crate) trait InitError: std::fmt::Display + Send + 'static {
    /// Returns the status for the program.
    fn init_status(&self) -> Status;
}

impl InitError for ClientError {
    fn init_status(&self) -> Status {
        match self {
            ClientError::NotSet { .. } => code::PMIX_ERR_UNREACH,
            error => error.status(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// Returns the state of this process, which is created if there is none yet.
    pub(crate) fn get() -> &'static Library {
        loop {
            let present = LIBRARY.load(Ordering::Acquire);
            // SAFETY: the pointer is null or came from `Box::leak` below, and is never freed.
            if let Some(library) = unsafe { present.as_ref() }
                && library.process == ForkNumber::current()
            {
                return library;
            }
            let new = Box::into_raw(Box::new(Library {
                process: ForkNumber::current(),
                transition: Mutex::default(),
                state: Mutex::default(),
                completions: HandlerCompletions::new(),
                releases: Tokens::new(),
                upcalls: Tokens::new(),
            }));
            let exchange =
                LIBRARY.compare_exchange(present, new, Ordering::AcqRel, Ordering::Acquire);
            if exchange.is_err() {
                // SAFETY: another thread was faster, so that nothing has this pointer.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// Counts an init. The first one connects by `connect` on a new progress thread.
    pub(crate) fn enter<F, E>(
        &self,
        function: &'static str,
        connect: impl FnOnce() -> F,
    ) -> Result<Arc<Running>, Status>
    where
        F: Future<Output = Result<Connection, E>> + Send + 'static,
        E: InitError,
    {
        if let Some(running) = self.enter_running() {
            return Ok(running);
        }
        if progress::is_current() {
            // The progress thread of a library that is being finalized.
            return Err(would_block(function));
        }
        let _transition = lock(&self.transition);
        if let Some(running) = self.enter_running() {
            return Ok(running);
        }
        let progress = ProgressThread::start().map_err(|error| {
            tracing::error!(%error, "progress thread not started");
            code::PMIX_ERR_OUT_OF_RESOURCE
        })?;
        let connected = progress.wait(connect());
        let connection = match connected {
            Some(Ok(connection)) => connection,
            Some(Err(error)) => {
                progress.stop();
                tracing::debug!(function, %error, "initialization failed");
                return Err(error.init_status());
            }
            None => return Err(code::PMIX_ERROR),
        };
        let running = Arc::new(connection.into_running(progress));
        let mut state = lock(&self.state);
        state.inits = 1;
        state.running = Some(running.clone());
        Ok(running)
    }

    /// Counts an init of a library that is initialized.
    fn enter_running(&self) -> Option<Arc<Running>> {
        let mut state = lock(&self.state);
        let running = state.running.clone()?;
        state.inits = state.inits.saturating_add(1);
        Some(running)
    }

    /// Counts a finalize. The last one says goodbye to the server and ends the progress thread.
    pub(crate) fn leave(&self, function: &'static str) -> Result<(), Status> {
        {
            let mut state = lock(&self.state);
            match state.inits {
                0 => return Err(code::PMIX_ERR_INIT),
                1 if progress::is_current() => return Err(would_block(function)),
                1 => {}
                inits => {
                    state.inits = inits.saturating_sub(1);
                    return Ok(());
                }
            }
        }
        let _transition = lock(&self.transition);
        let running = {
            let mut state = lock(&self.state);
            match state.inits {
                0 => return Err(code::PMIX_ERR_INIT),
                1 => {
                    state.inits = 0;
                    state.running.take()
                }
                inits => {
                    // Another thread has initialized again meanwhile.
                    state.inits = inits.saturating_sub(1);
                    return Ok(());
                }
            }
        };
        let Some(running) = running else {
            return Err(code::PMIX_ERR_INIT);
        };
        let client = running.client.within(GOODBYE);
        let left = running.progress.wait(client.finalize());
        if let Some(host) = &running.host {
            host.close();
        }
        running.progress.stop();
        lock(&running.values).clear();
        if let Some(Err(error)) = left {
            // The connection is closed, which is all that the program can want of it.
            tracing::debug!(function, %error, "server did not answer the finalization");
        }
        Ok(())
    }

    /// Returns true if the library is initialized.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.state).running.is_some()
    }

    /// Returns the initialized library.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_INIT` before the first init and after the last finalize.
    pub(crate) fn running() -> Result<Arc<Running>, Status> {
        let state = lock(&Library::get().state);
        state.running.clone().ok_or(code::PMIX_ERR_INIT)
    }
}

impl Running {
    /// Returns the name of the process.
    pub(crate) fn me(&self) -> &Proc {
        self.client.me()
    }

    /// Keeps a value until the last finalize, and returns the pointer to it.
    pub(crate) fn keep_value(&self, mut value: HeapArray<CValue>) -> *mut CValue {
        let pointer = value.as_mut_ptr();
        lock(&self.values).push(value);
        pointer
    }
}

/// Logs that a blocking function was called from a callback, and returns its status.
pub(crate) fn would_block(function: &'static str) -> Status {
    tracing::error!(function, "blocking function called from a callback");
    code::PMIX_ERR_WOULD_BLOCK
}
