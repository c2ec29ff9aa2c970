//! Directives of log requests for the server: once, timestamps, and duplicate suppression.
use peal_core::{
    MonotonicTime,
    log::{
        AvailableChannels, LogArrival, LogOrigin, LogSettings, Malformed, NextChannel,
        directives::{Directives, MAX_PAIR_TEXT},
        duplicates::{Aggregation, DuplicateFilter, DuplicateKey},
        route,
    },
};
use peal_model::{
    Info, Key, KeyName, LogRequest, Nspace, Proc, Rank, Status, UserIdentity, Value, code, key,
};
use std::{sync::Arc, time::Duration};

const OUT: KeyName = key::PMIX_LOG_STDOUT;
const MAIL: KeyName = key::PMIX_LOG_EMAIL;
const NOW: u64 = 1_700_000_000;

fn arrived() -> LogArrival {
    LogArrival {
        at: NOW,
        ..LogArrival::default()
    }
}

fn modules(channels: &[KeyName]) -> AvailableChannels {
    let of_modules = channels.iter().map(|channel| Key::from(*channel)).collect();
    AvailableChannels {
        of_modules,
        of_host: Vec::new(),
    }
}

fn info(key: KeyName, value: Value) -> Info {
    Info::new(key, value)
}

fn truth(key: KeyName, truth: bool) -> Info {
    info(key, Value::Bool(truth))
}

fn text(key: KeyName, text: &str) -> Info {
    info(key, Value::string(text))
}

fn pair(name: &str, value: &str) -> Vec<Info> {
    vec![
        text(key::PMIX_LOG_KEY, name),
        text(key::PMIX_LOG_VAL, value),
    ]
}

fn request(job: &str, data: Vec<Info>, directives: Vec<Info>) -> LogRequest {
    let source = Some(Proc::new(Nspace::new(job).unwrap(), Rank(0)));
    LogRequest {
        source,
        identity: Some(UserIdentity {
            uid: 1000,
            gid: 100,
        }),
        timestamp: None,
        data,
        directives,
    }
}

fn asking(directives: Vec<Info>) -> LogRequest {
    request("job", vec![text(OUT, "text")], directives)
}

#[test]
fn a_directive_of_the_wrong_type_logs_nothing() {
    let number = || Value::Int(1);
    for malformed in [
        info(key::PMIX_LOG_ONCE, Value::Pointer),
        info(key::PMIX_LOG_AGG, Value::string("maybe")),
        info(key::PMIX_LOG_KEY, number()),
        info(key::PMIX_LOG_VAL, Value::String(None)),
        info(key::PMIX_LOG_GENERATE_TIMESTAMP, Value::Pointer),
        info(key::PMIX_LOG_TIMESTAMP_OUTPUT, Value::string("%H:%M")),
        info(key::PMIX_LOG_TIMESTAMP, Value::string("now")),
        info(key::PMIX_LOG_TIMESTAMP, Value::Int64(-1)),
    ] {
        let in_data = request("job", vec![text(OUT, "text"), malformed.clone()], vec![]);
        for asked in [asking(vec![malformed.clone()]), in_data] {
            let error = route(
                Arc::new(asked),
                &modules(&[OUT]),
                &LogSettings::default(),
                &arrived(),
            )
            .unwrap_err();
            assert_eq!(
                error,
                Malformed::Type(malformed.key.clone()),
                "{malformed:?}"
            );
            assert_eq!(error.status(), code::PMIX_ERR_BAD_PARAM);
        }
    }
    let long = "x".repeat(MAX_PAIR_TEXT + 1);
    let error = Directives::read(&asking(pair("name", &long))).unwrap_err();
    assert_eq!(
        (error.status(), error),
        (
            code::PMIX_ERR_BAD_PARAM,
            Malformed::Long(key::PMIX_LOG_VAL.into())
        )
    );
    assert!(
        Directives::read(&asking(pair("name", &long[1..])))
            .unwrap()
            .pair
            .is_some()
    );
}

#[test]
fn later_directives_override_and_missing_value_means_true() {
    let read = |data, directives| Directives::read(&request("job", data, directives)).unwrap();
    let once = |yes| truth(key::PMIX_LOG_ONCE, yes);
    assert_eq!(read(vec![], vec![]), Directives::default());
    assert_eq!(
        read(vec![], vec![once(true), once(false)]).once,
        Some(false)
    );
    assert_eq!(read(vec![once(true)], vec![once(false)]).once, Some(true));
    assert_eq!(
        read(vec![], vec![info(key::PMIX_LOG_ONCE, Value::Undef)]).once,
        Some(true)
    );
}

/// Returns the timestamp with which a request reaches its channels.
fn stamped(timestamp: Option<u64>, directives: Vec<Info>) -> Option<u64> {
    let asked = LogRequest {
        timestamp,
        ..asking(directives)
    };
    let run = route(
        Arc::new(asked),
        &modules(&[OUT]),
        &LogSettings::default(),
        &arrived(),
    )
    .unwrap();
    let NextChannel::Try(pending) = run.advance() else {
        panic!()
    };
    pending.request().timestamp
}

