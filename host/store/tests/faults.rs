//! Faults of a store: no space, a damaged file, a file without write access, several writers, a
//! killed process.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail"
)]
use peal_model::{Nspace, Rank};
use peal_needs::needs;
use peal_store::{AdminCall, JobStart, StateScope, Store, StoreError, StoreSettings};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(path, StoreSettings::default())
}

fn call(outcome: &str) -> AdminCall {
    AdminCall {
        uid: 0,
        pid: Some(1),
        verb: "stats".into(),
        outcome: outcome.into(),
    }
}

/// Collects what is traced on this thread while something happens.
fn traced<T>(happens: impl FnOnce() -> T) -> (T, String) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || to.clone())
        .finish();
    let done = tracing::subscriber::with_default(subscriber, happens);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (done, text)
}

/// Writes until there is no room, makes some, and writes again: the same whatever sets the limit.
fn fill_and_make_room(store: &Arc<Store>, path: &Path, mut make_room: impl FnMut()) {
    let state = store.state("filler", &StateScope::Site, u64::MAX);
    let ((), lines) = traced(|| {
        let block = vec![7; 40_000];
        let error = (0..)
            .find_map(|number: u32| state.set(&number.to_string(), &block).err())
            .unwrap();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        let full = store.health();
        assert_eq!((full.failed, full.failing), (1, 1));
        assert!(state.set("another", &block).is_err() && state.set("one more", &block).is_err());
        assert_eq!(store.health().failing, 3);
        // Nothing is half there, and what is there can be read.
        assert_eq!(state.get("0").unwrap().unwrap(), block);
        assert_eq!(state.get("another").unwrap(), None);
        make_room();
        store.admin_called(&call("after"), 1).unwrap();
        assert_eq!((store.health().failed, store.health().failing), (3, 0));
        state.set("another", b"now there is room").unwrap();
    });
    assert_eq!(lines.matches("store not written").count(), 1, "{lines}");
    assert_eq!(lines.matches("store writable again").count(), 1, "{lines}");
    assert!(lines.contains("lost=3"), "{lines}");
}

/// The start of a job of one proc.
fn start(nspace: &Nspace) -> JobStart<'_> {
    JobStart {
        nspace,
        uid: 1,
        size: 1,
        command: "app",
        at: 1,
    }
}

#[test]
fn full_size_store_reports_it_and_continues_after_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small.db");
    let store = Arc::new(
        Store::open(
            &path,
            StoreSettings {
                max_bytes: 400_000,
                ..StoreSettings::default()
            },
        )
        .unwrap(),
    );
    let other = Arc::new(open(&path).unwrap());
    fill_and_make_room(&store, &path, || {
        other
            .state("filler", &StateScope::Site, u64::MAX)
            .delete("0")
            .unwrap()
    });
    drop((store, other));
    assert!(std::fs::metadata(&path).unwrap().len() <= 400_000);
}

/// Runs this test once more as a process of its own, on a small file system that no other process
/// sees.
fn on_small_file_system(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=512k tmpfs {0} && echo mounted >&2 && exec \"$0\" \"$@\"",
        dir.path().display()
    );
    let mut command = Command::new("unshare");
    let me = if is_root() {
        vec!["--mount"]
    } else {
        vec!["--mount", "--map-root-user"]
    };
    command
        .args(me)
        .args(["sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env("PEAL_SMALL_DIR", dir.path());
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.starts_with("mounted\n"),
        "no file system can be mounted here, and this test says `#[needs(mounts)]`: {told}"
    );
    assert!(
        done.status.success(),
        "{}\n{told}",
        String::from_utf8_lossy(&done.stdout)
    );
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[needs(mounts)]
#[test]
fn full_disk_loses_only_writes_made_meanwhile() {
    let Some(dir) = std::env::var_os("PEAL_SMALL_DIR").map(PathBuf::from) else {
        return on_small_file_system("full_disk_loses_only_writes_made_meanwhile");
    };
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![0; 100_000]).unwrap();
    let path = dir.join("peal.db");
    let store = Arc::new(open(&path).unwrap());
    store
        .job_started(start(&Nspace::new("early").unwrap()))
        .unwrap();
    fill_and_make_room(&store, &path, || std::fs::remove_file(&ballast).unwrap());
    drop(store);
    assert_eq!(
        open(&path)
            .unwrap()
            .job(&Nspace::new("early").unwrap())
            .unwrap()
            .unwrap()
            .size,
        1
    );
}

#[needs(mounts)]
#[test]
fn a_store_that_cannot_be_written_is_refused_when_it_is_opened() {
    let Some(dir) = std::env::var_os("PEAL_SMALL_DIR").map(PathBuf::from) else {
        return on_small_file_system("a_store_that_cannot_be_written_is_refused_when_it_is_opened");
    };
    let path = dir.join("peal.db");
    drop(open(&path).unwrap());
    let remount = |how: &str| {
        Command::new("mount")
            .args(["-o", how])
            .arg(&dir)
            .status()
            .unwrap()
    };
    assert!(remount("remount,ro").success());
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    let error = open(&dir.join("new.db")).unwrap_err().to_string();
    assert!(
        error.starts_with("the store ") && error.ends_with("Read-only file system (os error 30)"),
        "{error}"
    );
    assert!(remount("remount,rw").success());
    open(&path).unwrap();
}

