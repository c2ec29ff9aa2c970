//! Every upcall: the function of the host environment gets what the server has sent, and the server
//! what the function has answered.
use crate::{
    host::module,
    server::{TestServer, array, proc},
};
use peal_libpmix::{
    abi::{
        CAllocDirective, CApp, CByteObject, CCredentialCallback, CDataRange, CFabricOperation,
        CGroupOperation, CInfo, CInfoCallback, CIofChannel, CLookupCallback, CModexCallback,
        COpCallback, CProc, CQuery, CServerModule, CSpawnCallback, CStatus,
        CToolConnectionCallback, CValidationCallback,
    },
    convert::{argv_argument, nspace_array, read_array, read_one},
    server::registrations::server_register_client,
};
use peal_model::{
    App, Bytes, Event, Info, IofChannel, Nspace, Pdata, Proc, Query, Range, ResourceUnit, Status,
    Text, Value, key,
};
use peal_stub::{HostNotice, HostUpcall, ServerMessage, UpcallKind, UpcallResult};
use std::{
    collections::BTreeSet,
    ffi::{CStr, c_char, c_int, c_void},
    ptr::null_mut,
    sync::{Mutex, mpsc},
    time::Duration,
};

/// Arguments with which the functions of the host environment were called.
static CALLED: Mutex<Option<mpsc::Sender<HostUpcall>>> = Mutex::new(None);

/// Pointer that is registered for a proc.
const OBJECT: usize = 0x1234;

fn tell(upcall: HostUpcall) {
    let called = CALLED.lock().unwrap();
    called.as_ref().unwrap().send(upcall).unwrap();
}

unsafe fn infos(first: *const CInfo, count: usize) -> Vec<Info> {
    unsafe { read_array(first, count, "infos") }.unwrap()
}

unsafe fn procs(first: *const CProc, count: usize) -> Vec<Proc> {
    unsafe { read_array(first, count, "procs") }.unwrap()
}

unsafe fn source(proc: *const CProc) -> Proc {
    unsafe { read_one(proc, "source") }.unwrap()
}

unsafe fn text(text: *const c_char) -> Text {
    Text::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn answered() -> Vec<Info> {
    vec![Info::new(key::PMIX_JOBID, Value::string("answer"))]
}

unsafe fn answer_infos(done: CInfoCallback, data: *mut c_void) -> CStatus {
    let mut infos = array(&answered());
    unsafe { done.unwrap()(0, infos.as_mut_ptr(), 1, data, None, null_mut()) };
    0
}

unsafe extern "C" fn abort(
    proc: *const CProc,
    object: *mut c_void,
    status: c_int,
    message: *const c_char,
    targets: *mut CProc,
    ntargets: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    assert_eq!(object.addr(), OBJECT);
    unsafe {
        tell(HostUpcall::Abort {
            source: source(proc),
            status: Status(status),
            message: Some(text(message)),
            targets: procs(targets, ntargets),
        });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn fence(
    all: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    bytes: *mut c_char,
    len: usize,
    done: CModexCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe extern "C" fn free(bytes: *mut c_void) {
        unsafe { libc::free(bytes) };
    }
    unsafe {
        let slice = std::slice::from_raw_parts(bytes.cast::<u8>(), len);
        tell(HostUpcall::Fence {
            procs: procs(all, nprocs),
            infos: infos(info, ninfo),
            data: Bytes::from(slice),
        });
        done.unwrap()(0, bytes, len, data, Some(free), bytes.cast());
    }
    0
}

unsafe extern "C" fn direct_modex(
    proc: *const CProc,
    info: *const CInfo,
    ninfo: usize,
    done: CModexCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let (proc, infos) = (source(proc), infos(info, ninfo));
        tell(HostUpcall::DirectModex { proc, infos });
        done.unwrap()(0, c"x".as_ptr(), 1, data, None, null_mut());
    }
    0
}

unsafe extern "C" fn publish(
    proc: *const CProc,
    info: *const CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let (source, infos) = (source(proc), infos(info, ninfo));
        tell(HostUpcall::Publish { source, infos });
        done.unwrap()(0, data);
    }
    0
}

unsafe fn keys(list: *mut *mut c_char) -> Vec<Text> {
    let keys = unsafe { argv_argument(list) }.unwrap();
    keys.into_iter().flatten().collect()
}

fn published() -> Vec<Pdata> {
    vec![Pdata {
        proc: proc("job", 1),
        key: key::PMIX_JOBID.into(),
        value: Value::string("published"),
    }]
}

unsafe extern "C" fn lookup(
    proc: *const CProc,
    list: *mut *mut c_char,
    info: *const CInfo,
    ninfo: usize,
    done: CLookupCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Lookup {
            source: source(proc),
            keys: keys(list),
            infos: infos(info, ninfo),
        });
        let mut found = array(&published());
        done.unwrap()(0, found.as_mut_ptr(), 1, data);
    }
    0
}

