//! A helper and its server: work with the rights of users, refusals, loss and restart, and messages
//! that no server sends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_core::job_control::{Cleanup, Depth, Subdirectories, TopDirectory};
use peal_frames::encode;
use peal_helper::{
    ControlOrder, FileRequest, HelperError, HelperRules, PrivilegedHelper, ProcessAction,
    ProcessTarget, RefusedCall, RemovalBounds, RemovalExtent, RemovalOrder,
    message::{CallNumber, FromHelper, HelperCall, HelperRefusal, LIMIT, PROTOCOL, ToHelper},
    serve,
};
use peal_model::{Rank, UserIdentity};
use peal_needs::needs;
use peal_system::{
    process::RunningProcess,
    socket_holder::{HolderSearch, SearchStart},
};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt, PermissionsExt, chown},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const USER: UserIdentity = UserIdentity {
    uid: 54_321,
    gid: 54_322,
};
/// User of the server: neither root nor the one on whose behalf it asks.
const SERVER: u32 = 54_399;

fn rules(roots: &[&Path]) -> HelperRules {
    HelperRules {
        cleanup_roots: Some(roots.iter().map(|root| root.to_path_buf()).collect()),
        server_uid: SERVER,
    }
}

/// Returns a helper that runs in a thread of the test.
fn helper(rules: HelperRules) -> PrivilegedHelper {
    PrivilegedHelper::process(move || {
        let (ours, theirs) = UnixStream::pair()?;
        let rules = rules.clone();
        thread::spawn(move || serve(theirs, rules));
        Ok(ours)
    })
}

fn removal(identity: UserIdentity, files: &[&Path]) -> RemovalOrder {
    RemovalOrder {
        identity,
        cleanup: Cleanup {
            procs: Vec::new(),
            files: files.iter().map(|path| path.to_path_buf()).collect(),
            directories: BTreeSet::new(),
            depth: Depth::Flat,
            subdirectories: Subdirectories::All,
            top: TopDirectory::Remove,
            ignored: BTreeSet::new(),
        },
        bounds: RemovalBounds {
            entries: 100,
            depth: 10,
        },
    }
}

