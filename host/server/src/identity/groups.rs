//! Unix groups of peers: group ids as reported by the kernel, names as in `/etc/group`.
use peal_model::UnixGroup;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// File of the names of groups. A network directory cannot be queried while a peer waits to
/// connect.
const FILE: &str = "/etc/group";
/// Upper bound of the bytes read from that file.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Upper bound of the groups reported for one process.
const MAX_GROUPS: usize = 1024;

/// Names of the system's groups, at the time when they were read.
#[derive(Debug, Default)]
pub(crate) struct GroupNames {
    names: BTreeMap<u32, String>,
    /// Groups of the last process. The procs of a job have the same ones and share them.
    last: Mutex<Arc<[UnixGroup]>>,
}

impl GroupNames {
    /// Reads the names of this node. If the file cannot be read, groups have ids only.
    pub(crate) fn read() -> GroupNames {
        GroupNames::of(Path::new(FILE)).unwrap_or_else(|error| {
            tracing::debug!(file = FILE, %error, "group file not readable; groups have no names");
            GroupNames::default()
        })
    }

    fn of(file: &Path) -> io::Result<GroupNames> {
        let mut text = Vec::new();
        File::open(file)?
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut text)?;
        let mut names = BTreeMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            let Some((gid, name)) = std::str::from_utf8(line).ok().and_then(entry) else {
                continue;
            };
            // The first entry of an id decides, as in the system's own lookup.
            names.entry(gid).or_insert(name);
        }
        Ok(GroupNames {
            names,
            last: Mutex::default(),
        })
    }

    /// Returns the groups with these ids, without duplicates.
    pub(crate) fn named(&self, gids: &[u32]) -> Arc<[UnixGroup]> {
        let mut groups: Vec<UnixGroup> = Vec::new();
        for gid in gids.iter().take(MAX_GROUPS).copied() {
            if groups.iter().all(|known| known.gid != gid) {
                groups.push(UnixGroup {
                    gid,
                    name: self.names.get(&gid).cloned(),
                });
            }
        }
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if **last != *groups {
            *last = groups.into();
        }
        last.clone()
    }
}

/// Parses a line `name:password:number:members`.
fn entry(line: &str) -> Option<(u32, String)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let _ = fields.next()?;
    let gid = fields.next()?;
    Some((gid.parse().ok()?, name.to_owned())).filter(|(_, name)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_of_file_once_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("group");
        std::fs::write(
            &file,
            b"root:x:0:\nops:x:500:alice,bob\nother:x:500:\n:x:7:\nbroken\nodd:x:x:\n\xff\xff:x:8:\nlast:x:9:",
        )
        .unwrap();
        let names = GroupNames::of(&file).unwrap();
        let told: Vec<(u32, Option<String>)> = names
            .named(&[500, 0, 500, 7, 8, 9])
            .iter()
            .map(|group| (group.gid, group.name.clone()))
            .collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(
            told,
            [
                (500, named("ops")),
                (0, named("root")),
                (7, None),
                (8, None),
                (9, named("last"))
            ]
        );
        assert!(GroupNames::of(&dir.path().join("none")).is_err());
        let many: Vec<u32> = (0..5000).collect();
        assert_eq!(names.named(&many).len(), MAX_GROUPS);
    }
}
