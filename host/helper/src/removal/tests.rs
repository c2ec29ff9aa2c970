//! Tests of the removal: real directories compared with a model, and directories that another
//! process changes at the same time.
use super::*;
use peal_model::UserIdentity;
use peal_needs::needs;
use peal_system::as_user;
use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const BOUNDS: RemovalBounds = RemovalBounds {
    entries: 1000,
    depth: 10,
};

fn cleanup(directories: &[&Path]) -> Cleanup {
    Cleanup {
        procs: Vec::new(),
        files: BTreeSet::new(),
        directories: directories.iter().map(|path| path.to_path_buf()).collect(),
        depth: Depth::Recursive,
        subdirectories: Subdirectories::All,
        top: TopDirectory::Remove,
        ignored: BTreeSet::new(),
    }
}

/// Entry of a directory.
#[derive(Clone, PartialEq, Debug)]
enum Node {
    File,
    /// Link to a directory outside.
    Link,
    Directory(BTreeMap<String, Node>),
}

impl Node {
    fn make(&self, at: &Path, elsewhere: &Path) {
        match self {
            Node::File => fs::write(at, "").unwrap(),
            Node::Link => symlink(elsewhere, at).unwrap(),
            Node::Directory(nodes) => {
                fs::create_dir(at).unwrap();
                nodes
                    .iter()
                    .for_each(|(name, node)| node.make(&at.join(name), elsewhere));
            }
        }
    }

    fn read(at: &Path) -> Option<Node> {
        let kind = fs::symlink_metadata(at).ok()?.file_type();
        if kind.is_symlink() {
            return Some(Node::Link);
        }
        if kind.is_file() {
            return Some(Node::File);
        }
        let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap());
        let nodes = entries.map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                Node::read(&entry.path()).unwrap(),
            )
        });
        Some(Node::Directory(nodes.collect()))
    }

    /// Returns the entries expected to remain, at a depth of `below` under the registered
    /// directory.
    fn left(self, below: usize, cleanup: &Cleanup) -> Option<Node> {
        let Node::Directory(nodes) = self else {
            return (cleanup.subdirectories == Subdirectories::OnlyEmpty).then_some(self);
        };
        let enters = below == 0 || cleanup.depth == Depth::Recursive;
        let left = |(name, node): (String, Node)| {
            let stays = !enters || cleanup.ignored.contains(OsStr::new(&name));
            Some((
                name,
                if stays {
                    node
                } else {
                    node.left(below + 1, cleanup)?
                },
            ))
        };
        let nodes: BTreeMap<String, Node> = nodes.into_iter().filter_map(left).collect();
        let may_go = match below {
            0 => cleanup.top == TopDirectory::Remove,
            _ => enters || cleanup.subdirectories == Subdirectories::OnlyEmpty,
        };
        (!may_go || !nodes.is_empty()).then_some(Node::Directory(nodes))
    }
}

fn nodes() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![3 => Just(Node::File), 1 => Just(Node::Link), 1 => Just(Node::Directory(BTreeMap::new()))];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop::collection::btree_map("[abc]", inner, 0..4).prop_map(Node::Directory)
    })
}

proptest! {
    #[test]
    fn remaining_files_equal_model(
        nodes in prop::collection::btree_map("[abcd]", nodes(), 0..5),
        ignored in prop::collection::btree_set("[abcd]", 0..2),
        ways in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("a"), "").unwrap();
        let (deep, empty, leave) = ways;
        let wanted = Cleanup {
            depth: if deep { Depth::Recursive } else { Depth::Flat },
            subdirectories: if empty { Subdirectories::OnlyEmpty } else { Subdirectories::All },
            top: if leave { TopDirectory::Leave } else { TopDirectory::Remove },
            ignored: ignored.into_iter().map(OsString::from).collect(),
            ..cleanup(&[&top])
        };
        let tree = Node::Directory(nodes);
        tree.make(&top, &elsewhere);
        prop_assert_eq!(remove(&wanted, BOUNDS), RemovalExtent::Nothing);
        prop_assert_eq!(Node::read(&top), tree.left(0, &wanted));
        prop_assert!(elsewhere.join("a").exists());
    }
}

