//! Routing of log requests: channels, their order, `PMIX_LOG_ONCE`, and the status of the reply.
use peal_core::log::{
    AvailableChannels, ChannelRequirement, GatewayAvailability, LogArrival, LogDestination,
    LogOrigin, LogSettings, Logged, MAX_CHANNELS, Malformed, NextChannel, channel, route,
};
use peal_model::{
    DataArray, Info, InfoFlags, Key, KeyName, LogRequest, Nspace, Proc, Rank, Status, Value, code,
    key,
};
use std::sync::Arc;

const OUT: KeyName = key::PMIX_LOG_STDOUT;
const ERR: KeyName = key::PMIX_LOG_STDERR;
const MAIL: KeyName = key::PMIX_LOG_EMAIL;
const BOARD: KeyName = KeyName("site.log.board");
const FAILS: Status = code::PMIX_ERR_NO_PERMISSIONS;

fn text(key: KeyName) -> Info {
    Info::new(key, Value::string("text"))
}

fn required(key: KeyName) -> Info {
    Info {
        flags: InfoFlags::REQUIRED,
        ..text(key)
    }
}

fn once(once: bool) -> Info {
    Info::new(key::PMIX_LOG_ONCE, Value::Bool(once))
}

fn request(data: Vec<Info>, directives: Vec<Info>) -> Arc<LogRequest> {
    let source = Some(Proc::new(Nspace::new("job").unwrap(), Rank(0)));
    Arc::new(LogRequest {
        source,
        identity: None,
        timestamp: None,
        data,
        directives,
    })
}

fn modules(channels: &[KeyName]) -> AvailableChannels {
    let of_modules = channels.iter().map(|channel| Key::from(*channel)).collect();
    AvailableChannels {
        of_modules,
        of_host: Vec::new(),
    }
}

/// Returns the channels that were tried with their destinations, and the final status, where
/// channels answer as the table says.
fn log_as(
    settings: &LogSettings,
    data: Vec<Info>,
    directives: Vec<Info>,
    answers: &[(KeyName, Status)],
) -> Result<(Vec<(String, LogDestination)>, Status), Status> {
    let of_modules = answers.iter().map(|(key, _)| Key::from(*key)).collect();
    let available = AvailableChannels {
        of_modules,
        of_host: Vec::new(),
    };
    let routed = route(
        request(data, directives),
        &available,
        settings,
        &LogArrival::default(),
    );
    let mut run = routed.map_err(|malformed| malformed.status())?;
    let mut tried = Vec::new();
    loop {
        match run.advance() {
            NextChannel::Try(pending) => {
                assert_eq!(
                    pending.steps().len(),
                    tried.len(),
                    "each sees what became of those before it"
                );
                tried.push((pending.channel().to_string(), pending.writer()));
                let answer = answers.iter().find(|(key, _)| *pending.channel() == *key);
                run = pending.finish(
                    answer.map_or(code::PMIX_ERR_NOT_SUPPORTED, |(_, status)| *status),
                    Vec::new(),
                );
            }
            NextChannel::Done(Logged { status, steps }) => {
                assert_eq!(steps.len(), tried.len());
                return Ok((tried, status));
            }
        }
    }
}

fn log(
    data: Vec<Info>,
    directives: Vec<Info>,
    answers: &[(KeyName, Status)],
) -> (Vec<String>, Status) {
    let (tried, status) = log_as(&LogSettings::default(), data, directives, answers).unwrap();
    (
        tried.into_iter().map(|(channel, _)| channel).collect(),
        status,
    )
}

const GOOD: [(KeyName, Status); 2] = [(OUT, code::PMIX_SUCCESS), (ERR, code::PMIX_SUCCESS)];
const HALF: [(KeyName, Status); 2] = [(OUT, FAILS), (ERR, code::PMIX_SUCCESS)];
const BAD: [(KeyName, Status); 2] = [(OUT, FAILS), (ERR, FAILS)];