fn control(owner: UserIdentity, process: RunningProcess, action: ProcessAction) -> ControlOrder {
    ControlOrder {
        owner,
        action,
        targets: vec![ProcessTarget {
            rank: Rank(0),
            processes: vec![process],
        }],
        others: BTreeSet::new(),
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, HelperError>) -> HelperRefusal {
    match result {
        Err(HelperError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Process of a user that holds a connection.
struct Holder {
    child: Child,
    inode: u64,
    _server: TcpListener,
}

impl Holder {
    fn start() -> Holder {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = OwnedFd::from(TcpStream::connect(server.local_addr().unwrap()).unwrap());
        let inode = fs::File::from(stream.try_clone().unwrap())
            .metadata()
            .unwrap()
            .ino();
        let child = Command::new("sleep")
            .arg("1000")
            .stdin(stream)
            .uid(USER.uid)
            .gid(USER.gid)
            .spawn()
            .unwrap();
        Holder {
            child,
            inode,
            _server: server,
        }
    }

    /// Has the helper find the process, as a server does at a connection.
    fn connect(&self, helper: &PrivilegedHelper) {
        let search = HolderSearch {
            start: SearchStart::In(self.child.id()),
            inode: self.inode,
        };
        let found = helper.holder(search).unwrap();
        assert_eq!(found.pid, self.child.id());
    }

    fn process(&self) -> RunningProcess {
        RunningProcess::of(self.child.id()).unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[needs(root)]
#[test]
fn helper_acts_only_for_users_that_it_has_seen() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (theirs, roots) = (dir.path().join("theirs"), dir.path().join("root"));
    for path in [&theirs, &roots] {
        fs::write(path, "").unwrap();
    }
    let shut = dir.path().join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(shut.join("file"), "").unwrap();
    chown(&theirs, Some(USER.uid), Some(USER.gid)).unwrap();
    let helper = helper(rules(&[dir.path()]));
    let holder = Holder::start();
    let order = || removal(USER, &[&theirs, &shut.join("file")]);
    let kill = || control(USER, holder.process(), ProcessAction::Kill);
    let open = || FileRequest {
        path: theirs.clone(),
        identity: USER,
    };
    let unknown = HelperRefusal::UnknownUser(USER.uid);
    let (report, reported) = std::sync::mpsc::channel();
    helper.report_refusals(move |refused| report.send(refused).unwrap());
    assert_eq!(refusal(helper.remove(order())), unknown);
    assert_eq!(refusal(helper.control(kill())), unknown);
    assert_eq!(refusal(helper.open_file(open())), unknown);
    assert!(theirs.exists() && holder.process().lives());
    for kind in [
        "removal of files",
        "control of processes",
        "opening of a file",
    ] {
        let wanted = RefusedCall {
            kind,
            uid: Some(USER.uid),
            reason: unknown.clone(),
        };
        assert_eq!(reported.try_recv().as_ref(), Ok(&wanted));
    }

    holder.connect(&helper);
    assert_eq!(helper.open_file(open()).unwrap().unwrap().stat.size, 0);
    assert_eq!(helper.remove(order()).unwrap(), RemovalExtent::Nothing);
    assert!(!theirs.exists(), "the user may remove it");
    assert!(shut.join("file").exists(), "the user may not remove it");
    // Not as root, and no process of another user, whatever the server says.
    let root = UserIdentity { uid: 0, gid: 0 };
    assert_eq!(
        refusal(helper.remove(removal(root, &[&roots]))),
        HelperRefusal::Root
    );
    let mine = RunningProcess::of(std::process::id()).unwrap();
    assert_eq!(
        refusal(helper.control(control(USER, mine, ProcessAction::Kill))),
        HelperRefusal::NotTheirs {
            pid: std::process::id(),
            uid: USER.uid
        }
    );
    assert!(roots.exists());
    assert_eq!(helper.control(kill()).unwrap(), []);
    assert!(!RunningProcess::of(holder.child.id()).is_some_and(|process| process.lives()));
}

#[test]
fn paths_outside_of_cleanup_roots_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let own = UserIdentity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let rules = HelperRules {
        server_uid: own.uid,
        ..rules(&[&root])
    };
    let helper = helper(rules);
    for path in [dir.path().join("file"), root.clone()] {
        assert_eq!(
            refusal(helper.remove(removal(own, &[&path]))),
            HelperRefusal::Outside(path)
        );
    }
    for path in [
        root.join("../file"),
        PathBuf::from("file"),
        PathBuf::from("/"),
    ] {
        assert_eq!(
            refusal(helper.remove(removal(own, &[&path]))),
            HelperRefusal::Path(path)
        );
    }
    fs::write(root.join("file"), "").unwrap();
    helper.remove(removal(own, &[&root.join("file")])).unwrap();
    assert!(!root.join("file").exists());
}

#[test]
fn lost_helper_is_replaced_and_open_calls_end() {
    let started = Arc::new(AtomicUsize::new(0));
    let counter = started.clone();
    let helper = PrivilegedHelper::process(move || {
        let (ours, mut theirs) = UnixStream::pair()?;
        let number = counter.fetch_add(1, Ordering::Relaxed);
        thread::spawn(move || {
            if number > 0 {
                return drop(serve(theirs, HelperRules::default()));
            }
            // Greets, reads a call, and ends without an answer.
            let hello = encode(&FromHelper::Hello(PROTOCOL), LIMIT).unwrap();
            theirs.write_all(&hello).unwrap();
            let greeting = encode(&ToHelper::Hello(PROTOCOL), LIMIT).unwrap().len();
            let mut bytes = vec![0; greeting + 1];
            theirs.read_exact(&mut bytes).unwrap();
        });
        Ok(ours)
    });
    let own = FileRequest {
        path: "/proc/self/stat".into(),
        identity: UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        },
    };
    assert!(matches!(
        helper.open_file(own.clone()),
        Err(HelperError::Lost(_))
    ));
    // Its successor knows nothing of the files of the first one.
    assert!(helper.open_file(own).unwrap().is_ok());
    assert_eq!(started.load(Ordering::Relaxed), 2);
}

#[test]
fn helper_that_cannot_be_started_again_is_an_error() {
    let first = std::sync::Mutex::new(true);
    let helper = PrivilegedHelper::process(move || {
        if !std::mem::take(&mut *first.lock().unwrap()) {
            return Err(std::io::Error::other("only once"));
        }
        let (ours, mut theirs) = UnixStream::pair()?;
        thread::spawn(move || {
            theirs
                .write_all(&encode(&FromHelper::Hello(PROTOCOL), LIMIT).unwrap())
                .unwrap();
            let mut byte = [0];
            theirs.read_exact(&mut byte).unwrap();
        });
        Ok(ours)
    });
    helper.connect().unwrap();
    let search = HolderSearch {
        start: SearchStart::In(std::process::id()),
        inode: 1,
    };
    assert_eq!(helper.holder(search), None);
    let open = FileRequest {
        path: "/".into(),
        identity: USER,
    };
    let error = helper.open_file(open).unwrap_err().to_string();
    assert!(error.contains("only once"), "{error}");
}

#[test]
fn messages_that_no_server_sends_end_the_helper() {
    let frame = |message: &ToHelper| encode(message, LIMIT).unwrap();
    let hello = frame(&ToHelper::Hello(PROTOCOL));
    let call = frame(&ToHelper::Call {
        number: CallNumber(1),
        call: HelperCall::CloseFile(peal_helper::FilePlace(1)),
    });
    let cases: [(&str, Vec<u8>); 7] = [
        ("another version", frame(&ToHelper::Hello(PROTOCOL + 1))),
        ("a call before the first message", call.clone()),
        (
            "the first message twice",
            [hello.clone(), hello.clone()].concat(),
        ),
        (
            "a frame that is too long",
            [hello.clone(), vec![0xff; 8]].concat(),
        ),
        (
            "no message",
            [hello.clone(), vec![2, 0, 0, 0, 0xc1, 0xc1]].concat(),
        ),
        (
            "half a message",
            [hello.clone(), call[..call.len() - 1].to_vec()].concat(),
        ),
        ("bytes behind a message", {
            let mut long = call.clone();
            long[0] += 1;
            long.push(0xc0);
            [hello, long].concat()
        }),
    ];
    for (what, bytes) in cases {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || serve(theirs, HelperRules::default()));
        ours.write_all(&bytes).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(serving.join().unwrap().is_err(), "{what}");
    }
}

#[test]
fn repeated_call_is_answered_and_end_of_server_ends_helper() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || serve(theirs, HelperRules::default()));
    ours.write_all(&encode(&ToHelper::Hello(PROTOCOL), LIMIT).unwrap())
        .unwrap();
    let call = ToHelper::Call {
        number: CallNumber(7),
        call: HelperCall::ReadFile(peal_helper::FilePlace(1)),
    };
    for _ in 0..2 {
        ours.write_all(&encode(&call, LIMIT).unwrap()).unwrap();
    }
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut decoder = peal_frames::MessageDecoder::new(LIMIT);
    let mut bytes = Vec::new();
    // The threads of the calls hold the connection until they have answered.
    ours.read_to_end(&mut bytes).unwrap();
    decoder.push(&bytes);
    assert_eq!(
        decoder.next_message().unwrap(),
        Some(FromHelper::Hello(PROTOCOL))
    );
    for _ in 0..2 {
        let answer = FromHelper::Answer {
            number: CallNumber(7),
            answer: Err(HelperRefusal::NotOpen(peal_helper::FilePlace(1))),
        };
        assert_eq!(decoder.next_message().unwrap(), Some(answer));
    }
    serving.join().unwrap().unwrap();
}
