//! Support for tests of the trail: a trail in a directory of its own, with records of every kind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
#![allow(dead_code, reason = "each test file uses its own part")]
use peal_audit::{
    AdmissionDenial, AuditEntry, AuditSettings, AuditTrail, CommitResult, CommitThread,
    DecisionEntry, Destinations, ModuleFacts, Secrets, TrailRetention, TrailSigner,
};
use peal_core::{
    choice::RecordFailurePolicy,
    policy::{DecidedBy, DeniedVerdict, Verdict},
};
use peal_model::{
    Event, Info, JobControlSubject, Nspace, PolicyRequest, PolicySubject, Proc, Range, Rank,
    Status, UserIdentity, code,
};
use peal_sandbox::{
    Digest, Engine, EngineSettings, EventCall, FuelCount, Grants, Module, ModuleLimits, Services,
};
use peal_store::DatabaseDurability;
use std::{
    num::NonZeroU32,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Of a trail here, sealed after every eight records.
    pub fn settings(&self) -> AuditSettings {
        AuditSettings {
            path: self.path("audit.db"),
            signer: TrailSigner::here(self.path("audit.key")),
            max_bytes: 1 << 30,
            durability: DatabaseDurability::Process,
            on_failure: RecordFailurePolicy::Deny,
            retention: TrailRetention {
                call_age: Duration::ZERO,
                ..TrailRetention::default()
            },
            queue: 1000,
            refusal_interval: Duration::from_secs(1),
            secrets: Secrets::default(),
            handlers: NonZeroU32::MIN,
            checkpoint_records: 8,
            checkpoint_time: Duration::from_secs(3600),
            checkpoints: Destinations {
                file: Some(self.path("checkpoints")),
                ..Destinations::default()
            },
            server: "test".to_owned(),
        }
    }

    pub fn audit(&self) -> AuditTrail {
        AuditTrail::open(self.settings()).unwrap()
    }

    /// As if the process had been killed now: what is written is there, and no end.
    pub fn as_if_killed(&self) -> Place {
        let copy = Place::new();
        // What the journal has no more when it is looked at the database has already. It may be
        // emptied while it is read, which nobody sees who reads it after a sudden end.
        let read = |name: &str| std::fs::read(self.path(name)).unwrap();
        let [first, second] = ["audit.db-tail", "audit.db-tail2"];
        // Both files as they were at one time: the first did not change while the second was read.
        let (one, other) = std::iter::repeat_with(|| (read(first), read(second)))
            .find(|(one, other)| read(second).starts_with(other) && read(first) == *one)
            .unwrap();
        for (name, bytes) in [(first, one), (second, other)] {
            std::fs::write(copy.path(name), bytes).unwrap();
            std::fs::set_permissions(copy.path(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
        for name in ["audit.db", "audit.db-wal", "audit.key", "audit.key.pub"] {
            std::fs::copy(self.path(name), copy.path(name)).unwrap();
        }
        copy
    }
}

/// One that counts fuel, as that of a server with a trail.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let settings = || EngineSettings {
        fuel: FuelCount::Always,
        ..EngineSettings::default()
    };
    ENGINE.get_or_init(|| Engine::new(&settings()).unwrap())
}

/// A component of the sandbox's tests, in its binary form.
pub fn component(name: &str) -> Vec<u8> {
    edited(name, |text| text)
}

/// The same with its text changed.
pub fn edited(name: &str, edit: impl FnOnce(String) -> String) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sandbox/tests/wat");
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
    let parts = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<String> = parts.filter(|name| name.ends_with(".part")).collect();
    // What others include stands in them.
    parts.sort_by_key(|name| name == "push.part");
    let text = parts
        .iter()
        .fold(read(&format!("{name}.wat")), |text, part| {
            text.replace(&format!("(;include {part};)"), &read(part))
        });
    wat::parse_str(edit(text)).unwrap()
}

pub fn limits() -> ModuleLimits {
    ModuleLimits {
        call_time: Duration::from_secs(60),
        failures: 0,
        ..ModuleLimits::default()
    }
}

