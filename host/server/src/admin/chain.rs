//! Representation of hosted chains on the admin socket.
use crate::chains::RegisteredHandler;
use peal_core::{
    audience::ProcSet,
    class::ClassFilter,
    owner::Owner,
    registration::{
        ChainPlacement, EventCodes, HandlerLocation, HandlerRegistration, Lifetime, SourceFilter,
    },
};
use peal_model::{IdentError, Nspace, Proc, Rank, Status};
use serde::{Deserialize, Serialize};

/// Chain of an owner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Chain {
    /// Owner of the chain.
    pub owner: ChainOwner,
    /// Handlers, in the order in which they run.
    pub handlers: Vec<ChainHandler>,
}

/// Owner of a chain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainOwner {
    /// The site.
    Site,
    /// The user with this id.
    User(u32),
    /// The job of this namespace.
    Namespace(String),
}

/// Handler in a chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChainHandler {
    /// Number of the registration, unique in its chain.
    pub registration: u64,
    /// Name of the handler.
    pub name: String,
    /// Name of the module that is called.
    pub module: String,
    /// Codes of the registration; empty for a default registration, which matches all codes.
    pub codes: Vec<i32>,
    /// Placement that was requested.
    pub place: ChainPlace,
    /// True if the handler is called only once.
    pub oneshot: bool,
    /// Servers at which the handler is called.
    pub location: ChainLocation,
    /// Event classes of the registration.
    pub levels: ChainLevels,
    /// Sources of the registration.
    pub sources: ChainSources,
    /// Procs of which an event must affect one; empty if the registration has no such filter.
    pub affected: Vec<ChainProc>,
}

/// Namespace and rank of a proc.
pub type ChainProc = (String, u32);

/// Event classes for which a handler is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainLevels {
    /// No class.
    Neither,
    /// Job-specific events.
    JobSpecific,
    /// Environment events.
    Environment,
    /// Both classes.
    Both,
}

/// Event sources for which a handler is registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainSources {
    /// Every source.
    Any,
    /// The resource manager.
    ResourceManager,
    /// These procs.
    Procs(Vec<ChainProc>),
}

/// Servers at which a handler is called for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainLocation {
    /// The server at which the event was raised.
    Origin,
    /// Each server that the event reaches.
    EachNode,
}

/// Placement that a handler requested.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainPlace {
    /// Before all other handlers.
    First,
    /// After all other handlers.
    Last,
    /// Before all other handlers of its category.
    FirstInCategory,
    /// After all other handlers of its category.
    LastInCategory,
    /// At the front of its category's list.
    Prepend,
    /// At the end of its category's list.
    Append,
    /// Before the first handler of this name.
    Before(String),
    /// After the first handler of this name.
    After(String),
}

impl From<&Owner> for ChainOwner {
    fn from(owner: &Owner) -> ChainOwner {
        match owner {
            Owner::Site => ChainOwner::Site,
            Owner::User(uid) => ChainOwner::User(*uid),
            Owner::Namespace(nspace) => ChainOwner::Namespace(nspace.to_string()),
        }
    }
}

impl TryFrom<&ChainOwner> for Owner {
    type Error = IdentError;

    fn try_from(owner: &ChainOwner) -> Result<Owner, IdentError> {
        Ok(match owner {
            ChainOwner::Site => Owner::Site,
            ChainOwner::User(uid) => Owner::User(*uid),
            ChainOwner::Namespace(nspace) => Owner::Namespace(Nspace::new(nspace)?),
        })
    }
}

impl From<&ChainPlacement> for ChainPlace {
    fn from(place: &ChainPlacement) -> ChainPlace {
        match place {
            ChainPlacement::First => ChainPlace::First,
            ChainPlacement::Last => ChainPlace::Last,
            ChainPlacement::FirstInCategory => ChainPlace::FirstInCategory,
            ChainPlacement::LastInCategory => ChainPlace::LastInCategory,
            ChainPlacement::Prepend => ChainPlace::Prepend,
            ChainPlacement::Append => ChainPlace::Append,
            ChainPlacement::Before(name) => ChainPlace::Before(name.clone()),
            ChainPlacement::After(name) => ChainPlace::After(name.clone()),
        }
    }
}