#[test]
fn missing_requested_time_is_time_of_arrival() {
    let given = || info(key::PMIX_LOG_TIMESTAMP, Value::Time(5));
    assert_eq!(stamped(None, vec![]), None);
    for wants in [
        key::PMIX_LOG_GENERATE_TIMESTAMP,
        key::PMIX_LOG_TIMESTAMP_OUTPUT,
    ] {
        assert_eq!(stamped(None, vec![truth(wants, true)]), Some(NOW));
        assert_eq!(stamped(None, vec![truth(wants, false)]), None);
        assert_eq!(
            stamped(None, vec![truth(wants, true), given()]),
            Some(5),
            "the requester's own counts more"
        );
        assert_eq!(
            stamped(Some(7), vec![truth(wants, true), given()]),
            Some(7),
            "as does what its library says"
        );
    }
    assert_eq!(stamped(None, vec![given()]), Some(5));
}

fn likeness_of(request: &LogRequest) -> Option<DuplicateKey> {
    route(
        Arc::new(request.clone()),
        &modules(&[OUT, MAIL]),
        &LogSettings::default(),
        &arrived(),
    )
    .unwrap()
    .likeness()
}

#[test]
fn pair_identifies_duplicates_of_one_job_on_same_channels() {
    let alike = |one: &LogRequest, other: &LogRequest| {
        likeness_of(one).is_some_and(|one| Some(one) == likeness_of(other))
    };
    let first = asking(pair("help.txt", "no-route"));
    let other_words = request(
        "job",
        vec![text(OUT, "in other words")],
        pair("help.txt", "no-route"),
    );
    assert!(alike(&first, &other_words), "whatever else they say");
    let explicit = asking(
        [
            vec![truth(key::PMIX_LOG_AGG, true)],
            pair("help.txt", "no-route"),
        ]
        .concat(),
    );
    assert!(alike(&first, &explicit));
    let to_err = request(
        "job",
        vec![text(key::PMIX_LOG_STDERR, "text")],
        pair("help.txt", "no-route"),
    );
    let of_others = request("other", first.data.clone(), first.directives.clone());
    for different in [
        asking(pair("help.txt", "no-hosts")),
        asking(pair("other.txt", "no-route")),
        to_err,
        of_others,
    ] {
        assert!(!alike(&first, &different), "{different:?}");
    }
    let unwilling = asking(
        [
            pair("help.txt", "no-route"),
            vec![truth(key::PMIX_LOG_AGG, false)],
        ]
        .concat(),
    );
    for without in [
        unwilling,
        asking(vec![truth(key::PMIX_LOG_AGG, true)]),
        asking(vec![text(key::PMIX_LOG_KEY, "k")]),
    ] {
        assert_eq!(likeness_of(&without), None, "{without:?}");
    }
}

const WINDOW: Duration = Duration::from_secs(5);

/// A server that logs what its duplicate filter lets through, and the summaries of the filter.
struct DuplicateLog {
    book: DuplicateFilter,
    logged: Vec<String>,
}

impl DuplicateLog {
    fn new(entries: usize) -> DuplicateLog {
        DuplicateLog {
            book: DuplicateFilter::new(Aggregation {
                window: WINDOW,
                entries,
            }),
            logged: Vec::new(),
        }
    }

    fn write(&mut self, requests: impl IntoIterator<Item = LogRequest>) {
        self.logged.extend(requests.into_iter().flat_map(|request| {
            let words = |info: &Info| format!("{}: {}", info.key, info.value.as_str().unwrap());
            request.data.iter().map(words).collect::<Vec<_>>()
        }));
    }

    fn log(&mut self, name: &str, becomes: Status, now: u64) -> Status {
        let asked = asking(pair(name, "x"));
        let likeness = likeness_of(&asked).unwrap();
        if let Some(told) = self.book.repeats(&likeness) {
            return told;
        }
        let forgotten = self
            .book
            .logged(likeness, &asked, becomes, MonotonicTime(now));
        self.write(forgotten.map(|told| told.request));
        self.write([asked]);
        becomes
    }

    fn close(&mut self, now: u64) {
        while let Some(told) = self.book.close(MonotonicTime(now)) {
            self.write([told.request]);
        }
    }

    fn taken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.logged)
    }
}

const TEXT: &str = "pmix.log.stdout: text";

#[test]
fn duplicates_are_counted_and_logged_after_window() {
    let mut stage = DuplicateLog::new(8);
    let good = code::PMIX_SUCCESS;
    let partial = code::PMIX_ERR_PARTIAL_SUCCESS;
    assert_eq!(stage.log("a", good, 0), good);
    assert_eq!(stage.log("b", partial, 1000), partial);
    assert_eq!(
        (
            stage.log("a", code::PMIX_ERROR, 2000),
            stage.log("a", code::PMIX_ERROR, 3000)
        ),
        (good, good)
    );
    assert_eq!(
        stage.log("b", good, 3000),
        partial,
        "each is told what the first was told"
    );
    assert_eq!(stage.taken(), [TEXT, TEXT]);
    assert_eq!(stage.book.deadline(), Some(MonotonicTime(5000)));
    stage.close(4999);
    assert!(stage.taken().is_empty());
    stage.close(5000);
    assert_eq!(
        stage.taken(),
        ["pmix.log.stdout: 2 more of the same: a / x"]
    );
    // Where there were any, more are expected.
    assert_eq!(stage.log("a", good, 9000), good);
    stage.close(10_000);
    assert_eq!(
        stage.taken(),
        [
            "pmix.log.stdout: 1 more of the same: b / x",
            "pmix.log.stdout: 1 more of the same: a / x"
        ]
    );
    // Where there were none for as long, the next one is logged.
    stage.close(15_000);
    assert_eq!((stage.book.deadline(), stage.taken()), (None, Vec::new()));
    stage.log("a", good, 15_000);
    assert_eq!(stage.taken(), [TEXT]);
}

