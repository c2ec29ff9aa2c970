//! Tests of the parts that are removed from records, and of those that must stay.
use super::*;
use crate::{CallEntry, DecisionKind, Keys};
use peal_core::policy::{DecidedBy, DeniedVerdict, Verdict};
use peal_model::{
    Bytes, DataArray, Event, Key, Kval, LogSubject, Mail, Nspace, PolicyRequest, PolicySubject,
    Proc, Range, Rank, Status, Text, UserIdentity,
};
use peal_sandbox::{
    CallRecord, CallUsage, Digest, EventCall, HostCall, HostCallRequest, Level, PolicyCall,
    Returned,
};
use proptest::{collection::vec, prelude::*, sample::select};
use std::{sync::Arc, time::Duration};

/// Names that the server makes, and a few other texts: each may be a secret, and occur at any other
/// place.
const WORDS: [&str; 20] = [
    "Granted",
    "Denied",
    "String",
    "ByteObject",
    "DataArray",
    "Undef",
    "None",
    "Event",
    "Policy",
    "Returned",
    "Status",
    "Connection",
    "JobControl",
    "victim",
    "value",
    "flags",
    "secret:",
    "pmix.cred",
    "reason",
    "long and quite harmless",
];

fn word() -> impl Strategy<Value = &'static str> {
    select(WORDS.as_slice())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        word().prop_map(Value::string),
        word().prop_map(|word| Value::ByteObject(Bytes::from(word.as_bytes()))),
        word().prop_map(|word| Value::Cpuset(Some(Text::from(word)))),
        word().prop_map(|word| Value::Nspace(Nspace::new(word).unwrap())),
        word().prop_map(|word| Value::Proc(proc(word))),
        any::<u64>().prop_map(Value::Uint64),
        Just(Value::Undef),
        Just(Value::String(None)),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec((key(), inner.clone()), 0..3).prop_map(|infos| {
                Value::DataArray(DataArray::infos(
                    infos.into_iter().map(|(key, value)| Info::new(key, value)),
                ))
            }),
            inner
                .clone()
                .prop_map(|value| Value::Value(Box::new(value))),
            (key(), inner).prop_map(|(key, value)| Value::Kval(Box::new(Kval { key, value }))),
        ]
    })
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        Just(key::PMIX_CREDENTIAL.into()),
        word().prop_map(|word| Key::new(word).unwrap())
    ]
}

fn infos() -> impl Strategy<Value = Vec<Info>> {
    vec(
        (key(), value()).prop_map(|(key, value)| Info::new(key, value)),
        0..6,
    )
}

fn proc(nspace: &str) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(0))
}

fn request(infos: Vec<Info>, directives: Vec<Info>) -> Arc<PolicyRequest> {
    let identity = UserIdentity {
        uid: 1000,
        gid: 100,
    };
    Arc::new(PolicyRequest {
        subject: PolicySubject::Log(LogSubject {
            data: infos,
            directives,
        }),
        requester: Some(proc("victim")),
        identity: Some(identity),
        server: identity,
        groups: Arc::default(),
        targets: Vec::new(),
    })
}

fn decision(infos: Vec<Info>, directives: Vec<Info>, verdict: &Verdict) -> AuditEntry {
    AuditEntry::Decision(DecisionEntry::new(1, request(infos, directives), verdict))
}

fn granted() -> Verdict {
    let by = DecidedBy::Policy("victim".to_owned());
    Verdict::Granted {
        by,
        amended: Vec::new(),
        range: None,
        data: None,
        answer: Vec::new(),
    }
}

fn call(subject: CallSubject, host_calls: Vec<HostCall>, end: CallEnd) -> AuditEntry {
    let record = CallRecord {
        instance: 1,
        number: 1,
        subject,
        host_calls,
        refused_growths: Vec::new(),
        end,
        usage: CallUsage::default(),
        time: Duration::from_millis(1),
        memory: 65_536,
    };
    AuditEntry::Call(Box::new(CallEntry {
        run: 1,
        facts: Digest([7; 32]),
        record,
        handshake: None,
    }))
}

fn entry() -> impl Strategy<Value = AuditEntry> {
    let requests = |word: &str| {
        let text = word.to_owned();
        let mail = Mail {
            sender: Some(text.clone()),
            subject: text.clone(),
            text: text.clone(),
            ..Mail::default()
        };
        vec![
            HostCallRequest::Infos,
            HostCallRequest::Log {
                level: Level::Info,
                message: text.clone(),
            },
            HostCallRequest::Keep {
                key: text.clone(),
                value: text.as_bytes().to_vec().into(),
            },
            HostCallRequest::Submit { sink: text, mail },
        ]
    };
    (0..4_u32, infos(), infos(), word(), infos()).prop_map(
        move |(form, one, other, word, third)| {
            let calls = requests(word).into_iter().map(|request| HostCall {
                request,
                answer: Some(HostCallAnswer::Infos(third.clone())),
            });
            let host_calls: Vec<HostCall> = calls.collect();
            let output = CallOutput {
                infos: third.clone(),
                ..CallOutput::default()
            };
            let returned = CallEnd::Returned {
                answer: Returned::Init(Err(word.to_owned())),
                output,
            };
            let steps = Arc::new(vec![ChainResult {
                name: word.into(),
                status: Status(0),
                infos: third.clone(),
            }]);
            match form {
                0 => decision(one, other, &granted()),
                1 => {
                    let by = DecidedBy::Policy("victim".to_owned());
                    decision(
                        one,
                        other,
                        &Verdict::Denied(DeniedVerdict {
                            by,
                            status: Status(-77),
                            reasons: third,
                        }),
                    )
                }
                2 => {
                    let request = request(one, other);
                    call(
                        CallSubject::Policy(PolicyCall {
                            number: 1,
                            request,
                            steps,
                        }),
                        host_calls,
                        returned,
                    )
                }
                _ => {
                    let event = Event {
                        code: Status(-1),
                        source: Some(proc("victim")),
                        range: Range::Session,
                        infos: one,
                    };
                    let subject = EventCall {
                        number: 1,
                        registration: 1,
                        tag: 1,
                        event: Arc::new(event),
                        identity: None,
                        steps,
                    };
                    call(CallSubject::Event(subject), host_calls, returned)
                }
            }
        },
    )
}

