//! Permission to administer a server. Root, the user of the server, and the members of the group
//! `admin.group` have it.
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::{ffi::CString, io};
use thiserror::Error;

/// Credentials of a caller, as reported by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; none if the process is not visible from this PID namespace.
    pub pid: Option<i32>,
}

/// Unix group whose members may administer the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdminGroup {
    /// Group id.
    pub gid: u32,
    /// Group name.
    pub name: String,
}

/// Error of the lookup of a Unix group.
#[derive(Debug, Error)]
pub enum UnixGroupError {
    /// The system knows no group of this name.
    #[error("there is no group {0:?} here; `getent group` lists those there are")]
    Unknown(String),
    /// The lookup failed.
    #[error("cannot look up group {name:?}: {source}")]
    LookUp {
        /// Group name.
        name: String,
        /// System error.
        source: io::Error,
    },
}

impl AdminGroup {
    /// Looks up a group by its name. Blocks while the system's directory service responds.
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

/// Rule that decides which callers may administer.
#[derive(Clone, Debug)]
pub(crate) struct AdminAccess {
    /// User that the server runs as.
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

    /// Returns true for root and the server's user.
    pub(crate) fn is_own(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.own
    }

    /// Returns true for the server's user alone.
    pub(crate) fn is_owner(&self, caller: Caller) -> bool {
        caller.uid == self.own
    }

    /// Returns true if the caller may administer. Blocks while the system's directory service
    /// responds.
    pub(crate) fn allows(&self, caller: Caller) -> bool {
        if self.is_own(caller) {
            return true;
        }
        // Compare the reported group first: the lookup of all groups may query a directory service.
        self.group
            .as_ref()
            .is_some_and(|group| caller.gid == group.gid || is_member(caller, group.gid))
    }

    /// Returns true if an admin group is configured.
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// Describes the permitted callers in words.
    pub(crate) fn admins(&self) -> String {
        let group = self
            .group
            .as_ref()
            .map(|group| format!(", or a member of group {:?}", group.name));
        format!("root, user {}{}", self.own, group.unwrap_or_default())
    }
}

/// Returns true if the user of the caller is a member of the group, by the system's group database.
fn is_member(caller: Caller, gid: u32) -> bool {
    // The kernel reports only one group of the caller, so the others are looked up by its user.
    let user = User::from_uid(Uid::from_raw(caller.uid)).ok().flatten();
    let name = user.and_then(|user| CString::new(user.name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, Gid::from_raw(caller.gid)).ok());
    groups.is_some_and(|groups| groups.contains(&Gid::from_raw(gid)))
}

/// Returns the primary group of a user; none if the user is unknown.
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
    fn root_own_user_and_group_members_may_administer() {
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
            access.admins(),
            "root, user 1000, or a member of group \"admins\""
        );
        let none = AdminAccess {
            own: 1000,
            group: None,
        };
        assert!(!none.allows(caller(65_534, 4_000_000)));
        assert_eq!(none.admins(), "root, user 1000");
    }

    #[test]
    fn unix_group_membership_is_read_from_system() {
        // The groups of a user with a supplementary group. Some machines have no such user.
        let groups = std::fs::read_to_string("/etc/group").unwrap();
        let member = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let gid = fields.nth(2)?.parse::<u32>().ok()?;
            let members = fields.next()?;
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
