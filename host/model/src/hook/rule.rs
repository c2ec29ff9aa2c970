//! Built-in rules: permissions where no policy decides. `peal-core` applies them.
use crate::{ConnectionKind, Value};

/// The rule of a hook, with the data of the request that it needs beside the requester and the
/// targets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BuiltInRule<'a> {
    /// Grants every request.
    Grant,
    /// Grants every request, even if the site's default for the hook is to deny. A default of
    /// `deny` restricts raising events, not receiving those of the resource manager.
    GrantAlways,
    /// Denies every request, because only a policy can provide what is requested.
    PolicyOnly,
    /// Grants to a client if its proc belongs to its user, to a tool if it is of root or of the
    /// server's user, or if all targets belong to its user.
    OwnConnection(ConnectionKind),
    /// Grants unless the requester claims that another proc is the source.
    OwnSource {
        /// The claimed source.
        claimed: Option<&'a Value>,
    },
    /// Grants if all targets and all named users are known and those of the requester, and to the
    /// site's own modules.
    OwnTargets {
        /// The users that the request names.
        users: &'a [u32],
    },
    /// Grants as [`BuiltInRule::OwnTargets`] does, and to root if the targets are known.
    OwnTargetsOrRoot,
    /// Grants if no target is known to belong to another user.
    NoForeignTargets,
    /// Grants if all targets and all users named by `PMIX_USERID` in these lists are those of the
    /// requester.
    OwnUserIds {
        /// The lists.
        infos: [&'a [crate::Info]; 2],
    },
}
