//! Position of each hosted handler in the order of the chains, and the reason for it: as a table of all
//! handlers, or of those that an event would reach.
use super::chain::{Chain, ChainHandler};
use peal_core::{
    class::{Class, ClassFilter},
    owner::Owner,
    registration::{
        ChainPlacement, EventCodes, HandlerLocation, HandlerRegistration, SourceFilter,
    },
    user_scope::UserScope,
};
use peal_model::{Event, IdentError, Nspace, Proc, Status};
use std::fmt;

/// Reason why a handler does not receive an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedOver {
    /// The event does not concern the procs of the chain's owner.
    Owner,
    /// The handler is registered for other codes.
    Code,
    /// The event is marked non-default, and the handler is a default registration.
    NonDefault,
    /// The handler is registered for the other class.
    Class,
    /// The event has another source than the handler accepts.
    Source,
    /// The event affects none of the handler's procs.
    NotAffected,
}

impl PassedOver {
    /// Returns the reason why a registration does not match an event, if it does not.
    fn skip_reason(registration: &HandlerRegistration, event: &Event) -> Option<PassedOver> {
        let is_for = |codes: &EventCodes| match codes {
            EventCodes::Single(code) => *code == event.code,
            EventCodes::Multi(codes) => codes.contains(&event.code),
            EventCodes::Default => true,
        };
        match &registration.codes {
            _ if registration.matches(event) => None,
            codes if !is_for(codes) => Some(PassedOver::Code),
            EventCodes::Default if event.is_non_default() => Some(PassedOver::NonDefault),
            _ if !registration.levels.include(Class::of(event)) => match registration.levels {
                // An event without infos may still be one that names procs.
                ClassFilter::JobSpecific if event.infos.is_empty() => {
                    PassedOver::skip_reason(&in_both_classes(registration), event)
                }
                _ => Some(PassedOver::Class),
            },
            _ => {
                // If the registration matches without its affected procs, they are the reason, else
                // the source is.
                let any_affected = HandlerRegistration {
                    affected: Vec::new(),
                    ..registration.clone()
                };
                let is_affected = any_affected.matches(event);
                Some(if is_affected {
                    PassedOver::NotAffected
                } else {
                    PassedOver::Source
                })
            }
        }
    }
}

fn in_both_classes(registration: &HandlerRegistration) -> HandlerRegistration {
    HandlerRegistration {
        levels: ClassFilter::Both,
        ..registration.clone()
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PassedOver::Owner => "the event does not concern its owner",
            PassedOver::Code => "it is for other codes",
            PassedOver::NonDefault => "the event is marked non-default",
            PassedOver::Class => {
                "it is for the other class of events (those about jobs name procs or have range namespace)"
            }
            PassedOver::Source => "it is for events of others",
            PassedOver::NotAffected => "the event affects none of its procs",
        })
    }
}

/// Handler, its position and its registration.
#[derive(Clone, Debug)]
pub struct ChainPosition<'a> {
    /// Position among the handlers that run.
    pub position: Result<usize, PassedOver>,
    /// Owner of the chain.
    pub owner: Owner,
    /// Handler.
    pub handler: &'a ChainHandler,
    registration: HandlerRegistration,
    /// True if the handler runs only if the event names procs, which the command line left open.
    pub depends_on_class: bool,
}

/// Returns a row for each handler. The event is taken to reach all users: policies decide its user
/// scope only when it is raised.
///
/// # Errors
///
/// Fails if the chains name an owner or a proc that cannot exist.
pub fn chain_positions<'a>(
    chains: &'a [Chain],
    event: Option<&Event>,
    jobs: &[(Nspace, u32)],
) -> Result<Vec<ChainPosition<'a>>, IdentError> {
    let mut rows = Vec::new();
    let mut running = 0;
    for chain in chains {
        let owner = Owner::try_from(&chain.owner)?;
        let users = jobs.iter().map(|(nspace, uid)| (nspace, *uid));
        let sees = event.is_none_or(|event| owner.sees(event, UserScope::Everybody, users));
        for handler in &chain.handlers {
            let registration = HandlerRegistration::try_from(handler)?;
            let passed_over = match event {
                Some(_) if !sees => Some(PassedOver::Owner),
                Some(event) => PassedOver::skip_reason(&registration, event),
                None => None,
            };
            running += usize::from(passed_over.is_none());
            let position = passed_over.map_or(Ok(running), Err);
            let depends_on_class =
                passed_over.is_none() && event.is_some_and(|event| !registration.matches(event));
            rows.push(ChainPosition {
                position,
                owner: owner.clone(),
                handler,
                registration,
                depends_on_class,
            });
        }
    }
    Ok(rows)
}

impl ChainPosition<'_> {
    /// Returns the reason for the position.
    pub fn stands(&self) -> String {
        let category = self.registration.codes.category();
        match &self.registration.place {
            ChainPlacement::First => "FIRST".to_owned(),
            ChainPlacement::Last => "LAST".to_owned(),
            ChainPlacement::FirstInCategory => format!("{category}, FIRST_IN_CATEGORY"),
            ChainPlacement::LastInCategory => format!("{category}, LAST_IN_CATEGORY"),
            ChainPlacement::Prepend => format!("{category}, prepended"),
            ChainPlacement::Append => format!("{category}, appended"),
            ChainPlacement::Before(name) => format!("{category}, before {name:?}"),
            ChainPlacement::After(name) => format!("{category}, after {name:?}"),
        }
    }

    /// Returns the names of the codes of the registration.
    pub fn codes(&self) -> Vec<String> {
        let name = |code: &i32| Status(*code).name().map_or(code.to_string(), str::to_owned);
        self.handler.codes.iter().map(name).collect()
    }

    /// Returns the procs of which an event must affect one.
    pub fn affected(&self) -> Vec<String> {
        self.registration
            .affected
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Returns further properties of the handler.
    pub fn remarks(&self) -> String {
        let codes = if self.handler.codes.is_empty() {
            "all codes".to_owned()
        } else {
            self.codes().join(", ")
        };
        let mut remarks = vec![format!("registration {}", self.handler.registration), codes];
        remarks.extend(match self.registration.levels {
            ClassFilter::Neither => Some("no events".to_owned()),
            ClassFilter::JobSpecific if self.depends_on_class => {
                Some("if the event is about a job".to_owned())
            }
            ClassFilter::JobSpecific => Some("about jobs".to_owned()),
            ClassFilter::Environment => Some("of the environment".to_owned()),
            ClassFilter::Both => None,
        });
        remarks.extend(match &self.registration.sources {
            SourceFilter::Any => None,
            SourceFilter::ResourceManager => Some("from the resource manager".to_owned()),
            SourceFilter::These(procs) => Some(format!(
                "from {}",
                procs
                    .iter()
                    .map(Proc::to_string)
                    .collect::<Vec<_>>()
                    .join(" or ")
            )),
        });
        remarks.extend(self.handler.oneshot.then(|| "oneshot".to_owned()));
        let is_at_each = self.registration.location == HandlerLocation::EachNode;
        remarks.extend(is_at_each.then(|| "at each node".to_owned()));
        remarks.extend(
            (!self.registration.affected.is_empty())
                .then(|| format!("if {} is affected", self.affected().join(" or "))),
        );
        remarks.extend(self.position.err().map(|why| format!("passed over: {why}")));
        remarks.join("; ")
    }
}
