//! Tests of the HTML report: it shows the whole trail, and names from outside are text on it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{
    AdmissionDenial, AuditEntry, AuditTrail, CommitThread, DecisionEntry, ModuleFacts, TrailReport,
    TrailSource, page,
};
use peal_core::policy::{DecidedBy, DeniedVerdict, Verdict, reason};
use peal_model::{
    ConnectionKind, ConnectionSubject, ControlExtent, EventSubject, Info, JobControlSubject, Key,
    PeerInfo, PolicyRequest, PolicySubject, Range, Status, TargetProc, UserIdentity, Value, code,
};
use peal_sandbox::{Digest, Grants, Module, ModuleLimits, PolicyCall, Services};
use peal_store::Filter;
use std::{collections::BTreeSet, sync::Arc, sync::mpsc, time::Duration};
use support::{Place, component, engine, event, limits, proc, request};

/// A hostile name: it closes any markup around it and reverses the text direction.
const EVIL: &str =
    "x'\"></td></title></style><script>alert(1)</script><img src=x onerror=alert(1)>&lt;\u{202e}\\";

fn evil(what: &str) -> String {
    format!("{what}{EVIL}")
}

/// The same for the name of a job, which may not have a mark of writing direction.
fn evil_name(what: &str) -> String {
    evil(what).replace('\u{202e}', "")
}

fn report(place: &Place, filter: &Filter) -> TrailReport {
    TrailReport::of(&TrailSource::open(&place.path("audit.db")).unwrap(), filter).unwrap()
}

fn shown(place: &Place) -> String {
    page(
        &report(place, &Filter::default()),
        &evil("file"),
        &evil("filter"),
    )
}

/// A module with hostile names.
fn load(audit: &AuditTrail, name: &str, kind: &str, limits: ModuleLimits) -> Module {
    let bytes = component(kind);
    let facts = ModuleFacts {
        name: evil(name),
        owner: evil("owner"),
        mode: "active".to_owned(),
        digest: Digest::of(&bytes),
        grants: Grants::all(),
        limits,
        sinks: vec![evil("sink")],
        directories: vec![evil("directory")],
    };
    let recorder = Some(audit.recorder(&facts, bytes.as_slice().into()).unwrap());
    Module::load(
        engine(),
        name,
        &bytes,
        &Grants::all(),
        limits,
        Services {
            recorder,
            ..Services::default()
        },
    )
    .unwrap()
}

#[test]
fn checked_job_control_is_named_as_such() {
    for (extent, what) in [
        (ControlExtent::Full, "job-control"),
        (ControlExtent::Check, "job-control, checked only"),
    ] {
        let subject = JobControlSubject {
            extent,
            ..JobControlSubject::default()
        };
        let asked = request(PolicySubject::JobControl(subject));
        let entry = DecisionEntry::new(1, asked, &support::granted());
        assert_eq!(AuditEntry::Decision(entry).gist(None).what, what);
    }
}