#[test]
fn channels_named_are_tried_in_the_order_given_and_each_once() {
    assert_eq!(
        log(vec![text(ERR), text(OUT)], vec![], &GOOD),
        (vec![ERR.0.into(), OUT.0.into()], code::PMIX_SUCCESS)
    );
    assert_eq!(
        log(vec![text(OUT), text(OUT)], vec![], &GOOD),
        (vec![OUT.0.into()], code::PMIX_SUCCESS)
    );
}

#[test]
fn no_channel_named_is_a_copy_to_each_that_is_available() {
    let payload = || vec![text(KeyName("app.progress"))];
    assert_eq!(
        log(payload(), vec![], &GOOD),
        (vec![OUT.0.into(), ERR.0.into()], code::PMIX_SUCCESS)
    );
    assert_eq!(
        log(payload(), vec![], &[]),
        (vec![], code::PMIX_ERR_NOT_AVAILABLE)
    );
    // What is about how to write names no channel either.
    let about = vec![text(key::PMIX_LOG_EMAIL_ADDR), text(key::PMIX_LOG_MSG)];
    assert_eq!(log(about, vec![], &GOOD).0, [OUT.0, ERR.0]);
}

#[test]
fn all_some_none_and_none_available() {
    let both = || vec![text(OUT), text(ERR)];
    assert_eq!(log(both(), vec![], &GOOD).1, code::PMIX_SUCCESS);
    assert_eq!(log(both(), vec![], &HALF).1, code::PMIX_ERR_PARTIAL_SUCCESS);
    assert_eq!(log(both(), vec![], &BAD).1, code::PMIX_ERROR);
    assert_eq!(log(both(), vec![], &[]).1, code::PMIX_ERR_NOT_AVAILABLE);
    assert_eq!(
        log(both(), vec![], &[(ERR, code::PMIX_SUCCESS)]).1,
        code::PMIX_ERR_PARTIAL_SUCCESS
    );
    assert_eq!(log(both(), vec![], &[(ERR, FAILS)]).1, code::PMIX_ERROR);
}

#[test]
fn once_is_enough_and_stops_the_optional_ones_only() {
    let both = || vec![text(OUT), text(ERR)];
    assert_eq!(
        log(both(), vec![once(true)], &GOOD),
        (vec![OUT.0.into()], code::PMIX_SUCCESS)
    );
    assert_eq!(
        log(both(), vec![once(true)], &HALF),
        (vec![OUT.0.into(), ERR.0.into()], code::PMIX_SUCCESS)
    );
    assert_eq!(log(both(), vec![once(true)], &BAD).1, code::PMIX_ERROR);
    let last_required = || vec![text(OUT), required(ERR)];
    assert_eq!(
        log(last_required(), vec![once(true)], &GOOD).0,
        [OUT.0, ERR.0]
    );
    let site = LogSettings {
        once: true,
        ..LogSettings::default()
    };
    assert_eq!(log_as(&site, both(), vec![], &GOOD).unwrap().0.len(), 1);
    assert_eq!(
        log_as(&site, both(), vec![once(false)], &GOOD)
            .unwrap()
            .0
            .len(),
        2,
        "the requester knows better"
    );
}

#[test]
fn a_required_channel_that_fails_fails_the_request() {
    assert_eq!(
        log(vec![required(OUT), text(ERR)], vec![], &HALF).1,
        code::PMIX_ERROR
    );
    assert_eq!(
        log(vec![text(OUT), required(ERR)], vec![], &HALF).1,
        code::PMIX_ERR_PARTIAL_SUCCESS
    );
    assert_eq!(
        log(vec![text(ERR), required(OUT)], vec![once(true)], &HALF).1,
        code::PMIX_ERROR
    );
}