impl From<&ChainPlace> for ChainPlacement {
    fn from(place: &ChainPlace) -> ChainPlacement {
        match place {
            ChainPlace::First => ChainPlacement::First,
            ChainPlace::Last => ChainPlacement::Last,
            ChainPlace::FirstInCategory => ChainPlacement::FirstInCategory,
            ChainPlace::LastInCategory => ChainPlacement::LastInCategory,
            ChainPlace::Prepend => ChainPlacement::Prepend,
            ChainPlace::Append => ChainPlacement::Append,
            ChainPlace::Before(name) => ChainPlacement::Before(name.clone()),
            ChainPlace::After(name) => ChainPlacement::After(name.clone()),
        }
    }
}

impl From<ClassFilter> for ChainLevels {
    fn from(levels: ClassFilter) -> ChainLevels {
        match levels {
            ClassFilter::Neither => ChainLevels::Neither,
            ClassFilter::JobSpecific => ChainLevels::JobSpecific,
            ClassFilter::Environment => ChainLevels::Environment,
            ClassFilter::Both => ChainLevels::Both,
        }
    }
}

impl From<ChainLevels> for ClassFilter {
    fn from(levels: ChainLevels) -> ClassFilter {
        match levels {
            ChainLevels::Neither => ClassFilter::Neither,
            ChainLevels::JobSpecific => ClassFilter::JobSpecific,
            ChainLevels::Environment => ClassFilter::Environment,
            ChainLevels::Both => ClassFilter::Both,
        }
    }
}

impl From<HandlerLocation> for ChainLocation {
    fn from(location: HandlerLocation) -> ChainLocation {
        match location {
            HandlerLocation::Origin => ChainLocation::Origin,
            HandlerLocation::EachNode => ChainLocation::EachNode,
        }
    }
}

impl From<ChainLocation> for HandlerLocation {
    fn from(location: ChainLocation) -> HandlerLocation {
        match location {
            ChainLocation::Origin => HandlerLocation::Origin,
            ChainLocation::EachNode => HandlerLocation::EachNode,
        }
    }
}

impl From<&SourceFilter> for ChainSources {
    fn from(sources: &SourceFilter) -> ChainSources {
        match sources {
            SourceFilter::Any => ChainSources::Any,
            SourceFilter::ResourceManager => ChainSources::ResourceManager,
            SourceFilter::These(procs) => {
                ChainSources::Procs(procs.iter().map(to_chain_proc).collect())
            }
        }
    }
}

impl TryFrom<&ChainSources> for SourceFilter {
    type Error = IdentError;

    fn try_from(sources: &ChainSources) -> Result<SourceFilter, IdentError> {
        Ok(match sources {
            ChainSources::Any => SourceFilter::Any,
            ChainSources::ResourceManager => SourceFilter::ResourceManager,
            ChainSources::Procs(procs) => SourceFilter::These(ProcSet::of(parse_procs(procs)?)),
        })
    }
}

fn to_chain_proc(proc: &Proc) -> ChainProc {
    (proc.nspace.to_string(), proc.rank.0)
}

fn parse_procs(procs: &[ChainProc]) -> Result<Vec<Proc>, IdentError> {
    procs
        .iter()
        .map(|(nspace, rank)| Ok(Proc::new(Nspace::new(nspace)?, Rank(*rank))))
        .collect()
}

impl From<&(Owner, Vec<RegisteredHandler>)> for Chain {
    fn from((owner, handlers): &(Owner, Vec<RegisteredHandler>)) -> Chain {
        Chain {
            owner: owner.into(),
            handlers: handlers.iter().map(ChainHandler::from).collect(),
        }
    }
}

