//! Files: rotation, writers beside each other, a disk that is full, and what is no file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail"
)]
mod support;

use peal_model::{Mail, code};
use peal_needs::needs;
use peal_sinks::{
    FileSettings, FileSync, SinkHandle, SinkKind, SinkMessage, SinkSettings, SinkWriteError, Sinks,
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

fn open(settings: FileSettings) -> Arc<SinkHandle> {
    let sinks = Sinks::open(
        vec![SinkSettings::new("file", SinkKind::File(settings))],
        None,
    );
    sinks.unwrap().get("file").unwrap()
}

fn why_not(settings: FileSettings) -> String {
    Sinks::open(
        vec![SinkSettings::new("file", SinkKind::File(settings))],
        None,
    )
    .unwrap_err()
    .to_string()
}

fn write(sink: &SinkHandle, text: &str) -> Result<(), SinkWriteError> {
    sink.submit(None, SinkMessage::Bytes(text.as_bytes().to_vec()))
}

#[test]
fn a_file_is_put_aside_when_it_is_large_and_the_oldest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = open(FileSettings {
        max_bytes: 20,
        keep: 2,
        sync: FileSync::Each,
        ..FileSettings::new(&path)
    });
    for number in 1..=7 {
        write(&sink, &format!("message {number}")).unwrap();
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("log"), "message 7\n");
    assert_eq!(
        (read("log.1"), read("log.2")),
        (
            "message 5\nmessage 6\n".into(),
            "message 3\nmessage 4\n".into()
        )
    );
    assert!(!dir.path().join("log.3").exists());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // What is larger than a file may be has one to itself.
    write(&sink, &"x".repeat(50)).unwrap();
    write(&sink, "behind it\n").unwrap();
    assert_eq!(
        (read("log"), read("log.1").len()),
        ("behind it\n".into(), 51)
    );
    assert_eq!((sink.health().delivered, sink.health().refused), (9, 0));
    let none = open(FileSettings {
        max_bytes: 5,
        keep: 0,
        ..FileSettings::new(dir.path().join("none"))
    });
    write(&none, "one").unwrap();
    write(&none, "two").unwrap();
    assert_eq!(
        (read("none"), dir.path().join("none.1").exists()),
        ("two\n".into(), false)
    );
}

#[test]
fn concurrent_writers_rotate_file_without_loss_or_torn_lines() {
    let dir = tempfile::tempdir().unwrap();
    let settings = FileSettings {
        max_bytes: 2000,
        keep: 1000,
        ..FileSettings::new(dir.path().join("log"))
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let sink = open(settings.clone());
            scope.spawn(move || {
                for number in 0..200 {
                    write(
                        &sink,
                        &format!("{writer:02}-{number:04}-{}", "x".repeat(50)),
                    )
                    .unwrap();
                }
            });
        }
    });
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.len() <= 2000);
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    let wanted: Vec<String> = (0..4)
        .flat_map(|writer| {
            (0..200).map(move |number| format!("{writer:02}-{number:04}-{}", "x".repeat(50)))
        })
        .collect();
    assert_eq!(lines, wanted);
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let sink = open(FileSettings {
        mode: 0o640,
        ..FileSettings::new(&path)
    });
    write(&sink, "one").unwrap();
    fs::rename(&path, dir.path().join("moved")).unwrap();
    write(&sink, "two").unwrap();
    fs::remove_file(&path).unwrap();
    write(&sink, "three").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    assert_eq!(
        fs::read_to_string(dir.path().join("moved")).unwrap(),
        "one\n"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    // Not to where somebody else leads it meanwhile.
    fs::remove_file(&path).unwrap();
    fs::write(dir.path().join("secret"), "").unwrap();
    symlink("secret", &path).unwrap();
    assert!(write(&sink, "four").is_err());
    assert_eq!(fs::read_to_string(dir.path().join("secret")).unwrap(), "");
}