fn scrubber() -> Scrubber {
    Scrubber::new(
        Secrets::default(),
        DigestKey::new(&Keys::of(&[7; 32]).digest_key()),
    )
}

fn is_in(body: &[u8], secret: &str) -> bool {
    body.windows(secret.len())
        .any(|window| window == secret.as_bytes())
}

proptest! {
    #[test]
    fn every_record_is_readable_with_any_secrets(entry in entry()) {
        if let Some(body) = scrubber().scrubbed(&entry) {
            let read = AuditEntry::read(&body.unwrap()).unwrap();
            prop_assert_eq!(read.kind(), entry.kind());
            prop_assert_eq!(read.columns(None), entry.columns(None));
        }
    }
}

#[test]
fn names_of_the_server_are_no_copies_of_a_secret() {
    let secrets = ["Granted", "victim", "JobControl"]
        .map(|word| Info::new(key::PMIX_CREDENTIAL, Value::string(word)));
    let body = scrubber()
        .scrubbed(&decision(secrets.to_vec(), Vec::new(), &granted()))
        .unwrap()
        .unwrap();
    let AuditEntry::Decision(read) = AuditEntry::read(&body).unwrap() else {
        panic!()
    };
    assert_eq!(read.verdict, DecisionKind::Granted);
    assert_eq!(read.request.requester, Some(proc("victim")));
    assert!(
        read.request.subject.infos().iter().all(|info| info
            .value
            .as_str()
            .unwrap()
            .starts_with(MARK)),
        "{read:?}"
    );
}

#[test]
fn copies_in_values_and_texts_of_guests_are_replaced() {
    const SECRET: &str = "correct horse battery staple";
    let infos = vec![
        Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET)),
        Info::new(
            Key::new("test.copy").unwrap(),
            Value::string(&format!("it is {SECRET}!")),
        ),
    ];
    let subject = CallSubject::Policy(PolicyCall {
        number: 1,
        request: request(infos, Vec::new()),
        steps: Arc::default(),
    });
    let log = HostCall {
        request: HostCallRequest::Log {
            level: Level::Info,
            message: format!("<{SECRET}>"),
        },
        answer: None,
    };
    let keep = HostCallRequest::Keep {
        key: "key".to_owned(),
        value: SECRET.as_bytes().to_vec().into(),
    };
    let returned = CallEnd::Returned {
        answer: Returned::Nothing,
        output: CallOutput::default(),
    };
    let entry = call(
        subject,
        vec![
            log,
            HostCall {
                request: keep,
                answer: None,
            },
        ],
        returned,
    );
    let body = scrubber().scrubbed(&entry).unwrap().unwrap();
    assert!(!is_in(&body, SECRET));
    assert!(AuditEntry::read(&body).is_ok());
}

#[test]
fn secrets_beyond_those_sought_are_replaced_by_their_keys() {
    let secret = |number: usize| format!("secret number {number:04} of many");
    let mut infos: Vec<Info> = (0..257)
        .map(|number| Info::new(key::PMIX_CREDENTIAL, Value::string(&secret(number))))
        .collect();
    infos.push(Info::new(
        Key::new("test.copy").unwrap(),
        Value::string(&secret(0)),
    ));
    let body = scrubber()
        .scrubbed(&decision(infos, Vec::new(), &granted()))
        .unwrap()
        .unwrap();
    for number in 0..257 {
        assert!(!is_in(&body, &secret(number)), "{number}");
    }
}

#[test]
fn copies_of_long_secrets_are_found_by_their_beginning() {
    let secret = "0123456789abcdef".repeat(10_000);
    let infos = vec![
        Info::new(key::PMIX_CREDENTIAL, Value::string(&secret)),
        Info::new(
            Key::new("test.copy").unwrap(),
            Value::string(&format!("x{secret}")),
        ),
    ];
    let body = scrubber()
        .scrubbed(&decision(infos, Vec::new(), &granted()))
        .unwrap()
        .unwrap();
    assert!(
        !is_in(&body, "0123456789abcdef") && body.len() < 2000,
        "{} bytes",
        body.len()
    );
}