fn decide(audit: &AuditTrail, asked: PolicyRequest, verdict: &Verdict) {
    let (tell, told) = mpsc::channel();
    audit.decide(
        DecisionEntry::new(1, Arc::new(asked), verdict),
        CommitThread::Caller,
        move |safe| tell.send(safe).unwrap(),
    );
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// A trail in which everything that has a name has an evil one.
fn fill(place: &Place) {
    let audit = place.audit();
    let tight = ModuleLimits {
        output_bytes: 20_000,
        ..limits()
    };
    let module = load(&audit, "module", "moody", tight);
    for code in [0, -1, 0, -3, -4] {
        module.handle(event(code, Vec::new()));
    }
    let denied = |by| {
        Verdict::Denied(DeniedVerdict {
            by,
            status: Status(-77),
            reasons: vec![reason(evil("reason"))],
        })
    };
    let requester = Some(proc(&evil_name("job"), 1));
    let target = TargetProc {
        proc: proc(&evil_name("target"), 0),
        owner: Some(UserIdentity { uid: 1, gid: 1 }),
    };
    let asked = |subject| PolicyRequest {
        requester: requester.clone(),
        targets: vec![target.clone()],
        ..PolicyRequest::clone(&request(subject))
    };
    for _ in 0..3 {
        decide(
            &audit,
            asked(PolicySubject::JobControl(JobControlSubject::default())),
            &denied(DecidedBy::Policy(evil("policy"))),
        );
    }
    let news = PolicySubject::Event(EventSubject {
        code: code::PMIX_ERR_PROC_ABORTED,
        range: Range::Session,
        infos: Vec::new(),
    });
    decide(&audit, asked(news), &denied(DecidedBy::Default));
    decide(
        &audit,
        asked(PolicySubject::JobControl(JobControlSubject::default())),
        &support::granted(),
    );
    audit.mention(AuditEntry::Denied(AdmissionDenial {
        uid: None,
        job: Some(evil("stranger")),
        reason: evil("turned away"),
        ..AdmissionDenial::default()
    }));
    let version = 7;
    let cause = evil("cause");
    audit.note(AuditEntry::Deployed {
        version,
        cause,
        changes: (0..99).map(|n| evil(&format!("change{n}"))).collect(),
    });
    audit.note(AuditEntry::Refused {
        reasons: vec![evil("refused")],
    });
}

/// The names of elements and of their attributes, where all of the page is as it should be.
fn markup(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut tags = BTreeSet::new();
    let mut attributes = BTreeSet::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..rest[at..].find('>').unwrap() + at];
        rest = &rest[at + tag.len() + 2..];
        let mut parts = tag.trim_end_matches('/').splitn(2, ' ');
        tags.insert(parts.next().unwrap().trim_start_matches('/').to_owned());
        let mut values = parts
            .next()
            .filter(|_| !tag.starts_with('!'))
            .unwrap_or_default()
            .split('"');
        while let (Some(name), Some(_value)) = (values.next(), values.next()) {
            attributes.insert(name.trim().trim_end_matches('=').to_owned());
        }
    }
    (tags, attributes)
}

#[test]
fn chosen_names_are_shown_as_text() {
    let place = Place::new();
    fill(&place);
    let page = shown(&place);
    let text = "x&#39;&quot;&gt;&lt;/td&gt;&lt;/title&gt;&lt;/style&gt;&lt;script&gt;alert(1)&lt;/script&gt;\
                &lt;img src=x onerror=alert(1)&gt;&amp;lt;\\u{202e}\\";
    for what in [
        "file",
        "filter",
        "module",
        "owner",
        "sink",
        "directory",
        "reason",
        "job",
        "target",
        "stranger",
        "turned away",
        "cause",
        "change0",
        "refused",
    ] {
        let is_name = ["job", "target"].contains(&what);
        let text = if is_name {
            text.replace("\\u{202e}", "")
        } else {
            text.to_owned()
        };
        assert!(
            page.contains(&format!("{what}{text}")),
            "{what} is not there as it should be"
        );
    }
    // A policy's name is quoted already.
    assert!(
        page.contains("policy &quot;policyx&#39;\\&quot;&gt;&lt;/td&gt;"),
        "{page}"
    );
    let (tags, attributes) = markup(&page);
    let expected = "!doctype b body caption code desc details div figcaption figure footer h1 h2 head header html li line \
                    link main meta p rect span style summary svg table tbody td text th thead title tr ul";
    assert_eq!(
        tags,
        expected.split_whitespace().map(str::to_owned).collect()
    );
    let expected = "aria-labelledby charset class content height href http-equiv id lang name rel role scope text-anchor \
                    viewBox width x x1 x2 y y1 y2";
    assert_eq!(
        attributes,
        expected.split_whitespace().map(str::to_owned).collect()
    );
}

#[test]
fn a_page_needs_nothing_else() {
    let place = Place::new();
    fill(&place);
    let page = page(&report(&place, &Filter::default()), "a file", "");
    let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"";
    assert!(page.find(policy).unwrap() < page.find("<style>").unwrap());
    // The trail's key may have two slashes in a row.
    for outside in [
        "src=", "url(", "@import", "http:", "https:", "\"//", "'//", "=//", "(//",
    ] {
        // Names contain the first, as text.
        let found = page.replace("img src=x", "").contains(outside);
        assert!(!found, "{outside}");
    }
    assert_eq!(page.matches("href=").count(), 1, "the icon, which is none");
}

