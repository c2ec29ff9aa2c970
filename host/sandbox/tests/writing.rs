//! Log channels, and the sinks that they write to.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{
    Bytes, DataArray, Info, Key, LogRequest, Scope, Status, UserIdentity, Value, code,
};
use peal_sandbox::{
    ChannelCall, ChannelResult, FailureKind, Grants, Module, ModuleLimits, Services, Sink,
};
use std::sync::{Arc, Mutex};
use support::{component, engine, info, load, patient, proc, step, traced};

/// Keeps what is written to it, or refuses everything.
#[derive(Default)]
struct Page {
    written: Mutex<Vec<(LogRequest, Vec<u8>)>>,
    refuses: Option<Status>,
}

impl Sink for Page {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.written
            .lock()
            .unwrap()
            .push((request.clone(), bytes.to_vec()));
        self.refuses.map_or(Ok(()), Err)
    }
}

/// A channel that may write to these.
fn channel(sinks: &[(&str, &Arc<Page>)], limits: ModuleLimits) -> Module {
    let sinks = sinks
        .iter()
        .map(|(name, page)| ((*name).to_owned(), Arc::clone(page) as Arc<dyn Sink>))
        .collect();
    let services = Services {
        sinks,
        ..Services::default()
    };
    Module::load(
        engine(),
        "scribe",
        &component("scribe"),
        &Grants::all(),
        limits,
        services,
    )
    .unwrap()
}

/// Has it do that (by the list at the head of `scribe.wat`) with these bytes and the sink of that
/// name.
fn call(what: i32, sink: &str, bytes: &[u8]) -> ChannelCall {
    let request = LogRequest {
        source: Some(proc("job", 3)),
        identity: Some(UserIdentity {
            uid: 1000,
            gid: 100,
        }),
        timestamp: Some(1_700_000_000),
        data: vec![info("test.data", Value::ByteObject(Bytes::from(bytes)))],
        directives: vec![
            info("test.ask", Value::Int(what)),
            info("test.sink", Value::string(sink)),
        ],
    };
    ChannelCall {
        channel: Key::new("pmix.log.test").unwrap(),
        request: Arc::new(request),
        steps: Arc::default(),
    }
}

fn failure(result: &ChannelResult) -> FailureKind {
    let failure = result.failure.as_ref().unwrap();
    assert_eq!(result.status, failure.kind.status());
    assert!(result.infos.is_empty());
    failure.kind
}

#[test]
fn channel_writes_to_named_sink_for_current_request() {
    let left = Arc::new(Page::default());
    let right = Arc::new(Page::default());
    let module = channel(&[("left", &left), ("right", &right)], patient());
    let call = call(0, "right", b"hello\n");
    let result = module.log(call.clone());
    let usage = result.usage;
    assert_eq!(
        result,
        ChannelResult {
            status: code::PMIX_SUCCESS,
            infos: Vec::new(),
            failure: None,
            usage
        }
    );
    assert!(
        usage.host_calls > 0 && usage.output >= 6 && usage.hits.is_empty() && usage.fuel.is_none(),
        "{usage:?}"
    );
    assert_eq!(
        *right.written.lock().unwrap(),
        [((*call.request).clone(), b"hello\n".to_vec())]
    );
    assert!(left.written.lock().unwrap().is_empty());
    assert_eq!(
        Arc::strong_count(&call.request),
        1,
        "the sandbox keeps nothing of the request"
    );
}

#[test]
fn channel_sees_request_and_status_of_earlier_channels() {
    let page = Arc::new(Page::default());
    let module = channel(&[("b", &page), ("a", &page)], patient());
    let nested = DataArray::infos([info("test.deep", Value::Scope(Scope::Local))]);
    let mut call = call(1, "a", b"x");
    Arc::make_mut(&mut call.request)
        .data
        .push(info("test.array", Value::DataArray(nested)));
    call.steps = Arc::new(vec![step("syslog", -64, Vec::new())]);
    let result = module.log(call.clone());
    assert_eq!(result.failure, None);
    let head = [
        Value::string("pmix.log.test"),
        Value::Uint64(1_700_000_000),
        Value::Uint64(2),
        Value::Uint64(2),
        Value::Uint64(1),
        Value::Proc(proc("job", 3)),
        Value::Uint32(1000),
        Value::Uint32(100),
        Value::string("a"),
        Value::string("b"),
    ];
    let tail = [Value::string("syslog"), Value::Status(Status(-64))];
    let echoed = |values: &[Value]| {
        values
            .iter()
            .map(|value| info("test.echo", value.clone()))
            .collect::<Vec<Info>>()
    };
    let request = [call.request.data.clone(), call.request.directives.clone()].concat();
    assert_eq!(
        result.infos,
        [echoed(&head), request, echoed(&tail)].concat()
    );
}