#[test]
fn path_of_other_kind_or_user_is_refused_at_opening() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("secret"), "secret").unwrap();
    symlink(at("secret"), at("link")).unwrap();
    symlink("secret", at("near")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::hard_link(at("secret"), at("hard")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(at("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for name in [
        "link",
        "near",
        "dangling",
        "hard",
        "dir",
        "pipe",
        "no/such/dir",
    ] {
        let error = why_not(FileSettings::new(at(name)));
        assert!(
            error.contains(&format!("{:?} could not be opened: ", at(name))),
            "{name}: {error}"
        );
    }
    assert!(!at("nowhere").exists());
    assert!(why_not(FileSettings::new("/dev/full")).contains("it should be a regular file"));
    let error = why_not(FileSettings {
        mode: 0o4755,
        ..FileSettings::new(at("log"))
    });
    assert_eq!(
        error,
        "sink \"file\": mode is 4755, it must be permissions to read and write, such as 640"
    );
    assert!(why_not(FileSettings::new("/")).contains("it must be that of a file"));
    assert_eq!(fs::read_to_string(at("secret")).unwrap(), "secret");
}

#[test]
fn invalid_message_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sink = open(FileSettings {
        max_message: 10,
        ..FileSettings::new(dir.path().join("log"))
    });
    assert_eq!(
        write(&sink, "").unwrap_err().status(),
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        write(&sink, "12345678901").unwrap_err().status(),
        code::PMIX_ERR_BAD_PARAM
    );
    let refused = sink
        .submit(None, SinkMessage::Mail(Mail::default()))
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "sink \"file\" takes bytes only, not mails"
    );
    assert_eq!((sink.health().refused, sink.health().delivered), (3, 0));
    assert_eq!(fs::read_to_string(dir.path().join("log")).unwrap(), "");
}

/// Writes until there is no room; then the file is whole, and there is room for what is shorter, or
/// when something is gone.
fn fill(path: &Path, make_room: impl FnOnce()) {
    let sink = open(FileSettings::new(path));
    let refused = (0..10_000)
        .find_map(|_| write(&sink, &"x".repeat(999)).err())
        .expect("it is never full");
    assert_eq!(
        refused.status(),
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "{refused}"
    );
    let text = fs::read_to_string(path).unwrap();
    assert!(
        text.len() > 1000 && text.len().is_multiple_of(1000),
        "a torn line stayed: {}",
        text.len()
    );
    assert_eq!(sink.health().last_error, Some(refused.to_string()));
    make_room();
    write(&sink, "after").unwrap();
    assert!(fs::read_to_string(path).unwrap().ends_with("x\nafter\n"));
}

/// Runs this test once more as a process of its own, by way of a shell that prepares something.
fn again(test: &str, dir: &Path, prepare: &str, unshare: Option<&[&str]>) -> std::process::Output {
    let mut command = match unshare {
        Some(flags) => {
            let mut unshare = Command::new("unshare");
            unshare.args(flags).arg("sh");
            unshare
        }
        None => Command::new("sh"),
    };
    command.args([
        "-c",
        &format!("{prepare} && echo prepared >&2 && exec \"$0\" \"$@\""),
    ]);
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("PEAL_FULL_DIR", dir);
    let done = command.output().unwrap();
    assert!(
        done.stderr.starts_with(b"prepared"),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    done
}

#[test]
fn full_file_stays_whole_and_writer_gets_error() {
    const TEST: &str = "full_file_stays_whole_and_writer_gets_error";
    if let Some(dir) = std::env::var_os("PEAL_FULL_DIR").map(PathBuf::from) {
        // The limit is in blocks of 512 bytes, so that the last message would end in the middle of
        // one; a short one fits.
        return fill(&dir.join("log"), || {});
    }
    let dir = tempfile::tempdir().unwrap();
    let done = again(TEST, dir.path(), "trap '' XFSZ && ulimit -f 9", None);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{}{told}",
        String::from_utf8_lossy(&done.stdout)
    );
}

#[needs(mounts)]
#[test]
fn full_disk_leaves_the_file_whole_and_returns_an_error() {
    const TEST: &str = "full_disk_leaves_the_file_whole_and_returns_an_error";
    if let Some(dir) = std::env::var_os("PEAL_FULL_DIR").map(PathBuf::from) {
        fs::write(dir.join("ballast"), vec![0; 8192]).unwrap();
        return fill(&dir.join("log"), || {
            fs::remove_file(dir.join("ballast")).unwrap()
        });
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=64k tmpfs {}", dir.path().display());
    let me: &[&str] = if rustix::process::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let done = again(TEST, dir.path(), &mount, Some(me));
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stdout)
    );
}
