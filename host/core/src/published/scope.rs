//! How far published data reach: a range, seen from the proc that gave it.
use peal_model::{Info, Infos, Nspace, Proc, Range, Status, Value, code, key};

/// Whom a range takes in. Of an item it says who may see it, of a lookup whose items are looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PublicationScope {
    /// The host environment, which looks nothing up.
    Host,
    /// Whoever gave it.
    Proc(Proc),
    /// All on this node: that is everybody here, but another range than the session, so that both can have a key.
    Node,
    /// A job.
    Namespace(Nspace),
    /// All jobs of the user.
    Session,
    /// The same, where a host knows of other sessions.
    Global,
    /// These procs.
    Custom(Vec<Proc>),
}

impl PublicationScope {
    /// What infos say of it. Without a word it is the session.
    pub(super) fn read(by: &Proc, infos: &[Info]) -> Result<PublicationScope, Status> {
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

    /// Whether it takes in this proc, of the same user.
    pub(super) fn admits(&self, proc: &Proc) -> bool {
        match self {
            PublicationScope::Host => false,
            PublicationScope::Proc(one) => one == proc,
            PublicationScope::Namespace(nspace) => *nspace == proc.nspace,
            PublicationScope::Node | PublicationScope::Session | PublicationScope::Global => true,
            PublicationScope::Custom(procs) => procs.iter().any(|named| named.covers(proc)),
        }
    }
}