unsafe extern "C" fn unpublish(
    proc: *const CProc,
    list: *mut *mut c_char,
    info: *const CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Unpublish {
            source: source(proc),
            keys: keys(list),
            infos: infos(info, ninfo),
        });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn spawn(
    proc: *const CProc,
    info: *const CInfo,
    ninfo: usize,
    apps: *const CApp,
    napps: usize,
    done: CSpawnCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Spawn {
            source: source(proc),
            infos: infos(info, ninfo),
            apps: read_array(apps, napps, "apps").unwrap(),
        });
        let mut nspace = nspace_array(&Nspace::new("new").unwrap());
        done.unwrap()(0, nspace.as_mut_ptr(), data);
    }
    0
}

unsafe extern "C" fn connect(
    all: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let (procs, infos) = (procs(all, nprocs), infos(info, ninfo));
        tell(HostUpcall::Connect { procs, infos });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn disconnect(
    all: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let (procs, infos) = (procs(all, nprocs), infos(info, ninfo));
        tell(HostUpcall::Disconnect { procs, infos });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn register_events(
    codes: *mut CStatus,
    ncodes: usize,
    info: *const CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let codes = read_array(codes, ncodes, "codes").unwrap();
        let infos = infos(info, ninfo);
        tell(HostUpcall::RegisterEvents { codes, infos });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn deregister_events(
    codes: *mut CStatus,
    ncodes: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let codes = read_array(codes, ncodes, "codes").unwrap();
        tell(HostUpcall::DeregisterEvents { codes });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn notify_event(
    code: CStatus,
    proc: *const CProc,
    range: CDataRange,
    info: *mut CInfo,
    ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let event = Event {
            code: Status(code),
            source: Some(source(proc)),
            range: Range::try_from(range).unwrap(),
            infos: infos(info, ninfo),
        };
        tell(HostUpcall::Notify { event });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn query(
    proc: *mut CProc,
    queries: *mut CQuery,
    nqueries: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Query {
            source: source(proc),
            queries: read_array(queries, nqueries, "queries").unwrap(),
        });
        answer_infos(done, data)
    }
}

unsafe extern "C" fn tool_connected(
    info: *mut CInfo,
    ninfo: usize,
    done: CToolConnectionCallback,
    data: *mut c_void,
) {
    unsafe {
        let infos = infos(info, ninfo);
        tell(HostUpcall::ToolConnected { infos });
        let mut name = array(&[proc("tools", 7)]);
        done.unwrap()(0, name.as_mut_ptr(), data);
    }
}

unsafe extern "C" fn log(
    proc: *const CProc,
    logged: *const CInfo,
    nlogged: usize,
    directives: *const CInfo,
    ndirs: usize,
    done: COpCallback,
    data: *mut c_void,
) {
    unsafe {
        tell(HostUpcall::Log {
            source: source(proc),
            data: infos(logged, nlogged),
            directives: infos(directives, ndirs),
        });
        done.unwrap()(0, data);
    }
}

unsafe extern "C" fn allocate(
    proc: *const CProc,
    directive: CAllocDirective,
    info: *const CInfo,
    ninfo: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Allocate {
            source: source(proc),
            directive,
            infos: infos(info, ninfo),
        });
        answer_infos(done, data)
    }
}

unsafe extern "C" fn job_control(
    proc: *const CProc,
    targets: *const CProc,
    ntargets: usize,
    directives: *const CInfo,
    ndirs: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::JobControl {
            source: source(proc),
            targets: procs(targets, ntargets),
            directives: infos(directives, ndirs),
        });
        answer_infos(done, data)
    }
}

unsafe extern "C" fn monitor(
    proc: *const CProc,
    monitor: *const CInfo,
    error: CStatus,
    directives: *const CInfo,
    ndirs: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Monitor {
            source: source(proc),
            monitor: read_one(monitor, "monitor").unwrap(),
            error: Status(error),
            directives: infos(directives, ndirs),
        });
        answer_infos(done, data)
    }
}

