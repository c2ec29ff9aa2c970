//! The user scope of an event: by default the user of its source.
use peal_model::UserIdentity;
use serde::{Deserialize, Serialize};

/// The users whose procs and hosted handlers may receive an event. The site's handlers and the host
/// environment see it in any case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum UserScope {
    /// All users: an event of the resource manager, or one that a policy granted.
    Everybody,
    /// One user.
    User(u32),
}

impl UserScope {
    /// Returns the default scope of an event from a source with this identity. An event without one
    /// is the resource manager's.
    pub fn of(identity: Option<UserIdentity>) -> UserScope {
        identity.map_or(UserScope::Everybody, |identity| {
            UserScope::User(identity.uid)
        })
    }

    /// Returns true if the scope includes a user. Without a known user, only the scope of all users
    /// does.
    pub fn includes(self, uid: Option<u32>) -> bool {
        match self {
            UserScope::Everybody => true,
            UserScope::User(own) => uid == Some(own),
        }
    }

    /// Returns the one user of the scope; none if it includes all.
    pub(crate) fn user(self) -> Option<u32> {
        match self {
            UserScope::Everybody => None,
            UserScope::User(uid) => Some(uid),
        }
    }
}
