//! Upcalls: calls of the functions of the host environment's module.
//!
//! | module | contents |
//! |---|---|
//! | `arguments` | what is passed to the host environment, in its C form |
//! | `answers` | upcalls that are not answered, and the callbacks that answer them |
//! | `leftovers` | what is left of answered upcalls |
//! | `clients` | procs that connect and finalize |
//! | `collectives`, `data`, `jobs`, `events`, `services` | one function for each upcall |
//!
//! An upcall returns at once. `PMIX_SUCCESS` says that the callback comes, from any thread, possibly
//! before the return; `PMIX_OPERATION_SUCCEEDED` that the operation is complete; any other status is the
//! answer. The callback gets a token and no pointer: one that comes twice, or after the end of the
//! library, does nothing.

mod answers;
mod arguments;
mod clients;
mod collectives;
mod data;
mod events;
mod jobs;
mod leftovers;
mod services;

pub(super) use answers::AnswerPath;
pub(crate) use answers::PendingUpcall;
pub(super) use leftovers::Leftovers;

use super::HostServer;
use crate::{
    abi::{CServerModule, CStatus},
    client::{library::Library, progress::call_program},
};
use arguments::UpcallArguments;
use peal_model::{Bytes, Status, code};
use peal_stub::{HostUpcall, UpcallKind, UpcallNumber, UpcallResult};
use std::{ffi::c_void, mem};

/// Functions of the host environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostModule(CServerModule);

impl HostModule {
    /// Copies the 28 functions of 4.2; none for null.
    ///
    /// # Safety
    ///
    /// `module` is null or points to these functions, which may be called from another thread.
    pub(super) unsafe fn read(module: *const CServerModule) -> HostModule {
        // SAFETY: the caller guarantees a module or null.
        let module = unsafe { module.as_ref() }.copied();
        HostModule(module.unwrap_or_else(|| {
            // SAFETY: zero is valid for optional functions: none.
            unsafe { mem::zeroed() }
        }))
    }

    /// Returns the upcalls that the host environment offers.
    pub(super) fn offered(&self) -> Vec<UpcallKind> {
        let CServerModule {
            // The connections of procs are told without an answer. No host gets a socket to listen on.
            client_connected: _,
            client_connected2: _,
            client_finalized,
            listener: _,
            abort,
            fence_nb,
            direct_modex,
            publish,
            lookup,
            unpublish,
            spawn,
            connect,
            disconnect,
            register_events,
            deregister_events,
            notify_event,
            query,
            tool_connected,
            log,
            allocate,
            job_control,
            monitor,
            get_credential,
            validate_credential,
            iof_pull,
            push_stdin,
            group,
            fabric,
        } = self.0;
        let members = [
            (UpcallKind::Abort, abort.is_some()),
            (UpcallKind::ClientFinalized, client_finalized.is_some()),
            (UpcallKind::Fence, fence_nb.is_some()),
            (UpcallKind::DirectModex, direct_modex.is_some()),
            (UpcallKind::Publish, publish.is_some()),
            (UpcallKind::Lookup, lookup.is_some()),
            (UpcallKind::Unpublish, unpublish.is_some()),
            (UpcallKind::Spawn, spawn.is_some()),
            (UpcallKind::Connect, connect.is_some()),
            (UpcallKind::Disconnect, disconnect.is_some()),
            (UpcallKind::RegisterEvents, register_events.is_some()),
            (UpcallKind::DeregisterEvents, deregister_events.is_some()),
            (UpcallKind::Notify, notify_event.is_some()),
            (UpcallKind::Query, query.is_some()),
            (UpcallKind::ToolConnected, tool_connected.is_some()),
            (UpcallKind::Log, log.is_some()),
            (UpcallKind::Allocate, allocate.is_some()),
            (UpcallKind::JobControl, job_control.is_some()),
            (UpcallKind::Monitor, monitor.is_some()),
            (UpcallKind::GetCredential, get_credential.is_some()),
            (
                UpcallKind::ValidateCredential,
                validate_credential.is_some(),
            ),
            (UpcallKind::IofPull, iof_pull.is_some()),
            (UpcallKind::PushStdin, push_stdin.is_some()),
            (UpcallKind::Group, group.is_some()),
            (UpcallKind::Fabric, fabric.is_some()),
        ];
        let offered = members.into_iter().filter(|(_, is_offered)| *is_offered);
        offered.map(|(kind, _)| kind).collect()
    }
}

/// Upcall with its arguments in C form.
struct PreparedUpcall {
    /// Data that the host environment may use until it has answered.
    arguments: UpcallArguments,
    /// Calls the host environment with a token for its callback.
    call: Box<dyn FnOnce(*mut c_void) -> CStatus>,
}

/// Status of an upcall whose function the host environment does not have.
const ABSENT: Status = code::PMIX_ERR_NOT_SUPPORTED;