unsafe extern "C" fn get_credential(
    proc: *const CProc,
    directives: *const CInfo,
    ndirs: usize,
    done: CCredentialCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let (source, directives) = (source(proc), infos(directives, ndirs));
        tell(HostUpcall::GetCredential { source, directives });
        let mut credential = array(&[Bytes::from(&b"secret"[..])]);
        let mut infos = array(&answered());
        done.unwrap()(0, credential.as_mut_ptr(), infos.as_mut_ptr(), 1, data);
    }
    0
}

unsafe extern "C" fn validate_credential(
    proc: *const CProc,
    credential: *const CByteObject,
    directives: *const CInfo,
    ndirs: usize,
    done: CValidationCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::ValidateCredential {
            source: source(proc),
            credential: read_one(credential, "credential").unwrap(),
            directives: infos(directives, ndirs),
        });
        let mut infos = array(&answered());
        done.unwrap()(0, infos.as_mut_ptr(), 1, data);
    }
    0
}

unsafe extern "C" fn iof_pull(
    all: *const CProc,
    nprocs: usize,
    directives: *const CInfo,
    ndirs: usize,
    channels: CIofChannel,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::IofPull {
            procs: procs(all, nprocs),
            directives: infos(directives, ndirs),
            channels: IofChannel(channels),
        });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn push_stdin(
    proc: *const CProc,
    targets: *const CProc,
    ntargets: usize,
    directives: *const CInfo,
    ndirs: usize,
    bytes: *const CByteObject,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        let bytes: Bytes = read_one(bytes, "input").unwrap();
        tell(HostUpcall::PushStdin {
            source: source(proc),
            targets: procs(targets, ntargets),
            directives: infos(directives, ndirs),
            data: (!bytes.as_slice().is_empty()).then_some(bytes),
        });
        done.unwrap()(0, data);
    }
    0
}

unsafe extern "C" fn group(
    operation: CGroupOperation,
    name: *mut c_char,
    all: *const CProc,
    nprocs: usize,
    directives: *const CInfo,
    ndirs: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Group {
            operation: u8::try_from(operation).unwrap(),
            group: text(name),
            procs: procs(all, nprocs),
            directives: infos(directives, ndirs),
        });
        answer_infos(done, data)
    }
}

unsafe extern "C" fn fabric(
    proc: *const CProc,
    operation: CFabricOperation,
    directives: *const CInfo,
    ndirs: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell(HostUpcall::Fabric {
            source: source(proc),
            operation: u8::try_from(operation).unwrap(),
            directives: infos(directives, ndirs),
        });
        answer_infos(done, data)
    }
}

