//! Tests of rendezvous files, with links and files of other users in their way.
use super::*;
use peal_needs::needs;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
};

struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new() -> Node {
        Node {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn settings(&self, serves: Serves) -> RendezvousSettings {
        let system_dir = self.root.path().to_owned();
        RendezvousSettings {
            session_dir: system_dir.join("session"),
            system_dir,
            serves,
            hostname: "node".to_owned(),
        }
    }

    fn publish(&self, serves: Serves) -> Result<Rendezvous, RendezvousError> {
        let uri = "server.0;tcp4://127.0.0.1:54661".parse().unwrap();
        Rendezvous::publish(&self.settings(serves), &uri, &[Nspace::new("job").unwrap()])
    }

    fn session(&self) -> PathBuf {
        self.settings(Serves::Itself).session_dir
    }

    /// Returns the names of the files, without locks.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.session())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Returns the id of a process that has ended.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn server_is_found_by_pid_and_namespace_while_it_lives() {
    let node = Node::new();
    let pid = std::process::id();
    let published = node.publish(Serves::Itself).unwrap();
    let wanted = [
        format!("pmix.node.tool.{pid}"),
        "pmix.node.tool.job".into(),
        "pmix.node.tool.server".into(),
    ];
    assert_eq!(node.files(), wanted);
    for path in published.paths() {
        assert_eq!(
            (mode(path), fs::metadata(path).unwrap().uid()),
            (0o644, geteuid().as_raw())
        );
        let lock = format!(".{}.lock", path.file_name().unwrap().to_str().unwrap());
        assert_eq!(
            mode(&path.with_file_name(lock)),
            0o600,
            "who could open it could hold it"
        );
        let text = fs::read_to_string(path).unwrap();
        assert!(
            text.starts_with(&format!(
                "server.0;tcp4://127.0.0.1:54661\n4.2.2peal\n{pid}\n"
            )),
            "{text}"
        );
    }
    assert_eq!(mode(&node.session()) & 0o022, 0);
    drop(published);
    let left: Vec<_> = fs::read_dir(node.session())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".peal.lock"]);
}

#[test]
fn server_with_free_lock_is_dead_despite_reused_pid() {
    let node = Node::new();
    drop(node.publish(Serves::System).unwrap());
    // Files as a killed server leaves them, with a process id that another process has now.
    let leave = |dir: &Path, name: &str| {
        fs::write(
            dir.join(name),
            "old.0;tcp4://127.0.0.1:1\n4.2.2peal\n1\n0:0\n\n\n",
        )
        .unwrap();
        fs::write(dir.join(format!(".{name}.lock")), "").unwrap();
    };
    let session = node.session();
    let system = node.root.path();
    leave(&session, "pmix.node.tool");
    leave(&session, "pmix.node.tool.gone");
    leave(system, "pmix.sys.node");
    fs::write(session.join(".pmix.node.tool.lonely.lock"), "").unwrap();
    let published = node.publish(Serves::System).unwrap();
    for path in [session.join("pmix.node.tool"), system.join("pmix.sys.node")] {
        assert!(fs::read_to_string(path).unwrap().starts_with("server.0;"));
    }
    assert!(!node.files().contains(&"pmix.node.tool.gone".to_owned()));
    for name in [".pmix.node.tool.gone.lock", ".pmix.node.tool.lonely.lock"] {
        assert!(!session.join(name).exists(), "{name}");
    }
    // A server of the C library has no lock file. It counts as running while its process exists.
    drop(published);
    leave(system, "pmix.sys.node");
    fs::remove_file(system.join(".pmix.sys.node.lock")).unwrap();
    let error = node.publish(Serves::System).unwrap_err();
    assert!(
        matches!(error, RendezvousError::Taken { pid: 1, .. }),
        "{error}"
    );
}

/// In a directory where all users may write, any user could otherwise prevent the start of a
/// server.
#[test]
fn locks_of_others_delay_no_server() {
    let node = Node::new();
    fs::set_permissions(node.root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let lock = node.root.path().join(".pmix.sys.node.lock");
    let victim = node.root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &lock).unwrap();
    drop(node.publish(Serves::System).unwrap());
    assert!(victim.exists() && !lock.exists());
}