impl HostServer {
    /// Makes an upcall. The answer is sent now or by the callback.
    pub(super) fn call(&self, number: UpcallNumber, upcall: HostUpcall) {
        let kind = upcall.kind();
        let PreparedUpcall { arguments, call } = match self.prepare(upcall) {
            Ok(prepared) => prepared,
            Err(status) => return self.answers.answer(number, Err(status)),
        };
        let pending = PendingUpcall::new(number, self.answers.clone(), arguments);
        let token = Library::get().upcalls.keep(pending);
        let mut returned = code::PMIX_ERROR;
        call_program(|| returned = Status(call(token)));
        let answer = match returned {
            code::PMIX_SUCCESS => return,
            code::PMIX_OPERATION_SUCCEEDED => completed(kind),
            status => Err(status),
        };
        match Library::get().upcalls.take(token) {
            Some(pending) => pending.answer(answer, None),
            None => tracing::debug!(?kind, %returned, "upcall answered before its status"),
        }
    }

    fn prepare(&self, upcall: HostUpcall) -> Result<PreparedUpcall, Status> {
        match upcall {
            HostUpcall::Abort {
                source,
                status,
                message,
                targets,
            } => self.abort(&source, status, message, &targets),
            HostUpcall::ClientFinalized { proc } => self.client_finalized(proc),
            HostUpcall::Fence { procs, infos, data } => self.fence(&procs, &infos, &data),
            HostUpcall::DirectModex { proc, infos } => self.direct_modex(proc, &infos),
            HostUpcall::Publish { source, infos } => self.publish(source, &infos),
            HostUpcall::Lookup {
                source,
                keys,
                infos,
            } => self.lookup(source, keys, &infos),
            HostUpcall::Unpublish {
                source,
                keys,
                infos,
            } => self.unpublish(source, keys, &infos),
            HostUpcall::Spawn {
                source,
                infos,
                apps,
            } => self.spawn(source, &infos, &apps),
            HostUpcall::Connect { procs, infos } => self.connect(&procs, &infos),
            HostUpcall::Disconnect { procs, infos } => self.disconnect(&procs, &infos),
            HostUpcall::RegisterEvents { codes, infos } => self.register_events(&codes, &infos),
            HostUpcall::DeregisterEvents { codes } => self.deregister_events(&codes),
            HostUpcall::Notify { event } => self.notify(event),
            HostUpcall::Query { source, queries } => self.query(source, &queries),
            HostUpcall::ToolConnected { infos } => self.tool_connected(&infos),
            HostUpcall::Log {
                source,
                data,
                directives,
            } => self.log(source, &data, &directives),
            HostUpcall::Allocate {
                source,
                directive,
                infos,
            } => self.allocate(source, directive, &infos),
            HostUpcall::JobControl {
                source,
                targets,
                directives,
            } => self.job_control(source, &targets, &directives),
            HostUpcall::Monitor {
                source,
                monitor,
                error,
                directives,
            } => self.monitor(source, monitor, error, &directives),
            HostUpcall::GetCredential { source, directives } => {
                self.get_credential(source, &directives)
            }
            HostUpcall::ValidateCredential {
                source,
                credential,
                directives,
            } => self.validate_credential(source, credential, &directives),
            HostUpcall::IofPull {
                procs,
                directives,
                channels,
            } => self.iof_pull(&procs, &directives, channels),
            HostUpcall::PushStdin {
                source,
                targets,
                directives,
                data,
            } => self.push_stdin(source, &targets, &directives, data),
            HostUpcall::Group {
                operation,
                group,
                procs,
                directives,
            } => self.group(operation, &group, &procs, &directives),
            HostUpcall::Fabric {
                source,
                operation,
                directives,
            } => self.fabric(source, operation, &directives),
            // Functions that are newer than the module of 4.2.
            HostUpcall::SessionControl { .. } | HostUpcall::ResourceBlock { .. } => Err(ABSENT),
        }
    }
}

/// Returns the answer of an upcall that completed without its callback: the result of its kind, with
/// nothing in it.
///
/// # Errors
///
/// `PMIX_ERROR` where a result cannot be empty: the host environment has told none.
fn completed(kind: UpcallKind) -> Result<UpcallResult, Status> {
    match kind {
        UpcallKind::Fence | UpcallKind::DirectModex => Ok(UpcallResult::Data(Bytes::default())),
        UpcallKind::Lookup => Ok(UpcallResult::Published(Vec::new())),
        UpcallKind::Query
        | UpcallKind::Allocate
        | UpcallKind::JobControl
        | UpcallKind::Monitor
        | UpcallKind::ValidateCredential
        | UpcallKind::Group
        | UpcallKind::Fabric
        | UpcallKind::SessionControl => Ok(UpcallResult::Infos(Vec::new())),
        UpcallKind::Spawn | UpcallKind::ToolConnected | UpcallKind::GetCredential => {
            Err(code::PMIX_ERROR)
        }
        UpcallKind::Abort
        | UpcallKind::ClientFinalized
        | UpcallKind::Publish
        | UpcallKind::Unpublish
        | UpcallKind::Connect
        | UpcallKind::Disconnect
        | UpcallKind::RegisterEvents
        | UpcallKind::DeregisterEvents
        | UpcallKind::Notify
        | UpcallKind::Log
        | UpcallKind::IofPull
        | UpcallKind::PushStdin
        | UpcallKind::ResourceBlock => Ok(UpcallResult::Done),
    }
}
