//! Who may administer a server: root, the user that it runs as, and the members of the group that the configuration names.
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::{ffi::CString, io};
use thiserror::Error;

/// Who calls, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The process, if it is one that we can see.
    pub pid: Option<i32>,
}

/// The group whose members may administer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdminGroup {
    /// Its number.
    pub gid: u32,
    /// Its name.
    pub name: String,
}

/// Why there is no such group.
#[derive(Debug, Error)]
pub enum UnixGroupError {
    /// Nobody knows it.
    #[error("there is no group {0:?} here; `getent group` lists those there are")]
    Unknown(String),
    /// It cannot be looked up.
    #[error("cannot look up group {name:?}: {source}")]
    LookUp {
        /// Its name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

impl AdminGroup {
    /// Looks a group up. Blocks for as long as the system's directory takes.
    pub fn named(name: &str) -> Result<AdminGroup, UnixGroupError> {
        match Group::from_name(name) {
            Ok(Some(group)) => Ok(AdminGroup {
                gid: group.gid.as_raw(),
                name: group.name,
            }),
            Ok(None) => Err(UnixGroupError::Unknown(name.to_owned())),
            Err(error) => Err(UnixGroupError::LookUp {
                name: name.to_owned(),
                source: error.into(),
            }),
        }
    }
}

/// Who may call.
#[derive(Clone, Debug)]
pub(crate) struct AdminAccess {
    /// The user that the server runs as.
    own: u32,
    group: Option<AdminGroup>,
}

impl AdminAccess {
    pub(crate) fn new(group: Option<AdminGroup>) -> AdminAccess {
        AdminAccess {
            own: rustix::process::geteuid().as_raw(),
            group,
        }
    }

    /// Whether a caller may. Blocks for as long as the system's directory takes.
    pub(crate) fn allows(&self, caller: Caller) -> bool {
        if caller.uid == 0 || caller.uid == self.own {
            return true;
        }
        self.group
            .as_ref()
            .is_some_and(|group| caller.gid == group.gid || is_member(caller, group.gid))
    }

    /// Whether the members of a group may.
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// Who may, in words.
    pub(crate) fn who(&self) -> String {
        let group = self
            .group
            .as_ref()
            .map(|group| format!(", or a member of group {:?}", group.name));
        format!("root, user {}{}", self.own, group.unwrap_or_default())
    }
}

/// Whether a user is in a group besides the one that the process has.
fn is_member(caller: Caller, gid: u32) -> bool {
    let user = User::from_uid(Uid::from_raw(caller.uid)).ok().flatten();
    let name = user.and_then(|user| CString::new(user.name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, Gid::from_raw(caller.gid)).ok());
    groups.is_some_and(|groups| groups.contains(&Gid::from_raw(gid)))
}

/// The group that a user has by default; nothing if nobody knows the user.
pub(crate) fn primary_group(uid: u32) -> Option<u32> {
    User::from_uid(Uid::from_raw(uid))
        .ok()
        .flatten()
        .map(|user| user.gid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, gid: u32) -> Caller {
        Caller {
            uid,
            gid,
            pid: None,
        }
    }

    #[test]
    fn root_the_own_user_and_members_of_the_group_may() {
        let group = AdminGroup {
            gid: 4_000_000,
            name: "admins".into(),
        };
        let access = AdminAccess {
            own: 1000,
            group: Some(group),
        };
        let may = [(0, 0), (1000, 1000), (65_534, 4_000_000)];
        let may_not = [(1001, 1000), (65_534, 65_534), (1, 1), (4_000_000, 1)];
        assert!(
            may.iter()
                .all(|(uid, gid)| access.allows(caller(*uid, *gid)))
        );
        assert!(
            !may_not
                .iter()
                .any(|(uid, gid)| access.allows(caller(*uid, *gid)))
        );
        assert_eq!(
            access.who(),
            "root, user 1000, or a member of group \"admins\""
        );
        let none = AdminAccess {
            own: 1000,
            group: None,
        };
        assert!(!none.allows(caller(65_534, 4_000_000)));
        assert_eq!(none.who(), "root, user 1000");
    }

    #[test]
    fn unix_group_membership_is_read_from_system() {
        // The groups of some user who is in one besides his own; not every machine has such a user.
        let groups = std::fs::read_to_string("/etc/group").unwrap();
        let member = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (gid, members) = (fields.nth(2)?.parse::<u32>().ok()?, fields.next()?);
            let user = User::from_name(members.split(',').next()?).ok()??;
            (user.gid.as_raw() != gid && !user.uid.is_root()).then_some((user, gid))
        });
        if let Some((user, gid)) = member {
            let caller = caller(user.uid.as_raw(), user.gid.as_raw());
            assert!(is_member(caller, gid));
            let access = |gid| AdminAccess {
                own: 0,
                group: Some(AdminGroup {
                    gid,
                    name: "g".into(),
                }),
            };
            assert!(access(gid).allows(caller) && !access(4_000_000).allows(caller));
        }
        assert_eq!(primary_group(0), Some(0));
        assert_eq!(primary_group(4_000_000), None);
        assert_eq!(
            AdminGroup::named("root").unwrap(),
            AdminGroup {
                gid: 0,
                name: "root".into()
            }
        );
        let error = AdminGroup::named("no such group").unwrap_err().to_string();
        assert!(
            error.starts_with("there is no group \"no such group\" here"),
            "{error}"
        );
    }
}