#[test]
fn a_place_that_is_not_there_is_named() {
    let error = open(Path::new("/no/such/place/peal.db"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the store \"/no/such/place/peal.db\" could not be created: No such file or directory (os error 2)"
    );
    let error = open(Path::new("/tmp")).unwrap_err().to_string();
    assert!(
        error.starts_with("\"/tmp\" should be a store of Peal's and is not a regular file"),
        "{error}"
    );
}

/// A store with some thousand bytes in it, closed.
fn grown(path: &Path) {
    let store = Arc::new(open(path).unwrap());
    let state = store.state("m", &StateScope::Site, u64::MAX);
    for number in 0..200 {
        state
            .set(&format!("key {number}"), &[number as u8; 200])
            .unwrap();
        store.admin_called(&call("done"), number).unwrap();
    }
}

#[test]
fn a_damaged_store_is_refused_with_words_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peal.db");
    grown(&path);
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 10 * 4096);
    let mut refused = 0;
    let damage = |from: usize, bytes: &[u8]| {
        let mut damaged = whole.clone();
        damaged[from..from + bytes.len()].copy_from_slice(bytes);
        damaged
    };
    let mut cases = vec![
        whole[..whole.len() / 2].to_vec(),
        whole[..5000].to_vec(),
        whole[..90].to_vec(),
    ];
    // The header of each page behind the first: what kind of page it is, and how many cells it has.
    cases.extend((1..whole.len() / 4096).map(|page| damage(page * 4096, &[0xff; 8])));
    cases.push(damage(0, b"SQLite format 9\0"));
    for damaged in cases {
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = open(&path) {
            refused += 1;
            assert!(
                matches!(
                    error,
                    StoreError::Damaged { .. } | StoreError::Foreign { .. }
                ),
                "{error}"
            );
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), damaged, "it was changed");
        }
    }
    // A page may be a free one, in which there is nothing to damage.
    assert!(
        refused * 10 > whole.len() / 4096 * 9,
        "only {refused} refused"
    );
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).unwrap().admin_calls(1000).unwrap().len(), 200);
}

#[test]
fn damage_while_a_store_is_open_becomes_an_error_and_never_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peal.db");
    let store = Arc::new(open(&path).unwrap());
    let state = store.state("m", &StateScope::Site, u64::MAX);
    // More than SQLite keeps in memory.
    for number in 0..4000 {
        state.set(&format!("key {number}"), &[7; 1000]).unwrap();
    }
    drop((state, store));
    let store = Arc::new(open(&path).unwrap());
    let state = store.state("m", &StateScope::Site, u64::MAX);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; length as usize - 4096], 4096)
        .unwrap();
    let outcomes: Vec<_> = (0..4000)
        .map(|number| state.set(&format!("key {number}"), b"new"))
        .collect();
    let failed = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(StoreError::Damaged { .. })))
        .count();
    assert!(failed > 0 && outcomes.iter().filter(|outcome| outcome.is_err()).count() == failed);
    assert_eq!(store.health().failed, failed as u64);
    assert!(
        (0..4000).any(|number| state.get(&format!("key {number}")).is_err())
            && store.health().unread > 0
    );
    drop((state, store));
    assert!(matches!(open(&path), Err(StoreError::Damaged { .. })));
}

#[test]
fn two_handles_share_store_and_quota() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peal.db");
    let quota = 50 * (peal_store::ENTRY_BYTES + 2 + 100);
    let filled: Vec<usize> = std::thread::scope(|scope| {
        let writers = ["a", "b"].map(|name| {
            let path = &path;
            scope.spawn(move || {
                let store = Arc::new(open(path).unwrap());
                let state = store.state("m", &StateScope::Site, quota);
                let taken = (10..90).filter(|number| {
                    store.admin_called(&call(name), *number).unwrap();
                    // Each its own keys: `a1` and `b1`, all of the same length.
                    let key = format!("{name}{}", char::from(u8::try_from(*number).unwrap()));
                    state.set(&key, &[0; 100]).is_ok()
                });
                taken.count()
            })
        });
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    assert_eq!(filled.iter().sum::<usize>(), 50);
    let store = Arc::new(open(&path).unwrap());
    assert_eq!(
        store
            .state("m", &StateScope::Site, quota)
            .keys("")
            .unwrap()
            .len(),
        50
    );
    assert_eq!(store.admin_calls(1000).unwrap().len(), 160);
}

#[test]
fn committed_writes_survive_sudden_end() {
    let number = |number: u32| Nspace::new(&format!("job-{number}")).unwrap();
    if let Some(path) = std::env::var_os("PEAL_DYING_STORE").map(PathBuf::from) {
        let store = Arc::new(open(&path).unwrap());
        let state = store.state("m", &StateScope::Site, u64::MAX);
        let last = state
            .get("last")
            .unwrap()
            .map(|last| String::from_utf8(last).unwrap().parse::<u32>().unwrap());
        for at in last.map_or(0, |last| last + 1).. {
            store.job_started(start(&number(at))).unwrap();
            store.proc_ended(&number(at), Rank(0), "exited").unwrap();
            state.set("last", at.to_string().as_bytes()).unwrap();
            println!("written {at}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peal.db");
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "committed_writes_survive_sudden_end",
                "--nocapture",
            ])
            .env("PEAL_DYING_STORE", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let told = |line: &String| {
            line.strip_prefix("written ")
                .and_then(|at| at.parse::<u32>().ok())
        };
        let mut last = lines
            .by_ref()
            .filter_map(|line| told(&line))
            .nth(20)
            .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.filter_map(|line| told(&line)).last().unwrap_or(last);
        let store = Arc::new(open(&path).unwrap());
        for at in 0..=last {
            assert_eq!(
                store.job(&number(at)).unwrap().unwrap().procs.len(),
                1,
                "job {at} of {last}"
            );
        }
        let kept = store
            .state("m", &StateScope::Site, u64::MAX)
            .get("last")
            .unwrap()
            .unwrap();
        let kept: u32 = String::from_utf8(kept).unwrap().parse().unwrap();
        // The one that it was at may be written and not yet told.
        assert!(
            kept == last || kept == last + 1,
            "{kept} where {last} was told"
        );
    }
}
