//! Events in a host environment: raised and received ones.
use crate::{
    host::{Statuses, module, report},
    server::{TestServer, array, proc},
};
use peal_libpmix::{
    abi::{CEventCompletion, CInfo, CProc, CStatus},
    client::events::{notify_event, register_event_handler},
    convert::{read_array, read_one},
};
use peal_model::{Event, Info, Infos, Proc, Range, Status, Value, code, key};
use peal_stub::{HostNotice, HostRequest, ServerMessage};
use std::{
    ffi::c_void,
    ptr::{null, null_mut},
    sync::{Mutex, mpsc},
    time::Duration,
};

/// Events that a handler has received.
#[derive(Debug, PartialEq)]
struct Heard {
    code: Status,
    source: Proc,
    infos: Vec<Info>,
}

static HEARD: Mutex<Option<mpsc::Sender<Heard>>> = Mutex::new(None);

unsafe extern "C" fn hear(
    _id: usize,
    status: CStatus,
    source: *const CProc,
    info: *mut CInfo,
    ninfo: usize,
    _results: *mut CInfo,
    _nresults: usize,
    complete: CEventCompletion,
    data: *mut c_void,
) {
    let heard = Heard {
        code: Status(status),
        source: unsafe { read_one(source, "source") }.unwrap(),
        infos: unsafe { read_array(info, ninfo, "infos") }.unwrap(),
    };
    HEARD.lock().unwrap().as_ref().unwrap().send(heard).unwrap();
    unsafe { complete.unwrap()(0, null_mut(), 0, None, null_mut(), data) };
}

/// Registers a handler, which reports to the receiver.
fn listen(codes: &mut [CStatus]) -> mpsc::Receiver<Heard> {
    let (tell, heard) = mpsc::channel();
    *HEARD.lock().unwrap() = Some(tell);
    let first = if codes.is_empty() {
        null_mut()
    } else {
        codes.as_mut_ptr()
    };
    let ncodes = codes.len();
    let id = unsafe {
        register_event_handler(first, ncodes, null_mut(), 0, Some(hear), None, null_mut())
    };
    assert!(id >= 0, "{id}");
    heard
}

fn next(heard: &mpsc::Receiver<Heard>) -> Heard {
    heard
        .recv_timeout(Duration::from_secs(30))
        .expect("an event")
}

#[test]
fn default_handler_receives_a_lost_proc() {
    let mut server = TestServer::start(&module(), &[]);
    let heard = listen(&mut []);
    let lost = proc("job", 3);
    server.send(&ServerMessage::Notice(HostNotice::ClientLost(lost.clone())));
    let event = next(&heard);
    assert_eq!(
        (event.code, event.source),
        (code::PMIX_ERR_LOST_CONNECTION, lost.clone())
    );
    let affected = event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC);
    assert_eq!(affected, Some(&Value::Proc(lost)));
    let event = Event {
        code: Status(-3001),
        source: Some(proc("peal", 0)),
        range: Range::Namespace,
        infos: Vec::new(),
    };
    server.send(&ServerMessage::Notice(HostNotice::Event(event)));
    assert_eq!(next(&heard).code, Status(-3001));
    server.finish();
}

#[test]
fn handlers_receive_the_loss_of_the_server_once() {
    let mut server = TestServer::start(&module(), &[]);
    let heard = listen(&mut []);
    server.die();
    assert_eq!(next(&heard).code, code::PMIX_ERR_LOST_CONNECTION);
    server.finish();
    assert!(heard.try_recv().is_err());
}

#[test]
fn events_of_the_host_go_to_the_server_with_their_source() {
    let mut server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    let source = array(&[proc("job", 1)]);
    let infos = [Info::new(key::PMIX_EXIT_CODE, Value::Int(137))];
    let passed = array(&infos);
    let range = Range::Namespace as u8;
    let notify = |source: *const CProc, callback, data| unsafe {
        notify_event(
            -147,
            source,
            range,
            passed.as_slice().as_ptr(),
            1,
            callback,
            data,
        )
    };
    let first = source.as_slice().as_ptr();
    assert_eq!(notify(first, Some(report as _), statuses.data()), 0);
    let event = |source| Event {
        code: Status(-147),
        source,
        range: Range::Namespace,
        infos: infos.to_vec(),
    };
    let expected = event(Some(proc("job", 1)));
    assert_eq!(server.carry_out(), HostRequest::Notify { event: expected });
    assert_eq!(statuses.next(), 0);
    assert_eq!(
        notify(null(), None, null_mut()),
        0,
        "without a callback it does not wait"
    );
    assert_eq!(
        server.carry_out(),
        HostRequest::Notify { event: event(None) }
    );
    server.finish();
}

#[test]
fn event_for_the_process_stays_in_it() {
    let mut server = TestServer::start(&module(), &[]);
    let heard = listen(&mut [-3002]);
    let statuses = Statuses::new();
    let source = array(&[proc("job", 1)]);
    let source = source.as_slice().as_ptr();
    let range = Range::ProcLocal as u8;
    let data = statuses.data();
    let notified = unsafe { notify_event(-3002, source, range, null(), 0, Some(report), data) };
    assert_eq!((notified, statuses.next()), (0, 0));
    let event = next(&heard);
    assert_eq!((event.code, event.source), (Status(-3002), proc("job", 1)));
    // Nothing came to the server before this.
    let all = unsafe { notify_event(-1, source, Range::Global as u8, null(), 0, None, data) };
    assert_eq!(all, 0);
    let HostRequest::Notify { event } = server.carry_out() else {
        panic!("another request");
    };
    assert_eq!(event.code, Status(-1));
    server.finish();
}