#[test]
fn required_channel_that_is_missing_fails_the_request() {
    let failed = code::PMIX_ERR_OPERATION_FAILED;
    assert_eq!(log(vec![required(OUT)], vec![], &[]).1, failed);
    assert_eq!(log(vec![text(ERR), required(OUT)], vec![], &[]).1, failed);
    assert_eq!(
        log(
            vec![text(ERR), required(OUT)],
            vec![],
            &[(ERR, code::PMIX_SUCCESS)]
        )
        .1,
        failed
    );
    let marked = LogSettings {
        order: vec![(OUT.into(), ChannelRequirement::Required)],
        ..LogSettings::default()
    };
    let payload = vec![text(KeyName("app.progress"))];
    assert_eq!(log_as(&marked, payload, vec![], &[]).unwrap().1, failed);
}

#[test]
fn no_channel_named_means_those_of_the_host_too() {
    let available = AvailableChannels {
        of_host: vec![OUT.into(), ERR.into()],
        ..modules(&[MAIL, ERR])
    };
    let tried = |arrival: LogArrival| {
        let payload = request(vec![text(KeyName("app.progress"))], vec![]);
        let mut next = route(payload, &available, &LogSettings::default(), &arrival)
            .unwrap()
            .advance();
        let mut tried = Vec::new();
        while let NextChannel::Try(pending) = next {
            tried.push((pending.channel().to_string(), pending.writer()));
            next = pending.finish(code::PMIX_SUCCESS, Vec::new()).advance();
        }
        tried
    };
    let of_modules = || {
        vec![
            (MAIL.0.to_owned(), LogDestination::Module),
            (ERR.0.to_owned(), LogDestination::Module),
        ]
    };
    let all = [of_modules(), vec![(OUT.0.to_owned(), LogDestination::Host)]].concat();
    assert_eq!(tried(LogArrival::default()), all);
    assert_eq!(
        tried(LogArrival {
            origin: LogOrigin::Host,
            ..LogArrival::default()
        }),
        of_modules(),
        "never back up"
    );
}

#[test]
fn gateway_gets_the_channel_and_writes_to_no_other() {
    let payload = || request(vec![text(KeyName("app.progress"))], vec![]);
    let settings = LogSettings {
        order: vec![(ERR.into(), ChannelRequirement::Required)],
        ..LogSettings::default()
    };
    let away = LogArrival {
        gateway: GatewayAvailability::Elsewhere,
        ..LogArrival::default()
    };
    let NextChannel::Try(sent) = route(payload(), &modules(&[]), &settings, &away)
        .unwrap()
        .advance()
    else {
        panic!()
    };
    assert_eq!(
        (sent.channel(), sent.writer()),
        (&ERR.into(), LogDestination::Gateway)
    );
    let at_gateway = LogArrival {
        origin: LogOrigin::OtherServer,
        chosen: Some(ERR.into()),
        ..LogArrival::default()
    };
    let run = route(
        sent.request(),
        &modules(&[OUT, ERR]),
        &LogSettings::default(),
        &at_gateway,
    )
    .unwrap();
    let NextChannel::Try(pending) = run.advance() else {
        panic!()
    };
    assert_eq!(
        (pending.channel(), pending.writer()),
        (&ERR.into(), LogDestination::Module)
    );
    let NextChannel::Done(done) = pending.finish(code::PMIX_SUCCESS, Vec::new()).advance() else {
        panic!()
    };
    assert_eq!((done.status, done.steps.len()), (code::PMIX_SUCCESS, 1));
    // That it has no such channel it says as it is, whatever its own site requires: others may be asked then.
    let run = route(payload(), &modules(&[]), &settings, &at_gateway).unwrap();
    let NextChannel::Try(pending) = run.advance() else {
        panic!()
    };
    let NextChannel::Done(done) = pending
        .finish(code::PMIX_ERR_NOT_SUPPORTED, Vec::new())
        .advance()
    else {
        panic!()
    };
    assert_eq!(done.status, code::PMIX_ERR_NOT_AVAILABLE);
}