#[test]
fn report_lists_reach_of_modules_and_denied_requests() {
    let place = Place::new();
    fill(&place);
    let found = report(&place, &Filter::default());
    let sum = found.timeline.sum();
    assert_eq!((sum.granted, sum.denied), (1, 5));
    assert!(sum.calls >= 5 && sum.failures >= 2, "{sum:?}");
    assert_eq!(sum.failures, found.failures.values().sum::<u64>());
    assert_eq!(
        found
            .limits
            .keys()
            .map(|limit| limit.name())
            .collect::<Vec<_>>(),
        ["memory_bytes", "output_bytes"],
        "{found:?}"
    );
    let page = shown(&place);
    let digest = Digest::of(&component("moody")).to_string();
    assert!(page.contains(&digest));
    let all = "logging, clock, notify, registration, sink, state, random, files, job-control, log-request, resource-usage, wasi";
    assert!(
        page.contains(all) && page.contains("output_bytes 20000"),
        "{page}"
    );
    assert!(page.contains("event PMIX_ERR_PROC_ABORTED (-"), "{page}");
    for section in [
        "modules",
        "decisions",
        "denials",
        "limits",
        "failures",
        "changes",
    ] {
        assert!(
            page.contains(&format!("<h2 id=\"{section}\">")),
            "{section}"
        );
    }
    assert_eq!(page.matches("<svg role=\"img\"").count(), 4);
    assert_eq!(page.matches("<desc id=").count(), 4);
    assert!(page.contains("1 granted and 5 denied from "), "{page}");
    assert!(
        page.contains("and 80 more"),
        "lines of one record are bounded"
    );
    // Only what is wanted.
    let wanted = Filter {
        uid: Some(4711),
        ..Filter::default()
    };
    assert_eq!(report(&place, &wanted).records(), 0);
}

#[test]
fn counted_calls_of_a_policy_are_calls_and_no_denials() {
    let place = Place::new();
    let audit = place.audit();
    let module = load(&audit, "judge", "judge", limits());
    let connection = |ask: i32| PolicyCall {
        number: 1,
        request: request(PolicySubject::Connection(ConnectionSubject {
            kind: ConnectionKind::Tool,
            peer: PeerInfo {
                pid: Some(1),
                release: "4.2.2".to_owned(),
            },
            infos: vec![Info::new(Key::new("test.ask").unwrap(), Value::Int(ask))],
        })),
        steps: Arc::default(),
    };
    const REFUSES: i32 = 2;
    const FAILS: i32 = 4;
    for ask in [REFUSES, FAILS].into_iter().flat_map(|ask| [ask; 3]) {
        module.decide(connection(ask));
    }
    drop((audit, module));
    let found = report(&place, &Filter::default());
    let sum = found.timeline.sum();
    assert_eq!((sum.denied, sum.failures), (0, 3), "{found:?}");
    assert_eq!(found.count("refusals"), 2, "{found:?}");
    assert_eq!(sum.failures, found.failures.values().sum::<u64>());
}

#[test]
fn a_page_has_an_end_however_much_there_is() {
    let place = Place::new();
    let audit = place.audit();
    for number in 0..300 {
        audit.mention(AuditEntry::Denied(AdmissionDenial {
            uid: Some(number),
            job: None,
            reason: "x".repeat(10_000),
            ..AdmissionDenial::default()
        }));
        audit.note(AuditEntry::Refused {
            reasons: vec!["y".repeat(10_000); 100],
        });
    }
    drop(audit);
    let page = shown(&place);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("250 rarer ones are not shown"));
}

#[test]
fn altered_trail_is_still_shown() {
    let place = Place::new();
    fill(&place);
    let file = rusqlite::Connection::open(place.path("audit.db")).unwrap();
    let changed = file
        .execute(
            "UPDATE record SET body = x'ff', at = 9223372036854775807 WHERE seq = 3",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    file.execute(
        "UPDATE record SET at = 9223372036854775807 WHERE seq > 3 AND seq % 2 = 0",
        [],
    )
    .unwrap();
    drop(file);
    assert_eq!(report(&place, &Filter::default()).unreadable, 1);
    let page = shown(&place);
    assert!(page.contains("<b>1</b>unreadable records"), "{page}");
}