/// A module whose calls are recorded.
pub fn recorded(
    audit: &AuditTrail,
    name: &str,
    bytes: &[u8],
    limits: ModuleLimits,
    services: Services,
) -> Module {
    let facts = ModuleFacts {
        name: name.to_owned(),
        owner: "site".to_owned(),
        mode: "active".to_owned(),
        digest: Digest::of(bytes),
        grants: Grants::all(),
        limits,
        sinks: Vec::new(),
        directories: Vec::new(),
    };
    let recorder = Some(audit.recorder(&facts, bytes.into()).unwrap());
    Module::load(
        engine(),
        name,
        bytes,
        &Grants::all(),
        limits,
        Services {
            recorder,
            ..services
        },
    )
    .unwrap()
}

pub fn event(code: i32, infos: Vec<Info>) -> EventCall {
    let source = Some(proc("job", 3));
    let event = Event {
        code: Status(code),
        source,
        range: Range::Session,
        infos,
    };
    let identity = Some(UserIdentity {
        uid: 1000,
        gid: 100,
    });
    EventCall {
        number: 7,
        registration: 1,
        tag: 1,
        event: Arc::new(event),
        identity,
        steps: Arc::default(),
    }
}

pub fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

/// Returns a job-control request with these directives.
pub fn job_control(directives: Vec<Info>) -> Arc<PolicyRequest> {
    request(PolicySubject::JobControl(JobControlSubject {
        directives,
        ..JobControlSubject::default()
    }))
}

pub fn request(subject: PolicySubject) -> Arc<PolicyRequest> {
    let server = UserIdentity { uid: 0, gid: 0 };
    Arc::new(PolicyRequest {
        subject,
        requester: Some(proc("job", 1)),
        identity: Some(UserIdentity {
            uid: 1000,
            gid: 100,
        }),
        server,
        groups: Arc::default(),
        targets: Vec::new(),
    })
}

pub fn granted() -> Verdict {
    Verdict::Granted {
        by: DecidedBy::Policy("quota".to_owned()),
        amended: Vec::new(),
        range: None,
        data: None,
        answer: Vec::new(),
    }
}

pub fn denied() -> Verdict {
    Verdict::Denied(DeniedVerdict {
        by: DecidedBy::Default,
        status: code::PMIX_ERR_NO_PERMISSIONS,
        reasons: Vec::new(),
    })
}

/// Has a decision recorded, and waits for what follows.
pub fn decide(audit: &AuditTrail, number: u64, verdict: &Verdict) -> CommitResult {
    let (tell, told) = mpsc::channel();
    let decision = DecisionEntry::new(number, job_control(Vec::new()), verdict);
    audit.decide(
        decision,
        if number.is_multiple_of(2) {
            CommitThread::Caller
        } else {
            CommitThread::Thread
        },
        move |safe| tell.send(safe).unwrap(),
    );
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// A run with two dozen records.
pub fn run(place: &Place) {
    let audit = place.audit();
    let module = recorded(
        &audit,
        "echo",
        &component("echo"),
        limits(),
        Services::default(),
    );
    for number in 0..6 {
        assert_eq!(decide(&audit, number, &granted()), CommitResult::Yes);
        assert_eq!(
            module
                .handle(event(
                    -1,
                    vec![Info::new(
                        peal_model::key::PMIX_JOB_SIZE,
                        peal_model::Value::Uint32(7)
                    )]
                ))
                .failure,
            None
        );
    }
    assert_eq!(decide(&audit, 6, &denied()), CommitResult::Yes);
    audit.note(AuditEntry::Deployed {
        version: 2,
        cause: "test".to_owned(),
        changes: vec!["echo".to_owned()],
    });
    audit.note(AuditEntry::Refused {
        reasons: vec!["no".to_owned()],
    });
    audit.mention(AuditEntry::Denied(AdmissionDenial {
        uid: Some(1000),
        job: None,
        reason: "a stranger".to_owned(),
        ..AdmissionDenial::default()
    }));
    for number in 7..12 {
        assert_eq!(decide(&audit, number, &granted()), CommitResult::Yes);
    }
}