#[test]
fn syslog_is_requested_as_global_beyond_this_server() {
    let data = vec![text(key::PMIX_LOG_SYSLOG), text(KeyName("app.progress"))];
    let run = route(
        request(data, vec![]),
        &modules(&[key::PMIX_LOG_SYSLOG]),
        &LogSettings::default(),
        &LogArrival::default(),
    );
    let NextChannel::Try(host) = run.unwrap().advance() else {
        panic!()
    };
    assert_eq!(
        (host.channel(), host.writer()),
        (&key::PMIX_LOG_GLOBAL_SYSLOG.into(), LogDestination::Host)
    );
    assert_eq!(
        host.request().data,
        [
            text(key::PMIX_LOG_GLOBAL_SYSLOG),
            text(KeyName("app.progress"))
        ]
    );
    let NextChannel::Try(module) = host
        .finish(code::PMIX_ERR_NOT_SUPPORTED, Vec::new())
        .advance()
    else {
        panic!()
    };
    assert_eq!(
        (module.channel(), module.writer()),
        (&key::PMIX_LOG_SYSLOG.into(), LogDestination::Module)
    );
    assert_eq!(
        module.request().data[0].key,
        Key::from(key::PMIX_LOG_SYSLOG)
    );
    let NextChannel::Done(done) = module.finish(code::PMIX_SUCCESS, Vec::new()).advance() else {
        panic!()
    };
    assert_eq!(
        (done.status, &*done.steps[0].name),
        (code::PMIX_SUCCESS, key::PMIX_LOG_SYSLOG.0)
    );
}

#[test]
fn malformed_data_log_nothing() {
    let flag = |key, truth| Info::new(key, Value::Bool(truth));
    for data in [
        vec![],
        vec![text(OUT), flag(ERR, true)],
        vec![Info::new(OUT, Value::String(None))],
        vec![text(MAIL)],
        vec![flag(key::PMIX_LOG_SYSLOG, true)],
    ] {
        let refused = log_as(&LogSettings::default(), data.clone(), vec![], &GOOD);
        assert_eq!(refused, Err(code::PMIX_ERR_BAD_PARAM), "{data:?}");
    }
    let array = Info::new(
        MAIL,
        Value::DataArray(DataArray::infos([text(key::PMIX_LOG_EMAIL_MSG)])),
    );
    let records = || {
        [
            flag(key::PMIX_LOG_JOB_RECORD, true),
            text(key::PMIX_LOG_JOB_RECORD),
        ]
    };
    for good in records()
        .into_iter()
        .chain([array, flag(key::PMIX_LOG_GLOBAL_DATASTORE, true)])
    {
        assert!(log_as(&LogSettings::default(), vec![good], vec![], &GOOD).is_ok());
    }
    // A false one is not chosen.
    let (tried, _) = log(
        vec![text(OUT), flag(key::PMIX_LOG_JOB_RECORD, false)],
        vec![],
        &GOOD,
    );
    assert_eq!(tried, [OUT.0]);
}

#[test]
fn unknown_channels_go_to_host_and_site_channels_do_not() {
    let settings = LogSettings::default();
    let data = vec![
        text(BOARD),
        text(KeyName("pmix.log.future")),
        text(key::PMIX_LOG_LOCAL_SYSLOG),
    ];
    let (tried, _) = log_as(&settings, data, vec![], &[(BOARD, code::PMIX_SUCCESS)]).unwrap();
    let writers: Vec<LogDestination> = tried.into_iter().map(|(_, writer)| writer).collect();
    assert_eq!(
        writers,
        [
            LogDestination::Module,
            LogDestination::Host,
            LogDestination::Host
        ]
    );
}

