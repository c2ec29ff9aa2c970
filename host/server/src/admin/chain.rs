//! The hosted chains as they are said on the admin socket.
use crate::chains::Standing;
use peal_core::{
    audience::ProcSet,
    class::Levels,
    owner::Owner,
    registration::{Codes, Lifetime, Place, Registration, Sources},
};
use peal_model::{IdentError, Nspace, Proc, Rank, Status};
use serde::{Deserialize, Serialize};

/// An owner's chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Chain {
    /// Whose it is.
    pub owner: ChainOwner,
    /// Its handlers, in the order in which they run.
    pub handlers: Vec<ChainHandler>,
}

/// Whose chain it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainOwner {
    /// The site's.
    Site,
    /// A user's.
    User(u32),
    /// A job's.
    Namespace(String),
}

/// A handler in a chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChainHandler {
    /// The number of its registration, in this chain.
    pub registration: u64,
    /// What it is called.
    pub name: String,
    /// The module that is called.
    pub module: String,
    /// The codes that it is for; none means all.
    pub codes: Vec<i32>,
    /// Where it asked to stand.
    pub place: ChainPlace,
    /// Whether it is called only once.
    pub oneshot: bool,
    /// The classes of events that it is for.
    pub levels: ChainLevels,
    /// Whose events it is for.
    pub sources: ChainSources,
    /// If any procs are named, it is only for events that affect one of them.
    pub affected: Vec<ChainProc>,
}

/// A proc: its namespace and rank.
pub type ChainProc = (String, u32);

/// The classes of events that a handler is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainLevels {
    /// None.
    Neither,
    /// Those about jobs.
    JobSpecific,
    /// Those of the environment.
    Environment,
    /// All.
    Both,
}

/// Whose events a handler is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainSources {
    /// Anybody's.
    Anybody,
    /// Those of the resource manager.
    ResourceManager,
    /// Those of these procs.
    Procs(Vec<ChainProc>),
}

/// Where a handler asked to stand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainPlace {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Before all others of its category.
    FirstInCategory,
    /// After all others of its category.
    LastInCategory,
    /// At the front of its category's list.
    Prepend,
    /// At the end of its category's list.
    Append,
    /// Before the first of this name.
    Before(String),
    /// After the first of this name.
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

impl From<&Place> for ChainPlace {
    fn from(place: &Place) -> ChainPlace {
        match place {
            Place::First => ChainPlace::First,
            Place::Last => ChainPlace::Last,
            Place::FirstInCategory => ChainPlace::FirstInCategory,
            Place::LastInCategory => ChainPlace::LastInCategory,
            Place::Prepend => ChainPlace::Prepend,
            Place::Append => ChainPlace::Append,
            Place::Before(name) => ChainPlace::Before(name.clone()),
            Place::After(name) => ChainPlace::After(name.clone()),
        }
    }
}

impl From<&ChainPlace> for Place {
    fn from(place: &ChainPlace) -> Place {
        match place {
            ChainPlace::First => Place::First,
            ChainPlace::Last => Place::Last,
            ChainPlace::FirstInCategory => Place::FirstInCategory,
            ChainPlace::LastInCategory => Place::LastInCategory,
            ChainPlace::Prepend => Place::Prepend,
            ChainPlace::Append => Place::Append,
            ChainPlace::Before(name) => Place::Before(name.clone()),
            ChainPlace::After(name) => Place::After(name.clone()),
        }
    }
}

impl From<Levels> for ChainLevels {
    fn from(levels: Levels) -> ChainLevels {
        match levels {
            Levels::Neither => ChainLevels::Neither,
            Levels::JobSpecific => ChainLevels::JobSpecific,
            Levels::Environment => ChainLevels::Environment,
            Levels::Both => ChainLevels::Both,
        }
    }
}

impl From<ChainLevels> for Levels {
    fn from(levels: ChainLevels) -> Levels {
        match levels {
            ChainLevels::Neither => Levels::Neither,
            ChainLevels::JobSpecific => Levels::JobSpecific,
            ChainLevels::Environment => Levels::Environment,
            ChainLevels::Both => Levels::Both,
        }
    }
}