#[needs(root)]
#[test]
fn lock_held_by_another_user_delays_no_server() {
    let node = Node::new();
    fs::set_permissions(node.root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let lock = node.root.path().join(".pmix.sys.node.lock");
    fs::write(&lock, "").unwrap();
    std::os::unix::fs::chown(&lock, Some(65_534), None).unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    drop(node.publish(Serves::System).unwrap());
}

#[test]
fn foreign_session_directory_does_not_stop_server_of_root() {
    let node = Node::new();
    let settings = RendezvousSettings {
        hostname: "node".to_owned(),
        ..RendezvousSettings::of(|_| None)
    };
    let settings = settings.below(node.root.path().to_owned());
    let uri = "server.0;tcp4://127.0.0.1:54661".parse().unwrap();
    let safe = node.root.path().join("safe");
    // A link may have been created by another user as well.
    symlink("/", &settings.session_dir).unwrap();
    let session = settings.open_session(Some(&safe)).unwrap();
    let published = Rendezvous::publish_in(&session, &settings, &uri, &[]).unwrap();
    assert!(published.paths().all(|path| path.starts_with(&safe)));
    assert!(settings.open_session(None).is_err());
    // A configured directory has no fallback.
    let named = RendezvousSettings {
        session_dir: node.root.path().join("named"),
        ..settings
    };
    symlink("/", &named.session_dir).unwrap();
    assert!(named.open_session(Some(&safe)).is_err());
}

#[test]
fn only_session_or_system_server_is_found_as_such_and_once() {
    let node = Node::new();
    let system = node.root.path().join("pmix.sys.node");
    let first = node.publish(Serves::Session).unwrap();
    assert!(node.files().contains(&"pmix.node.tool".to_owned()) && !system.exists());
    let second = node.publish(Serves::Session).unwrap_err().to_string();
    assert!(
        second.contains("belongs to a running server, process "),
        "{second}"
    );
    drop(first);
    let first = node.publish(Serves::System).unwrap();
    assert!(system.exists());
    drop(first);
    assert!(!system.exists());
}

#[test]
fn files_of_dead_server_are_replaced_and_of_live_one_stay() {
    let node = Node::new();
    drop(node.publish(Serves::Itself).unwrap());
    let leave = |name: &str, pid: u32| {
        let text = format!("old.0;tcp4://127.0.0.1:1\n4.2.2peal\n{pid}\n0:0\n\n\n");
        fs::write(node.session().join(name), text).unwrap();
    };
    leave("pmix.node.tool.job", dead());
    leave("pmix.node.tool.gone", dead());
    leave(".pmix.node.tool.torn.7", dead());
    leave("pmix.other.tool.9", 1);
    fs::write(node.session().join("letter"), "mine").unwrap();
    let _published = node.publish(Serves::Itself).unwrap();
    let files = node.files();
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(
        files.contains(&"letter".to_owned()) && files.contains(&"pmix.other.tool.9".to_owned())
    );
    let job = fs::read_to_string(node.session().join("pmix.node.tool.job")).unwrap();
    assert!(job.starts_with("server.0;"), "{job}");
}

#[test]
fn file_rewritten_by_another_server_is_not_removed() {
    let node = Node::new();
    let published = node.publish(Serves::Itself).unwrap();
    let path = node.session().join("pmix.node.tool.job");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another's").unwrap();
    drop(published);
    assert_eq!(node.files(), ["pmix.node.tool.job"]);
}

#[test]
fn links_and_unsafe_directories_are_refused() {
    let node = Node::new();
    let victim = node.root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    // A link at the name of a file, complete or not.
    drop(node.publish(Serves::Itself).unwrap());
    let pid = std::process::id();
    for name in [
        "pmix.node.tool.job".to_owned(),
        format!(".pmix.node.tool.job.{pid}"),
    ] {
        symlink(&victim, node.session().join(name)).unwrap();
    }
    symlink(&victim, node.root.path().join("pmix.sys.node")).unwrap();
    drop(node.publish(Serves::System).unwrap());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(mode(&victim) & 0o777, 0o644 & mode(&victim));

    // A session or system directory that is no directory, or that all users may write to.
    let refused = |why: &str| {
        let error = node.publish(Serves::System).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    fs::set_permissions(node.root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    refused("other users may remove files in it; its mode is 777, but must be 1777 or 755");
    fs::set_permissions(node.root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    drop(node.publish(Serves::System).unwrap());
    fs::set_permissions(node.session(), fs::Permissions::from_mode(0o1777)).unwrap();
    refused("other users may write to it; its mode is 1777, but must be 755");
    fs::remove_dir_all(node.session()).unwrap();
    symlink(node.root.path(), node.session()).unwrap();
    refused("it is a link or a file; it must be a directory");
}

#[needs(root)]
#[test]
fn session_directory_of_another_user_is_refused() {
    let node = Node::new();
    drop(node.publish(Serves::System).unwrap());
    std::os::unix::fs::chown(node.session(), Some(65_534), None).unwrap();
    let error = node.publish(Serves::System).unwrap_err().to_string();
    assert!(
        error.contains("it belongs to user 65534; it must belong to user 0"),
        "{error}"
    );
}

#[test]
fn namespace_with_path_or_too_long_is_refused() {
    let node = Node::new();
    let uri = "server.0;tcp4://127.0.0.1:54661".parse().unwrap();
    for name in ["../job", "/etc/passwd", &"x".repeat(200)] {
        let nspace = Nspace::new(name).unwrap();
        let error =
            Rendezvous::publish(&node.settings(Serves::Itself), &uri, &[nspace]).unwrap_err();
        assert!(matches!(error, RendezvousError::Nspace(_)), "{error}");
    }
}

#[test]
fn directories_match_those_of_tools() {
    let of = |pairs: &[(&str, &str)]| {
        RendezvousSettings::of(|name| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.into())
        })
    };
    let uid = geteuid().as_raw();
    assert_eq!(of(&[]).session_dir, Path::new(&format!("/tmp/peal-{uid}")));
    assert_eq!(
        of(&[("TMPDIR", "/a"), ("PMIX_SYSTEM_TMPDIR", "/b")]).system_dir,
        Path::new("/b")
    );
    assert_eq!(
        of(&[("TMPDIR", ""), ("TMP", "/c")]).session_dir,
        Path::new(&format!("/c/peal-{uid}"))
    );
    assert_eq!(
        of(&[("PMIX_SERVER_TMPDIR", "/d")]).session_dir,
        Path::new("/d")
    );
}
