//! Answers of a host environment: before and after the return, from other threads, twice, never, and
//! by statuses.
use crate::{
    host::module,
    server::{TestServer, proc},
};
use peal_libpmix::abi::{
    CInfo, CInfoCallback, CModexCallback, CProc, CQuery, CServerModule, CStatus,
};
use peal_model::{Bytes, Info, Status, Value, code, key};
use peal_stub::{HostUpcall, UpcallResult};
use std::{
    cell::Cell,
    ffi::{c_char, c_void},
    ptr::{null, null_mut},
    slice,
    sync::{Condvar, Mutex, mpsc},
    thread,
    time::Duration,
};

/// Behaviour of the host environment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    Inline,
    Later,
    Twice,
    Never,
    InlineError,
    Status(CStatus),
}

static BEHAVIOUR: Mutex<Behaviour> = Mutex::new(Behaviour::Inline);

thread_local! {
    /// A callback runs on this thread, during which a host may hold a lock.
    static IS_ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// Names of the threads on which the release function was called.
static RELEASED: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// Arguments of an upcall that was not answered.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// Tells that an upcall is held.
static IS_HELD: Condvar = Condvar::new();

/// Waits until an upcall is held.
fn held() -> Held {
    let held = HELD.lock().unwrap();
    let mut held = IS_HELD.wait_while(held, |held| held.is_none()).unwrap();
    held.take().unwrap()
}

#[derive(Clone, Copy)]
struct Held {
    bytes: *mut c_char,
    len: usize,
    done: CModexCallback,
    data: *mut c_void,
}

unsafe impl Send for Held {}

impl Held {
    fn answer(self, status: CStatus) {
        IS_ANSWERING.set(true);
        let bytes: *mut c_void = self.bytes.cast();
        unsafe {
            self.done.unwrap()(
                status,
                self.bytes,
                self.len,
                self.data,
                Some(release),
                bytes,
            )
        };
        IS_ANSWERING.set(false);
    }
}

unsafe extern "C" fn release(bytes: *mut c_void) {
    let thread = thread::current().name().unwrap_or_default().to_owned();
    let place = if IS_ANSWERING.get() {
        "inside the answer".to_owned()
    } else {
        thread
    };
    if let Some(tell) = &*RELEASED.lock().unwrap() {
        // Later tests release, too.
        let _ = tell.send(place);
    }
    unsafe { libc::free(bytes) };
}

unsafe extern "C" fn fence(
    procs: *const CProc,
    nprocs: usize,
    _info: *const CInfo,
    _ninfo: usize,
    bytes: *mut c_char,
    len: usize,
    done: CModexCallback,
    data: *mut c_void,
) -> CStatus {
    assert!(!procs.is_null() && nprocs == 2);
    let held = Held {
        bytes,
        len,
        done,
        data,
    };
    match *BEHAVIOUR.lock().unwrap() {
        Behaviour::Inline => held.answer(0),
        Behaviour::Later => {
            // A closure that names a member alone would take only that.
            thread::spawn(move || { held }.answer(0));
        }
        Behaviour::Twice => {
            held.answer(0);
            let nothing = null_mut();
            unsafe { done.unwrap()(0, null(), 0, data, None, nothing) };
        }
        Behaviour::Never => {
            *HELD.lock().unwrap() = Some(held);
            IS_HELD.notify_one();
        }
        Behaviour::InlineError => held.answer(code::PMIX_ERR_TIMEOUT.0),
        Behaviour::Status(status) => {
            unsafe { libc::free(bytes.cast()) };
            return status;
        }
    }
    0
}

fn fencing() -> CServerModule {
    CServerModule {
        fence_nb: Some(fence),
        ..module()
    }
}

/// Makes an upcall of a fence.
fn fence_with(server: &mut TestServer, behaviour: Behaviour) {
    *BEHAVIOUR.lock().unwrap() = behaviour;
    server.call(HostUpcall::Fence {
        procs: vec![proc("job", 0), proc("job", 1)],
        infos: Vec::new(),
        data: Bytes::from(&b"blob"[..]),
    });
}

fn blob() -> Result<UpcallResult, Status> {
    Ok(UpcallResult::Data(Bytes::from(&b"blob"[..])))
}

#[test]
fn release_function_is_called_after_the_answer() {
    let mut server = TestServer::start(&fencing(), &[]);
    let (tell, released) = mpsc::channel();
    *RELEASED.lock().unwrap() = Some(tell);
    for behaviour in [Behaviour::Inline, Behaviour::Later, Behaviour::Twice] {
        fence_with(&mut server, behaviour);
        assert_eq!(server.answer(), blob(), "{behaviour:?}");
        let place = released.recv_timeout(Duration::from_secs(30));
        assert_eq!(place.as_deref(), Ok("peal-progress"), "{behaviour:?}");
    }
    fence_with(&mut server, Behaviour::InlineError);
    assert_eq!(server.answer(), Err(code::PMIX_ERR_TIMEOUT));
    let place = released.recv_timeout(Duration::from_secs(30));
    assert_eq!(place.as_deref(), Ok("peal-progress"));
    assert!(released.try_recv().is_err(), "each was released once");
    server.finish();
}

#[test]
fn status_of_the_function_is_the_answer() {
    let mut server = TestServer::start(&fencing(), &[]);
    for (status, answer) in [
        (code::PMIX_ERR_TIMEOUT, Err(code::PMIX_ERR_TIMEOUT)),
        (
            code::PMIX_OPERATION_SUCCEEDED,
            Ok(UpcallResult::Data(Bytes::default())),
        ),
    ] {
        fence_with(&mut server, Behaviour::Status(status.0));
        assert_eq!(server.answer(), answer);
    }
    server.finish();
}

#[test]
fn upcall_without_an_answer_keeps_nothing_else_waiting() {
    let mut server = TestServer::start(&fencing(), &[]);
    *RELEASED.lock().unwrap() = None;
    fence_with(&mut server, Behaviour::Never);
    let held = held();
    fence_with(&mut server, Behaviour::Inline);
    assert_eq!(server.answer(), blob());
    let _turn = server.finish();
    // The answer comes behind the end of the library.
    held.answer(0);
    unsafe { libc::free(held.bytes.cast()) };
}

unsafe extern "C" fn query(
    _source: *mut CProc,
    _queries: *mut CQuery,
    nqueries: usize,
    done: CInfoCallback,
    data: *mut c_void,
) -> CStatus {
    let infos = [Info::new(key::PMIX_JOBID, Value::string("part"))];
    let mut infos = crate::server::array(&infos);
    let ninfos = if nqueries == 2 { 1 } else { 0 };
    let status = code::PMIX_QUERY_PARTIAL_SUCCESS.0;
    let (first, none) = (infos.as_mut_ptr(), null_mut());
    // The infos are borrowed: they are gone when this returns.
    unsafe { done.unwrap()(status, first, ninfos, data, None, none) };
    0
}

#[test]
fn results_with_another_status_come_with_it() {
    let module = CServerModule {
        query: Some(query),
        ..module()
    };
    let mut server = TestServer::start(&module, &[]);
    let query = |count| HostUpcall::Query {
        source: proc("job", 0),
        queries: vec![
            peal_model::Query {
                keys: vec![Some("a".into())],
                qualifiers: Vec::new(),
            };
            count
        ],
    };
    let infos = vec![Info::new(key::PMIX_JOBID, Value::string("part"))];
    let part = UpcallResult::WithStatus {
        status: code::PMIX_QUERY_PARTIAL_SUCCESS,
        result: Box::new(UpcallResult::Infos(infos)),
    };
    assert_eq!(server.ask(query(2)), Ok(part));
    let status = code::PMIX_QUERY_PARTIAL_SUCCESS;
    assert_eq!(server.ask(query(1)), Err(status), "nothing came with it");
    server.finish();
}

#[test]
fn upcalls_without_a_function_are_not_supported() {
    let mut server = TestServer::start(&module(), &[]);
    for upcall in crate::upcalls::all() {
        let answer = server.ask(upcall.clone());
        assert_eq!(answer, Err(code::PMIX_ERR_NOT_SUPPORTED), "{upcall:?}");
    }
    server.finish();
}

#[test]
fn data_of_an_unanswered_upcall_stay_valid() {
    let mut server = TestServer::start(&fencing(), &[]);
    fence_with(&mut server, Behaviour::Never);
    let held = held();
    fence_with(&mut server, Behaviour::Inline);
    assert_eq!(server.answer(), blob());
    let bytes = unsafe { slice::from_raw_parts(held.bytes.cast::<u8>(), held.len) };
    assert_eq!(bytes, b"blob");
    *RELEASED.lock().unwrap() = None;
    held.answer(0);
    server.next();
    server.finish();
}