#[test]
fn directories_within_each_other_all_go() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("a/b/c")).unwrap();
    ["a/1", "a/b/2", "a/b/c/3"]
        .iter()
        .for_each(|name| fs::write(at(name), "").unwrap());
    let flat = cleanup(&[&at("a"), &at("a/b"), &at("a/b/c")]);
    assert_eq!(
        remove(
            &Cleanup {
                depth: Depth::Flat,
                ..flat
            },
            BOUNDS
        ),
        RemovalExtent::Nothing
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn entries_of_other_kind_are_left_and_links_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("real/sub")).unwrap();
    fs::write(at("real/file"), "").unwrap();
    fs::write(at("file"), "").unwrap();
    symlink(at("real"), at("link")).unwrap();
    let real = at("real");
    let link = at("link");
    let wrong = Cleanup {
        files: [real.clone(), at("link/file")].into(),
        ..cleanup(&[&link, &at("file"), &at("link/sub")])
    };
    assert_eq!(remove(&wrong, BOUNDS), RemovalExtent::Nothing);
    assert!(
        at("real/file").exists()
            && at("real/sub").exists()
            && at("file").exists()
            && at("link").exists()
    );
    let right = Cleanup {
        files: [link, at("file")].into(),
        ..cleanup(&[&real])
    };
    assert_eq!(remove(&right, BOUNDS), RemovalExtent::Nothing);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "a link itself is a file"
    );
}

#[test]
fn removal_stays_within_bounds_of_number_and_depth() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("top");
    fs::create_dir_all(top.join("1/2/3")).unwrap();
    (0..9).for_each(|number| fs::write(top.join(format!("file{number}")), "").unwrap());
    let few = RemovalBounds {
        entries: 5,
        depth: 1,
    };
    assert_eq!(remove(&cleanup(&[&top]), few), RemovalExtent::Beyond);
    assert!(fs::read_dir(&top).unwrap().count() >= 5);
    let shallow = RemovalBounds { depth: 1, ..BOUNDS };
    assert_eq!(remove(&cleanup(&[&top]), shallow), RemovalExtent::Beyond);
    assert!(top.join("1/2/3").exists());
    assert_eq!(
        remove(&cleanup(&[&top]), RemovalBounds { depth: 3, ..BOUNDS }),
        RemovalExtent::Nothing
    );
    assert!(!top.exists());
}

/// Attack: another thread repeatedly replaces a directory by a link, so that the removal would
/// delete files elsewhere.
#[test]
fn a_link_that_is_swapped_in_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (top, sub, spare, precious) = (
        dir.path().join("top"),
        dir.path().join("top/sub"),
        dir.path().join("spare"),
        dir.path().join("precious"),
    );
    fs::create_dir_all(precious.join("deep")).unwrap();
    let kept: Vec<PathBuf> = (0..20)
        .map(|number| precious.join(format!("deep/file{number}")))
        .collect();
    kept.iter().for_each(|path| fs::write(path, "").unwrap());
    symlink(&precious, &spare).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Both are created again, whichever was removed.
                let _ = fs::create_dir_all(sub.join("deep"));
                let _ = fs::write(sub.join("deep/file0"), "");
                let _ = symlink(&precious, &spare);
                let _ = renameat_with(CWD, &sub, CWD, &spare, RenameFlags::EXCHANGE);
                if fs::symlink_metadata(&spare).is_ok_and(|spare| spare.is_dir()) {
                    let _ = fs::remove_dir_all(&spare);
                }
            }
        });
        for _ in 0..2000 {
            remove(&cleanup(&[&top]), BOUNDS);
            remove(&cleanup(&[&sub.join("deep")]), BOUNDS);
            let file = Cleanup {
                files: [sub.join("deep/file0")].into(),
                ..cleanup(&[])
            };
            remove(&file, BOUNDS);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(
        kept.iter().all(|path| path.exists()),
        "a file outside of the directory was removed"
    );
}

#[needs(root)]
#[test]
fn nothing_goes_that_the_requester_could_not_remove() {
    const SOMEBODY: UserIdentity = UserIdentity {
        uid: 54_321,
        gid: 54_322,
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let all = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(dir.path(), all(0o755)).unwrap();
    for (name, mode) in [("etc", 0o755), ("sticky", 0o1777), ("theirs", 0o755)] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("file"), "").unwrap();
        fs::set_permissions(at(name), all(mode)).unwrap();
    }
    let theirs = ["theirs", "theirs/file", "sticky/own"];
    fs::write(at("sticky/own"), "").unwrap();
    theirs
        .iter()
        .for_each(|name| chown(at(name), Some(SOMEBODY.uid), Some(SOMEBODY.gid)).unwrap());
    let registered = Cleanup {
        files: [at("etc/file"), at("sticky/file"), at("sticky/own")].into(),
        ..cleanup(&[&at("etc"), &at("sticky"), &at("theirs")])
    };
    as_user::run(SOMEBODY, || remove(&registered, BOUNDS)).unwrap();
    let there = [
        "etc/file",
        "sticky/file",
        "sticky/own",
        "theirs/file",
        "theirs",
    ]
    .map(|name| at(name).exists());
    // The directory `theirs` remains, since the user may not change its parent.
    assert_eq!(there, [true, true, false, false, true]);
}
