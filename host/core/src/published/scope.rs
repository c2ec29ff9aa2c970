//! The scope of published data: a range, relative to the proc that gave it.
use peal_model::{Info, Infos, Nspace, Proc, Range, Status, Value, code, key};
use serde::{Deserialize, Serialize};

/// The procs that a range includes: of an item those that may see it, of a lookup those that
/// published the items it may find.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PublicationScope {
    /// The host environment, which looks nothing up.
    Host,
    /// The proc that gave the range.
    Proc(Proc),
    /// All procs of one server, which is that of the node.
    Node,
    /// A job.
    Namespace(Nspace),
    /// All jobs of the user.
    Session,
    /// All jobs of the user, across sessions where the host environment has several. The procs are those
    /// of the session, but it is another range, so both may contain a key.
    Global,
    /// These procs.
    Custom(Vec<Proc>),
}

/// Servers of a publisher and of a proc that looks up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServerRelation {
    /// Both procs are at one server.
    Same,
    /// They are at two servers.
    Other,
}

impl PublicationScope {
    /// Parses the scope in infos. The default is the session.
    pub(super) fn read(by: &Proc, infos: &[Info]) -> Result<PublicationScope, Status> {
        // The same as the session, which is the default.
        let range = match infos.value_of(key::PMIX_RANGE) {
            None => Range::Undef,
            Some(value) => value.as_range().ok_or(code::PMIX_ERR_BAD_PARAM)?,
        };
        Ok(match range {
            Range::Rm => PublicationScope::Host,
            Range::ProcLocal => PublicationScope::Proc(by.clone()),
            Range::Local => PublicationScope::Node,
            Range::Namespace => PublicationScope::Namespace(by.nspace.clone()),
            Range::Undef | Range::Session => PublicationScope::Session,
            Range::Global => PublicationScope::Global,
            Range::Custom => {
                let procs = infos
                    .value_of(key::PMIX_EVENT_CUSTOM_RANGE)
                    .and_then(Value::as_procs);
                PublicationScope::Custom(procs.ok_or(code::PMIX_ERR_BAD_PARAM)?)
            }
        })
    }

    /// Returns true if items of this scope may be seen at other servers than that of their publisher.
    pub fn is_shared(&self) -> bool {
        match self {
            PublicationScope::Host | PublicationScope::Proc(_) | PublicationScope::Node => false,
            PublicationScope::Namespace(_)
            | PublicationScope::Session
            | PublicationScope::Global
            | PublicationScope::Custom(_) => true,
        }
    }

    /// Returns true if a proc may have given this scope.
    pub fn is_of(&self, proc: &Proc) -> bool {
        match self {
            PublicationScope::Proc(one) => one == proc,
            PublicationScope::Namespace(nspace) => *nspace == proc.nspace,
            PublicationScope::Host
            | PublicationScope::Node
            | PublicationScope::Session
            | PublicationScope::Global
            | PublicationScope::Custom(_) => true,
        }
    }

    /// Returns true if the scope includes a proc of the same user.
    pub(super) fn admits(&self, proc: &Proc, relation: ServerRelation) -> bool {
        match self {
            PublicationScope::Host => false,
            PublicationScope::Proc(one) => one == proc,
            PublicationScope::Namespace(nspace) => *nspace == proc.nspace,
            PublicationScope::Node => relation == ServerRelation::Same,
            PublicationScope::Session | PublicationScope::Global => true,
            PublicationScope::Custom(procs) => procs.iter().any(|named| named.covers(proc)),
        }
    }

    /// Returns the memory of the scope, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            PublicationScope::Custom(procs) => crate::server_message::bytes_of_procs(procs.len()),
            _ => 0,
        }
    }
}