#[test]
fn each_channel_gets_only_its_data_and_payload() {
    let future = KeyName("pmix.log.future");
    let payload = || [text(KeyName("app.progress")), text(key::PMIX_LOG_MSG)];
    let about = || vec![text(key::PMIX_LOG_EMAIL_SUBJECT)];
    // One that a module serves, one that only the host knows, and a site's own, whose key is like no other channel's.
    let named = [text(OUT), text(future), text(BOARD)];
    let asked = request(named.iter().cloned().chain(payload()).collect(), about());
    let mut run = route(
        asked.clone(),
        &modules(&[OUT, BOARD]),
        &LogSettings::default(),
        &LogArrival::default(),
    )
    .unwrap();
    for (info, writer) in named.iter().zip([
        LogDestination::Module,
        LogDestination::Host,
        LogDestination::Module,
    ]) {
        let NextChannel::Try(pending) = run.advance() else {
            panic!()
        };
        assert_eq!((pending.channel(), pending.writer()), (&info.key, writer));
        let seen = pending.request();
        assert_eq!(seen.data, [&[info.clone()][..], &payload()].concat());
        assert_eq!(
            (&seen.source, &seen.directives),
            (&asked.source, &asked.directives)
        );
        run = pending.finish(code::PMIX_SUCCESS, Vec::new());
    }
    // Where the site has no such channel, its key is an application's like any other.
    let run = route(
        asked,
        &modules(&[OUT]),
        &LogSettings::default(),
        &LogArrival::default(),
    )
    .unwrap();
    let NextChannel::Try(out) = run.advance() else {
        panic!()
    };
    assert_eq!(
        out.request().data,
        [&[text(OUT), text(BOARD)][..], &payload()].concat()
    );
}

#[test]
fn a_request_names_no_more_channels_than_it_may_however_often() {
    let named =
        |count: usize| (0..count).map(|at| text_of(Key::new(&format!("pmix.log.{at}")).unwrap()));
    let routed = |data: Vec<Info>| {
        route(
            request(data, vec![]),
            &modules(&[]),
            &LogSettings::default(),
            &LogArrival::default(),
        )
    };
    assert!(routed(named(MAX_CHANNELS).collect()).is_ok());
    let error = routed(named(MAX_CHANNELS + 1).collect()).unwrap_err();
    assert_eq!(
        (&error, error.status()),
        (&Malformed::TooMany, code::PMIX_ERR_BAD_PARAM)
    );
    // The same ones again are no more, and payload is none.
    let again = named(MAX_CHANNELS)
        .chain(named(MAX_CHANNELS))
        .chain([text(KeyName("app.progress"))]);
    let mut next = routed(again.collect()).unwrap().advance();
    let mut tried = 0;
    while let NextChannel::Try(pending) = next {
        tried += 1;
        next = pending.finish(code::PMIX_SUCCESS, Vec::new()).advance();
    }
    assert_eq!(tried, MAX_CHANNELS);
    assert!(routed(named(300_000).collect()).is_err(), "at once");
}

fn text_of(key: Key) -> Info {
    Info::new(key, Value::string("text"))
}

#[test]
fn site_order_is_default_and_its_marks_always_hold() {
    let order = vec![
        (
            channel("LOCAL_SYSLOG").unwrap(),
            ChannelRequirement::Optional,
        ),
        (channel("stderr").unwrap(), ChannelRequirement::Required),
        (channel("pager").unwrap(), ChannelRequirement::Optional),
    ];
    let settings = LogSettings {
        order,
        ..LogSettings::default()
    };
    let payload = vec![text(KeyName("app.progress"))];
    let (tried, status) = log_as(&settings, payload, vec![], &GOOD).unwrap();
    let names: Vec<&str> = tried.iter().map(|(channel, _)| channel.as_str()).collect();
    assert_eq!(
        names,
        [
            "pmix.log.lsys",
            "pmix.log.stderr",
            "pmix.log.pager",
            "pmix.log.stdout"
        ]
    );
    assert_eq!(status, code::PMIX_ERR_PARTIAL_SUCCESS);
    let bad = [(OUT, code::PMIX_SUCCESS), (ERR, FAILS)];
    assert_eq!(
        log_as(&settings, vec![text(OUT), text(ERR)], vec![], &bad)
            .unwrap()
            .1,
        code::PMIX_ERROR
    );
    assert_eq!(channel("site.log.board").unwrap(), Key::from(BOARD));
}
