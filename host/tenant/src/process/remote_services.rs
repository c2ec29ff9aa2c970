//! Services of modules, which the server has. Each request is a message on the second connection.
use super::side_effects::SideEffectLog;
use crate::{
    error::TenantRuntimeError,
    message::{
        DirectoryWork, FROM_RUNTIME, ModuleNumber, OfferedServices, ServiceAnswer, ServiceCall,
        ServiceRequest, TO_RUNTIME,
    },
};
use peal_frames::MessageStream;
use peal_model::{Info, LogRequest, Proc, Status, code};
use peal_sandbox::{
    CallRecord, DirectoryService, ProcUsage, Recorder, Services, Sink, StateStore, Tenant,
    WritePosition,
};
use std::{
    collections::BTreeMap,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, PoisonError},
};

/// Second connection. It carries one request at a time.
pub(super) struct ServiceConnection(Mutex<MessageStream>);

impl ServiceConnection {
    pub(super) fn new(stream: UnixStream) -> ServiceConnection {
        let stream = MessageStream::with_limits(stream, TO_RUNTIME, FROM_RUNTIME);
        ServiceConnection(Mutex::new(stream))
    }

    fn answer(&self, call: &ServiceCall) -> Result<ServiceAnswer, TenantRuntimeError> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.send(call)?;
        stream.next_message()?.ok_or(TenantRuntimeError::Ended)
    }
}

/// Returns the services of a module.
pub(super) fn services(
    module: ModuleNumber,
    offered: &OfferedServices,
    tenant: Tenant,
    connection: &Arc<ServiceConnection>,
    log: &Arc<SideEffectLog>,
) -> Services {
    let service = RemoteService {
        module,
        connection: connection.clone(),
    };
    let sinks = offered.sinks.iter().map(|name| {
        let sink: Arc<dyn Sink> = Arc::new(UnusableSink);
        (name.clone(), sink)
    });
    let files = offered.directories.iter().map(|name| {
        let directory: Arc<dyn DirectoryService> = Arc::new(RemoteDirectory {
            name: name.clone(),
            service: service.clone(),
        });
        (name.clone(), directory)
    });
    let shared = Arc::new(service.clone());
    let reported = log.clone();
    Services {
        sinks: sinks.collect::<BTreeMap<_, _>>(),
        files: files.collect(),
        state: offered
            .state
            .is_there()
            .then(|| shared.clone() as Arc<dyn StateStore>),
        usage: offered
            .usage
            .is_there()
            .then(|| shared.clone() as Arc<dyn ProcUsage>),
        recorder: offered.record.is_there().then(|| {
            Arc::new(RemoteRecorder {
                service,
                log: log.clone(),
            }) as Arc<dyn Recorder>
        }),
        tenant: Some(tenant),
        on_quarantine: Some(Arc::new(move |report| {
            reported.quarantined(module, report);
        })),
        ..Services::default()
    }
}

/// Service of one module.
#[derive(Clone)]
struct RemoteService {
    module: ModuleNumber,
    connection: Arc<ServiceConnection>,
}

impl RemoteService {
    /// Sends a request and waits for the answer.
    fn ask(&self, request: ServiceRequest) -> Result<ServiceAnswer, Status> {
        let call = ServiceCall {
            module: self.module,
            request,
        };
        match self.connection.answer(&call) {
            Ok(ServiceAnswer::Refused(status)) => Err(status),
            Ok(answer) => Ok(answer),
            // The server ends this process then.
            Err(_lost) => Err(code::PMIX_ERR_LOST_CONNECTION_TO_SERVER),
        }
    }

    fn done(&self, request: ServiceRequest) -> Result<(), Status> {
        match self.ask(request)? {
            ServiceAnswer::Done => Ok(()),
            _ => Err(code::PMIX_ERROR),
        }
    }

    fn names(&self, request: ServiceRequest) -> Result<Vec<String>, Status> {
        match self.ask(request)? {
            ServiceAnswer::Names(names) => Ok(names),
            _ => Err(code::PMIX_ERROR),
        }
    }
}

impl StateStore for RemoteService {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        let key = key.to_owned();
        match self.ask(ServiceRequest::GetState { key })? {
            ServiceAnswer::Bytes(bytes) => Ok(Some(bytes.as_slice().to_vec())),
            ServiceAnswer::Nothing => Ok(None),
            _ => Err(code::PMIX_ERROR),
        }
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        self.done(ServiceRequest::SetState {
            key: key.to_owned(),
            value: value.into(),
        })
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.done(ServiceRequest::DeleteState {
            key: key.to_owned(),
        })
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        self.names(ServiceRequest::ListState {
            prefix: prefix.to_owned(),
        })
    }
}

impl ProcUsage for RemoteService {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        let procs = procs.to_vec();
        match self.ask(ServiceRequest::Usage { procs })? {
            ServiceAnswer::Infos(infos) => Ok(infos),
            _ => Err(code::PMIX_ERROR),
        }
    }
}

/// Recorder whose records go to the server with the results of their chain.
struct RemoteRecorder {
    service: RemoteService,
    log: Arc<SideEffectLog>,
}

impl Recorder for RemoteRecorder {
    fn samples(&self, instance: u64) -> bool {
        match self.service.ask(ServiceRequest::Samples { instance }) {
            Ok(ServiceAnswer::Decision(offer)) => offer.is_there(),
            // A record too many costs less than one that is missing.
            _ => true,
        }
    }

    fn record(&self, record: CallRecord) {
        self.log.record(self.service.module, record);
    }
}

/// Directory of a module.
struct RemoteDirectory {
    name: String,
    service: RemoteService,
}

impl RemoteDirectory {
    fn request(&self, path: &str, work: DirectoryWork) -> ServiceRequest {
        ServiceRequest::Directory {
            directory: self.name.clone(),
            path: path.to_owned(),
            work,
        }
    }
}

impl DirectoryService for RemoteDirectory {
    fn read(&self, path: &str) -> Result<Vec<u8>, Status> {
        match self.service.ask(self.request(path, DirectoryWork::Read))? {
            ServiceAnswer::Bytes(bytes) => Ok(bytes.as_slice().to_vec()),
            _ => Err(code::PMIX_ERROR),
        }
    }

    fn write(&self, path: &str, bytes: &[u8], place: WritePosition) -> Result<(), Status> {
        let bytes = bytes.into();
        self.service
            .done(self.request(path, DirectoryWork::Write { bytes, place }))
    }

    fn remove(&self, path: &str) -> Result<(), Status> {
        self.service.done(self.request(path, DirectoryWork::Remove))
    }

    fn entries(&self, path: &str) -> Result<Vec<String>, Status> {
        self.service.names(self.request(path, DirectoryWork::List))
    }
}

/// Sink that a module may name, without a role in which it could write.
struct UnusableSink;

impl Sink for UnusableSink {
    fn write(&self, _request: &LogRequest, _bytes: &[u8]) -> Result<(), Status> {
        Err(code::PMIX_ERR_NOT_AVAILABLE)
    }
}
