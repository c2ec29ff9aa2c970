//! The process: threads that run chains, each on a connection of its own, and one that loads modules.
mod remote_services;
mod side_effects;

use crate::{
    error::TenantRuntimeError,
    handshake::{FurtherConnections, greeted},
    message::{
        ChainCall, ChainReply, FROM_RUNTIME, HandlerReply, ModuleAnswer, ModuleNumber, ModuleOrder,
        ModuleReply, ModuleRequest, PROTOCOL, SideEffects, TO_RUNTIME,
    },
};
use peal_frames::{CodecError, MessageStream, StreamError};
use peal_model::{ChainResult, code};
use peal_sandbox::{
    CallFailure, Engine, EngineSettings, EventCall, HandlerResult, Module, ModuleHealth, Tenant,
    TenantLimits,
};
use remote_services::ServiceConnection;
use side_effects::{EffectLayer, SideEffectLog};
use std::{
    collections::BTreeMap,
    net::Shutdown,
    os::unix::net::UnixStream,
    process, result,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

/// Runs the modules of one user for the server at the other end of `first`, until the server closes that
/// connection. Chains may still run then: the caller ends the process.
///
/// # Errors
///
/// Fails if the engine cannot start, a connection fails, or the server sends what is no message of this
/// protocol.
pub fn serve_tenant(first: UnixStream) -> Result<(), TenantRuntimeError> {
    let (hello, further) = greeted(&first)?;
    let FurtherConnections { services, chains } = further;
    let mut modules = MessageStream::with_limits(first, TO_RUNTIME, FROM_RUNTIME);
    let settings = hello.settings;
    let made = if hello.protocol == PROTOCOL {
        Engine::new(&EngineSettings {
            cache_dir: Some(settings.code_dir),
            cache_owner: Some(settings.code_owner),
            numbers_after: hello.numbers_after,
            max_instances: settings.max_instances,
            fuel: settings.fuel,
            ..EngineSettings::default()
        })
        .map_err(TenantRuntimeError::from)
    } else {
        Err(TenantRuntimeError::Protocol(hello.protocol))
    };
    let log = Arc::new(SideEffectLog::default());
    let engine = match made {
        Ok(engine) => engine,
        Err(error) => {
            // The server reports the reason.
            let refusal = Err(error.to_string());
            send(&mut modules, &log, refusal)?;
            return Err(error);
        }
    };
    send(&mut modules, &log, Ok(ModuleAnswer::Done))?;
    let trace = Dispatch::new(tracing_subscriber::registry().with(EffectLayer::new(log.clone())));
    let process = Arc::new(RuntimeProcess {
        engine,
        modules: Mutex::default(),
        owners: Mutex::default(),
        owner_limits: settings.owner_limits,
        services: Arc::new(ServiceConnection::new(services.try_clone()?)),
        log,
    });
    // Other threads use them, which may be busy when this function returns.
    let mut closed = ClosedAtEnd(vec![services]);
    for (number, connection) in chains.into_iter().enumerate() {
        closed.0.push(connection.try_clone()?);
        let (process, trace) = (process.clone(), trace.clone());
        thread::Builder::new()
            .name(format!("chains-{number}"))
            .spawn(move || {
                let _ends_process = EndOfProcess;
                tracing::dispatcher::with_default(&trace, || process.run_chains(connection));
            })?;
    }
    tracing::dispatcher::with_default(&trace, || {
        while let Some(request) = modules.next_message::<ModuleRequest>()? {
            let answer = process.change_modules(request);
            send(&mut modules, &process.log, answer)?;
        }
        Ok(())
    })
}

/// Connections that are closed for all their users when this is dropped.
struct ClosedAtEnd(Vec<UnixStream>);

impl Drop for ClosedAtEnd {
    fn drop(&mut self) {
        for connection in &self.0 {
            // The server may have closed its end.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Ends the process if a thread panics: the server would wait for its chain in vain.
struct EndOfProcess;

impl Drop for EndOfProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}

/// Modules of the process and what they share.
struct RuntimeProcess {
    engine: Engine,
    modules: Mutex<BTreeMap<ModuleNumber, Arc<Module>>>,
    /// Use of the limits of each owner.
    owners: Mutex<BTreeMap<String, Tenant>>,
    owner_limits: TenantLimits,
    services: Arc<ServiceConnection>,
    log: Arc<SideEffectLog>,
}

impl RuntimeProcess {
    /// Takes chains from the server one by one and runs them, until a connection fails.
    fn run_chains(&self, connection: UnixStream) {
        let mut stream = MessageStream::with_limits(connection, TO_RUNTIME, FROM_RUNTIME);
        // The thread for modules sees the end of the server, too, and ends the process.
        while let Ok(Some(call)) = stream.next_message::<ChainCall>() {
            let reply = self.run_chain(call);
            if answer(&mut stream, reply).is_err() {
                return;
            }
        }
    }

    /// Calls handlers one after the other, each with the results of those before it.
    fn run_chain(&self, call: ChainCall) -> ChainReply {
        self.log.set_level(call.level);
        let mut steps = call.steps;
        let mut results = Vec::with_capacity(call.handlers.len());
        for handler in call.handlers {
            let module = lock(&self.modules).get(&handler.module).cloned();
            let event = match &handler.object {
                Some(object) => Arc::new(call.event.with_return_object(object)),
                None => call.event.clone(),
            };
            let event_call = EventCall {
                number: call.event_number,
                registration: handler.registration,
                tag: handler.tag,
                event,
                identity: call.identity,
                steps: Arc::clone(&steps),
            };
            let reply = match module {
                Some(module) => called(&module, event_call),
                None => HandlerReply::not_called(HandlerResult::from(CallFailure::unavailable(
                    "module is not loaded",
                ))),
            };
            let status = reply.result.status;
            Arc::make_mut(&mut steps).push(ChainResult {
                name: handler.name,
                status,
                infos: reply.result.infos.clone(),
            });
            results.push(reply);
            if status == code::PMIX_EVENT_ACTION_COMPLETE {
                break;
            }
        }
        ChainReply {
            number: call.number,
            results,
            side_effects: self.log.take(),
        }
    }

    fn change_modules(&self, request: ModuleRequest) -> result::Result<ModuleAnswer, String> {
        match request {
            ModuleRequest::Load {
                module,
                order,
                health,
            } => self.load(module, *order, &health),
            ModuleRequest::StayQuarantined { module, health } => {
                self.module(module)?.stay_quarantined(&health);
                Ok(ModuleAnswer::Done)
            }
            ModuleRequest::Reset { module } => {
                self.module(module)?.reset();
                Ok(ModuleAnswer::Done)
            }
            ModuleRequest::Stop { module } => {
                // A module that was not loaded again after an end of the process is not here.
                let removed = lock(&self.modules).remove(&module);
                if let Some(module) = removed {
                    module.stop();
                }
                Ok(ModuleAnswer::Done)
            }
        }
    }

    fn module(&self, number: ModuleNumber) -> result::Result<Arc<Module>, String> {
        let found = lock(&self.modules).get(&number).cloned();
        found.ok_or_else(|| "module is not loaded".to_owned())
    }

    fn load(
        &self,
        number: ModuleNumber,
        order: ModuleOrder,
        health: &ModuleHealth,
    ) -> result::Result<ModuleAnswer, String> {
        let tenant = self.owner(&order.owner);
        let services =
            remote_services::services(number, &order.services, tenant, &self.services, &self.log);
        let module = Module::load(
            &self.engine,
            &order.name,
            order.component.as_slice(),
            &order.grants,
            order.limits,
            services,
        )
        .map_err(|error| error.to_string())?;
        let registrations = module
            .init(&order.settings)
            .map_err(|error| error.to_string())?;
        module.stay_quarantined(health);
        let memory = module.memory() as u64;
        lock(&self.modules).insert(number, Arc::new(module));
        Ok(ModuleAnswer::Loaded {
            registrations,
            memory,
        })
    }

    /// Returns the limits that the modules of an owner share.
    fn owner(&self, name: &str) -> Tenant {
        let mut owners = lock(&self.owners);
        // Owners without modules are forgotten: otherwise all past jobs of the user would stay.
        owners.retain(|other, tenant| other == name || tenant.is_used());
        owners
            .entry(name.to_owned())
            .or_insert_with(|| Tenant::new(self.owner_limits))
            .clone()
    }
}

fn called(module: &Module, call: EventCall) -> HandlerReply {
    let started = Instant::now();
    let result = module.handle(call);
    HandlerReply {
        time: started.elapsed(),
        memory: module.memory() as u64,
        health: result.failure.is_some().then(|| module.health()),
        result,
    }
}

/// Sends a reply. Results that are too long together fail instead, so that the server gets an answer.
fn answer(stream: &mut MessageStream, mut reply: ChainReply) -> Result<(), StreamError> {
    match stream.send(&reply) {
        Err(StreamError::Message(CodecError::TooLong { len, max })) => {
            let failure = CallFailure::unavailable(format!(
                "results of the chain have {len} bytes; the limit is {max}"
            ));
            for result in &mut reply.results {
                *result = HandlerReply::not_called(HandlerResult::from(failure.clone()));
            }
            reply.side_effects = SideEffects::default();
            stream.send(&reply)
        }
        sent => sent,
    }
}

/// Sends an answer about modules, with what modules have caused.
fn send(
    modules: &mut MessageStream,
    log: &SideEffectLog,
    answer: result::Result<ModuleAnswer, String>,
) -> Result<(), TenantRuntimeError> {
    let reply = ModuleReply {
        answer,
        side_effects: log.take(),
    };
    Ok(modules.send(&reply)?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