impl From<&Sources> for ChainSources {
    fn from(sources: &Sources) -> ChainSources {
        match sources {
            Sources::Anybody => ChainSources::Anybody,
            Sources::ResourceManager => ChainSources::ResourceManager,
            Sources::These(procs) => ChainSources::Procs(procs.iter().map(said).collect()),
        }
    }
}

impl TryFrom<&ChainSources> for Sources {
    type Error = IdentError;

    fn try_from(sources: &ChainSources) -> Result<Sources, IdentError> {
        Ok(match sources {
            ChainSources::Anybody => Sources::Anybody,
            ChainSources::ResourceManager => Sources::ResourceManager,
            ChainSources::Procs(procs) => Sources::These(ProcSet::of(meant(procs)?)),
        })
    }
}

fn said(proc: &Proc) -> ChainProc {
    (proc.nspace.to_string(), proc.rank.0)
}

fn meant(procs: &[ChainProc]) -> Result<Vec<Proc>, IdentError> {
    procs
        .iter()
        .map(|(nspace, rank)| Ok(Proc::new(Nspace::new(nspace)?, Rank(*rank))))
        .collect()
}

impl From<&Standing> for ChainHandler {
    fn from(standing: &Standing) -> ChainHandler {
        let Standing {
            id,
            registration,
            module,
        } = standing;
        let codes = match &registration.codes {
            Codes::Single(code) => vec![code.0],
            Codes::Multi(codes) => codes.iter().map(|code| code.0).collect(),
            Codes::Default => Vec::new(),
        };
        ChainHandler {
            registration: id.0,
            name: registration.name.to_string(),
            module: module.clone(),
            codes,
            place: (&registration.place).into(),
            oneshot: registration.lifetime == Lifetime::OneShot,
            levels: registration.levels.into(),
            sources: (&registration.sources).into(),
            affected: registration.affected.iter().map(said).collect(),
        }
    }
}

impl TryFrom<&ChainHandler> for Registration {
    type Error = IdentError;

    fn try_from(handler: &ChainHandler) -> Result<Registration, IdentError> {
        let codes: Vec<Status> = handler.codes.iter().copied().map(Status).collect();
        Ok(Registration {
            place: (&handler.place).into(),
            lifetime: if handler.oneshot {
                Lifetime::OneShot
            } else {
                Lifetime::Standing
            },
            levels: handler.levels.into(),
            sources: (&handler.sources).try_into()?,
            affected: meant(&handler.affected)?,
            ..Registration::new(&handler.name, Codes::of(&codes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::registration::RegistrationId;

    #[test]
    fn what_is_said_of_a_handler_is_what_it_asked_for() {
        let places = [
            Place::First,
            Place::Last,
            Place::FirstInCategory,
            Place::LastInCategory,
            Place::Prepend,
        ];
        let beside = [
            Place::Append,
            Place::Before("a".into()),
            Place::After("b".into()),
        ];
        for (at, place) in places.into_iter().chain(beside).enumerate() {
            let job = vec![Proc::all(Nspace::new("job").unwrap())];
            let codes = (0..at)
                .map(|code| Status(-1 - i32::try_from(code).unwrap()))
                .collect::<Vec<_>>();
            let registration = Registration {
                place,
                lifetime: if at % 2 == 0 {
                    Lifetime::OneShot
                } else {
                    Lifetime::Standing
                },
                levels: [
                    Levels::Both,
                    Levels::Neither,
                    Levels::Environment,
                    Levels::JobSpecific,
                ][at % 4],
                sources: [
                    Sources::Anybody,
                    Sources::ResourceManager,
                    Sources::These(ProcSet::of(job.clone())),
                ][at % 3]
                    .clone(),
                affected: job.clone(),
                ..Registration::new("name", Codes::of(&codes))
            };
            let standing = Standing {
                id: RegistrationId(7),
                registration: registration.clone().into(),
                module: "m".into(),
            };
            let said = serde_json::to_string(&ChainHandler::from(&standing)).unwrap();
            let heard: ChainHandler = serde_json::from_str(&said).unwrap();
            assert_eq!(
                (Registration::try_from(&heard).unwrap(), heard.registration),
                (registration, 7),
                "{said}"
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