/// Returns an upcall of every kind.
pub fn all() -> Vec<HostUpcall> {
    let source = || proc("job", 0);
    let procs = || vec![proc("job", 0), proc("other", u32::MAX - 1)];
    let infos = || {
        vec![
            Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true)),
            Info::new(key::PMIX_TIMEOUT, Value::Int(5)),
        ]
    };
    let directives = || vec![Info::new(key::PMIX_HOST, Value::string("n2"))];
    let keys = || vec![Text::from("a"), Text::from("b")];
    let push = |data| HostUpcall::PushStdin {
        source: source(),
        targets: procs(),
        directives: directives(),
        data,
    };
    vec![
        HostUpcall::Abort {
            source: source(),
            status: Status(7),
            message: Some("the end".into()),
            targets: procs(),
        },
        HostUpcall::Fence {
            procs: procs(),
            infos: infos(),
            data: Bytes::from(&b"a\0b"[..]),
        },
        HostUpcall::DirectModex {
            proc: source(),
            infos: infos(),
        },
        HostUpcall::Publish {
            source: source(),
            infos: infos(),
        },
        HostUpcall::Lookup {
            source: source(),
            keys: keys(),
            infos: infos(),
        },
        HostUpcall::Unpublish {
            source: source(),
            keys: keys(),
            infos: infos(),
        },
        HostUpcall::Spawn {
            source: source(),
            infos: infos(),
            apps: vec![App {
                command: Some("program".into()),
                args: vec![Some("program".into()), Some("-v".into())],
                env: vec![Some("A=b".into())],
                cwd: Some("/".into()),
                max_procs: 4,
                infos: infos(),
            }],
        },
        HostUpcall::Connect {
            procs: procs(),
            infos: infos(),
        },
        HostUpcall::Disconnect {
            procs: procs(),
            infos: infos(),
        },
        HostUpcall::RegisterEvents {
            codes: vec![Status(-1), Status(-2)],
            infos: infos(),
        },
        HostUpcall::DeregisterEvents {
            codes: vec![Status(-1)],
        },
        HostUpcall::Notify {
            event: Event {
                code: Status(-3001),
                source: Some(source()),
                range: Range::Session,
                infos: infos(),
            },
        },
        HostUpcall::Query {
            source: source(),
            queries: vec![Query {
                keys: vec![Some("a".into())],
                qualifiers: infos(),
            }],
        },
        HostUpcall::ToolConnected { infos: infos() },
        HostUpcall::Log {
            source: source(),
            data: infos(),
            directives: directives(),
        },
        HostUpcall::Allocate {
            source: source(),
            directive: 2,
            infos: infos(),
        },
        HostUpcall::JobControl {
            source: source(),
            targets: procs(),
            directives: directives(),
        },
        HostUpcall::Monitor {
            source: source(),
            monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true)),
            error: Status(-5),
            directives: directives(),
        },
        HostUpcall::GetCredential {
            source: source(),
            directives: directives(),
        },
        HostUpcall::ValidateCredential {
            source: source(),
            credential: Bytes::from(&b"secret"[..]),
            directives: directives(),
        },
        HostUpcall::IofPull {
            procs: procs(),
            directives: directives(),
            channels: IofChannel(6),
        },
        push(Some(Bytes::from(&b"input"[..]))),
        push(None),
        HostUpcall::Group {
            operation: 1,
            group: "group".into(),
            procs: procs(),
            directives: directives(),
        },
        HostUpcall::Fabric {
            source: source(),
            operation: 1,
            directives: directives(),
        },
        HostUpcall::SessionControl {
            source: source(),
            session: 3,
            infos: infos(),
        },
        HostUpcall::ResourceBlock {
            source: source(),
            directive: 1,
            block: Some("block".into()),
            units: vec![ResourceUnit {
                device_type: 1,
                count: 2,
            }],
            infos: infos(),
        },
    ]
}

fn full_module() -> CServerModule {
    CServerModule {
        abort: Some(abort),
        fence_nb: Some(fence),
        direct_modex: Some(direct_modex),
        publish: Some(publish),
        lookup: Some(lookup),
        unpublish: Some(unpublish),
        spawn: Some(spawn),
        connect: Some(connect),
        disconnect: Some(disconnect),
        register_events: Some(register_events),
        deregister_events: Some(deregister_events),
        notify_event: Some(notify_event),
        query: Some(query),
        tool_connected: Some(tool_connected),
        log: Some(log),
        allocate: Some(allocate),
        job_control: Some(job_control),
        monitor: Some(monitor),
        get_credential: Some(get_credential),
        validate_credential: Some(validate_credential),
        iof_pull: Some(iof_pull),
        push_stdin: Some(push_stdin),
        group: Some(group),
        fabric: Some(fabric),
        ..module()
    }
}

/// Returns the answer that the functions above give.
fn expected(upcall: &HostUpcall) -> UpcallResult {
    match upcall {
        HostUpcall::Fence { data, .. } => UpcallResult::Data(data.clone()),
        HostUpcall::DirectModex { .. } => UpcallResult::Data(Bytes::from(&b"x"[..])),
        HostUpcall::Lookup { .. } => UpcallResult::Published(published()),
        HostUpcall::Spawn { .. } => UpcallResult::Spawned(Nspace::new("new").unwrap()),
        HostUpcall::ToolConnected { .. } => UpcallResult::Tool(proc("tools", 7)),
        HostUpcall::GetCredential { .. } => UpcallResult::Credential {
            credential: Bytes::from(&b"secret"[..]),
            infos: answered(),
        },
        HostUpcall::Query { .. }
        | HostUpcall::Allocate { .. }
        | HostUpcall::JobControl { .. }
        | HostUpcall::Monitor { .. }
        | HostUpcall::ValidateCredential { .. }
        | HostUpcall::Group { .. }
        | HostUpcall::Fabric { .. } => UpcallResult::Infos(answered()),
        _ => UpcallResult::Done,
    }
}

