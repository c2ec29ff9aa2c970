//! Which users an event reaches: that of its source, unless somebody granted it more.
use peal_model::UserIdentity;

/// Which users' procs and hosted handlers an event may reach. The site's handlers and the host environment see it either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserScope {
    /// Those of every user: an event of the resource manager, or one that a policy granted.
    Everybody,
    /// Those of this user only.
    User(u32),
}

impl UserScope {
    /// That of an event of somebody who runs as this, when nothing was granted; nobody's event is the resource manager's.
    pub fn of(identity: Option<UserIdentity>) -> UserScope {
        identity.map_or(UserScope::Everybody, |identity| {
            UserScope::User(identity.uid)
        })
    }

    /// Whether it includes this user. Who is nobody is reached only by what is for everybody.
    pub fn includes(self, uid: Option<u32>) -> bool {
        match self {
            UserScope::Everybody => true,
            UserScope::User(own) => uid == Some(own),
        }
    }

    /// The one user whom it includes; none if it includes all.
    pub(crate) fn user(self) -> Option<u32> {
        match self {
            UserScope::Everybody => None,
            UserScope::User(uid) => Some(uid),
        }
    }
}