#[test]
fn failed_write_is_tried_again() {
    let mut stage = DuplicateLog::new(8);
    for status in [
        code::PMIX_ERROR,
        code::PMIX_ERR_NOT_AVAILABLE,
        code::PMIX_ERR_TIMEOUT,
        code::PMIX_SUCCESS,
    ] {
        assert_eq!(stage.log("a", status, 0), status);
    }
    assert_eq!(stage.log("a", code::PMIX_ERROR, 0), code::PMIX_SUCCESS);
}

#[test]
fn the_book_is_no_longer_than_it_may_be() {
    let mut stage = DuplicateLog::new(2);
    for (name, now) in [("a", 0), ("b", 1), ("b", 2), ("a", 2)] {
        stage.log(name, code::PMIX_SUCCESS, now);
    }
    stage.taken();
    stage.log("c", code::PMIX_SUCCESS, 3);
    assert_eq!(
        stage.taken(),
        ["pmix.log.stdout: 1 more of the same: a / x", TEXT],
        "the oldest is over"
    );
    let rest = stage.book.close_all();
    stage.write(rest.into_iter().map(|told| told.request));
    assert_eq!(
        stage.taken(),
        ["pmix.log.stdout: 1 more of the same: b / x"]
    );
    assert_eq!(stage.book.deadline(), None);
    for none in [
        Aggregation {
            window: Duration::ZERO,
            entries: 8,
        },
        Aggregation {
            window: WINDOW,
            entries: 0,
        },
    ] {
        let mut stage = DuplicateLog {
            book: DuplicateFilter::new(none),
            logged: Vec::new(),
        };
        for _ in 0..2 {
            stage.log("a", code::PMIX_SUCCESS, 0);
        }
        assert_eq!(stage.taken(), [TEXT, TEXT], "{none:?}");
    }
}

#[test]
fn their_number_is_dressed_as_they_are_and_not_mailed() {
    let prefix = vec![
        truth(key::PMIX_LOG_XML_OUTPUT, true),
        info(key::PMIX_LOG_SYSLOG_PRI, Value::Int(3)),
    ];
    let array = info(
        MAIL,
        Value::DataArray(peal_model::DataArray::infos([text(
            key::PMIX_LOG_EMAIL_MSG,
            "hello",
        )])),
    );
    let large = text(key::PMIX_LOG_TAG_OUTPUT, &"x".repeat(1000));
    let more = vec![large, text(key::PMIX_LOG_EMAIL_SUBJECT, "about")];
    let asked = request(
        "job",
        vec![array, text(OUT, "text")],
        [prefix.clone(), more, pair("a", "\n")].concat(),
    );
    let mut book = DuplicateFilter::new(Aggregation::default());
    let likeness = likeness_of(&asked).unwrap();
    assert_eq!(
        book.logged(
            likeness.clone(),
            &asked,
            code::PMIX_SUCCESS,
            MonotonicTime(0)
        ),
        None
    );
    book.repeats(&likeness);
    let told = book.close_all();
    assert_eq!(
        told[0].request.data,
        [text(OUT, "1 more of the same: a / \n")]
    );
    let request = &told[0].request;
    assert_eq!(
        (&request.directives, &request.source, request.identity),
        (&prefix, &asked.source, asked.identity)
    );
    assert_eq!(told.len(), 1);
}

#[test]
fn duplicate_count_goes_to_channels_of_the_duplicates_only() {
    let asked = Arc::new(asking(pair("a", "x")));
    let mut book = DuplicateFilter::new(Aggregation::default());
    for origin in [LogOrigin::Client, LogOrigin::Host] {
        let arrival = LogArrival {
            origin,
            ..arrived()
        };
        let likeness = || {
            route(
                asked.clone(),
                &modules(&[OUT]),
                &LogSettings::default(),
                &arrival,
            )
            .unwrap()
            .likeness()
            .unwrap()
        };
        assert_eq!(
            book.repeats(&likeness()),
            None,
            "what came from elsewhere is no duplicate"
        );
        assert_eq!(
            book.logged(likeness(), &asked, code::PMIX_SUCCESS, MonotonicTime(0)),
            None
        );
        book.repeats(&likeness());
    }
    let origins: Vec<LogOrigin> = book
        .close_all()
        .into_iter()
        .map(|told| told.origin)
        .collect();
    assert_eq!(origins, [LogOrigin::Client, LogOrigin::Host]);
}