fn is_newer(upcall: &HostUpcall) -> bool {
    [UpcallKind::SessionControl, UpcallKind::ResourceBlock].contains(&upcall.kind())
}

#[test]
fn every_upcall_reaches_its_function_and_its_answer_the_server() {
    let mut server = TestServer::start(&full_module(), &[]);
    let (tell, called) = mpsc::channel();
    *CALLED.lock().unwrap() = Some(tell);
    let object = std::ptr::without_provenance_mut(OBJECT);
    let one = array(&[proc("job", 0)]);
    let one = one.as_slice().as_ptr();
    let registered = unsafe { server_register_client(one, 0, 0, object, Some(ignore), null_mut()) };
    assert_eq!(registered, 0);
    server.carry_out();
    let upcalls: Vec<HostUpcall> = all()
        .into_iter()
        .filter(|upcall| !is_newer(upcall))
        .collect();
    let kinds: BTreeSet<UpcallKind> = upcalls.iter().map(HostUpcall::kind).collect();
    let offered: BTreeSet<UpcallKind> = server.hello.offered.iter().copied().collect();
    assert_eq!(offered, kinds);
    for upcall in upcalls {
        let answer = server.ask(upcall.clone());
        let passed = called.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(passed, upcall);
        assert_eq!(answer, Ok(expected(&upcall)), "{upcall:?}");
    }
    server.finish();
}

unsafe extern "C" fn ignore(_status: CStatus, _data: *mut c_void) {}

/// Names of functions, procs and objects that were passed to them.
static CLIENTS: Mutex<Option<mpsc::Sender<ToldClient>>> = Mutex::new(None);

#[derive(Debug, PartialEq)]
struct ToldClient {
    function: &'static str,
    proc: Proc,
    object: usize,
}

unsafe fn tell_client(function: &'static str, name: *const CProc, object: *mut c_void) {
    let told = ToldClient {
        function,
        proc: unsafe { source(name) },
        object: object.addr(),
    };
    CLIENTS
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .send(told)
        .unwrap();
}

/// Says that it calls back, and never does, as Slurm's.
unsafe extern "C" fn connected(
    name: *const CProc,
    object: *mut c_void,
    _done: COpCallback,
    _data: *mut c_void,
) -> CStatus {
    unsafe { tell_client("connected", name, object) };
    0
}

unsafe extern "C" fn connected2(
    name: *const CProc,
    object: *mut c_void,
    _info: *mut CInfo,
    _ninfo: usize,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell_client("connected2", name, object);
        done.unwrap()(0, data);
    }
    0
}

/// Calls back at once and says that it does so later, as Slurm's.
unsafe extern "C" fn finalized(
    name: *const CProc,
    object: *mut c_void,
    done: COpCallback,
    data: *mut c_void,
) -> CStatus {
    unsafe {
        tell_client("finalized", name, object);
        done.unwrap()(0, data);
    }
    0
}

#[test]
fn host_is_notified_of_its_procs_with_their_objects() {
    for newer in [None, Some(connected2 as _)] {
        let module = CServerModule {
            client_connected: Some(connected),
            client_connected2: newer,
            client_finalized: Some(finalized),
            ..module()
        };
        let (tell, told) = mpsc::channel();
        let mut server = TestServer::start(&module, &[]);
        *CLIENTS.lock().unwrap() = Some(tell);
        let object = std::ptr::without_provenance_mut(OBJECT);
        let one = array(&[proc("job", 1)]);
        let one = one.as_slice().as_ptr();
        let done = Some(ignore as _);
        assert_eq!(
            unsafe { server_register_client(one, 0, 0, object, done, null_mut()) },
            0
        );
        server.carry_out();
        let connected = |proc| ServerMessage::Notice(HostNotice::ClientConnected(proc));
        server.send(&connected(proc("job", 1)));
        server.call(HostUpcall::ClientFinalized {
            proc: proc("job", 1),
        });
        assert_eq!(server.answer(), Ok(UpcallResult::Done));
        server.send(&connected(proc("tool", 0)));
        let function = if newer.is_some() {
            "connected2"
        } else {
            "connected"
        };
        for (function, proc, object) in [
            (function, proc("job", 1), OBJECT),
            ("finalized", proc("job", 1), OBJECT),
            (function, proc("tool", 0), 0),
        ] {
            let expected = ToldClient {
                function,
                proc,
                object,
            };
            assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(expected));
        }
        server.finish();
    }
}