impl From<&RegisteredHandler> for ChainHandler {
    fn from(handler: &RegisteredHandler) -> ChainHandler {
        let RegisteredHandler {
            id,
            registration,
            module,
        } = handler;
        let codes = match &registration.codes {
            EventCodes::Single(code) => vec![code.0],
            EventCodes::Multi(codes) => codes.iter().map(|code| code.0).collect(),
            EventCodes::Default => Vec::new(),
        };
        ChainHandler {
            registration: id.0,
            name: registration.name.to_string(),
            module: module.clone(),
            codes,
            place: (&registration.place).into(),
            oneshot: registration.lifetime == Lifetime::OneShot,
            location: registration.location.into(),
            levels: registration.levels.into(),
            sources: (&registration.sources).into(),
            affected: registration.affected.iter().map(to_chain_proc).collect(),
        }
    }
}

impl TryFrom<&ChainHandler> for HandlerRegistration {
    type Error = IdentError;

    fn try_from(handler: &ChainHandler) -> Result<HandlerRegistration, IdentError> {
        let codes: Vec<Status> = handler.codes.iter().copied().map(Status).collect();
        Ok(HandlerRegistration {
            place: (&handler.place).into(),
            lifetime: if handler.oneshot {
                Lifetime::OneShot
            } else {
                Lifetime::Standing
            },
            location: handler.location.into(),
            levels: handler.levels.into(),
            sources: (&handler.sources).try_into()?,
            affected: parse_procs(&handler.affected)?,
            ..HandlerRegistration::new(&handler.name, EventCodes::of(&codes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::registration::RegistrationId;

    #[test]
    fn chain_entry_shows_requested_placement() {
        let places = [
            ChainPlacement::First,
            ChainPlacement::Last,
            ChainPlacement::FirstInCategory,
            ChainPlacement::LastInCategory,
            ChainPlacement::Prepend,
        ];
        let beside = [
            ChainPlacement::Append,
            ChainPlacement::Before("a".into()),
            ChainPlacement::After("b".into()),
        ];
        for (at, place) in places.into_iter().chain(beside).enumerate() {
            let job = vec![Proc::all(Nspace::new("job").unwrap())];
            let codes = (0..at)
                .map(|code| Status(-1 - i32::try_from(code).unwrap()))
                .collect::<Vec<_>>();
            let registration = HandlerRegistration {
                place,
                lifetime: if at % 2 == 0 {
                    Lifetime::OneShot
                } else {
                    Lifetime::Standing
                },
                levels: [
                    ClassFilter::Both,
                    ClassFilter::Neither,
                    ClassFilter::Environment,
                    ClassFilter::JobSpecific,
                ][at % 4],
                sources: [
                    SourceFilter::Any,
                    SourceFilter::ResourceManager,
                    SourceFilter::These(ProcSet::of(job.clone())),
                ][at % 3]
                    .clone(),
                affected: job.clone(),
                location: [HandlerLocation::Origin, HandlerLocation::EachNode][at % 2],
                ..HandlerRegistration::new("name", EventCodes::of(&codes))
            };
            let handler = RegisteredHandler {
                id: RegistrationId(7),
                registration: registration.clone().into(),
                module: "m".into(),
            };
            let json = serde_json::to_string(&ChainHandler::from(&handler)).unwrap();
            let parsed: ChainHandler = serde_json::from_str(&json).unwrap();
            assert_eq!(
                (
                    HandlerRegistration::try_from(&parsed).unwrap(),
                    parsed.registration
                ),
                (registration, 7),
                "{json}"
            );
        }
        for owner in [
            Owner::Site,
            Owner::User(7),
            Owner::Namespace(Nspace::new("job").unwrap()),
        ] {
            assert_eq!(Owner::try_from(&ChainOwner::from(&owner)), Ok(owner));
        }
    }
}