#[test]
fn a_request_without_a_time_shows_none() {
    let page = Arc::new(Page::default());
    let mut call = call(1, "a", b"x");
    Arc::make_mut(&mut call.request).timestamp = None;
    Arc::make_mut(&mut call.request).source = None;
    Arc::make_mut(&mut call.request).identity = None;
    let infos = channel(&[("a", &page)], patient()).log(call).infos;
    assert_eq!(infos[1].value, Value::Uint64(0));
    assert_eq!(
        infos[5].value,
        Value::string("a"),
        "the host environment has neither name nor user"
    );
}

#[test]
fn channel_gets_status_of_missing_or_refusing_sink() {
    let full = Arc::new(Page {
        refuses: Some(code::PMIX_ERR_OUT_OF_RESOURCE),
        ..Page::default()
    });
    let module = channel(&[("full", &full)], patient());
    assert_eq!(
        module.log(call(0, "full", b"x")).status,
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    assert_eq!(
        module.log(call(0, "ful", b"x")).status,
        code::PMIX_ERR_NOT_FOUND
    );
    assert_eq!(
        module.log(call(0, "", b"x")).status,
        code::PMIX_ERR_NOT_FOUND
    );
    assert_eq!(full.written.lock().unwrap().len(), 1);
    assert_eq!(
        load("scribe", patient())
            .log(call(0, "stdout", b"x"))
            .status,
        code::PMIX_ERR_NOT_FOUND
    );
}

#[test]
fn channel_reports_its_own_status() {
    let result = load("scribe", patient()).log(call(4, "", b""));
    assert_eq!((result.status, result.failure), (Status(-3), None));
}

#[test]
fn written_bytes_count_as_output() {
    let page = Arc::new(Page::default());
    let module = channel(
        &[("out", &page)],
        ModuleLimits {
            output_bytes: 10_000,
            ..patient()
        },
    );
    assert_eq!(
        module.log(call(0, "out", &[b'x'; 10_000])).status,
        code::PMIX_SUCCESS
    );
    assert_eq!(
        failure(&module.log(call(0, "out", &[b'x'; 10_001]))),
        FailureKind::Output
    );
    assert_eq!(
        page.written.lock().unwrap().len(),
        1,
        "nothing of it was written"
    );
    assert_eq!(
        failure(&module.log(call(3, "out", &[b'x'; 1000]))),
        FailureKind::Output
    );
    assert_eq!(page.written.lock().unwrap().len(), 11, "ten were");
}

#[test]
fn bytes_written_before_failure_stay_written() {
    let page = Arc::new(Page::default());
    let module = channel(&[("out", &page)], patient());
    let (result, trace) = traced(|| module.log(call(2, "out", b"before\n")));
    assert_eq!(failure(&result), FailureKind::Trapped);
    assert!(
        trace.contains("module=\"scribe\"") && trace.contains("log channel pmix.log.test"),
        "{trace}"
    );
    assert_eq!(page.written.lock().unwrap()[0].1, b"before\n");
    assert_eq!(
        module.log(call(0, "out", b"after\n")).status,
        code::PMIX_SUCCESS,
        "the next has a fresh instance"
    );
}

#[test]
fn a_module_that_is_no_channel_is_not_available() {
    let result = load("judge", patient()).log(call(0, "out", b"x"));
    assert_eq!(failure(&result), FailureKind::Unavailable);
    assert_eq!(
        result.failure.unwrap().reason,
        "module has no role log-channel"
    );
}
