//! Dry run of the placements of configured modules, before they are started, to find conflicts.
use peal_config::{Module, ModuleEntry, Problem};
use peal_core::{
    order::Registrations,
    owner::Owner,
    policy::{OnFailure, PolicyChain},
    registration::{EventCodes, HandlerRegistration, Lifetime, Mode, RegistrationError},
};
use peal_model::{Hook, Key};
use peal_sandbox::Role;
use peal_server::ChannelError;
use std::collections::{BTreeMap, BTreeSet};

/// Settings that define the registration of a handler.
const HANDLER_KEYS: [&str; 5] = [
    "module.codes",
    "module.event_classes",
    "module.affected",
    "module.placement",
    "module.oneshot",
];

/// Returns the registration that the settings define.
pub fn registration(settings: &Module) -> HandlerRegistration {
    HandlerRegistration {
        place: settings.placement.clone(),
        mode: mode(settings),
        location: settings.location,
        levels: settings.event_classes,
        affected: settings.affected.clone(),
        lifetime: if settings.oneshot {
            Lifetime::OneShot
        } else {
            Lifetime::Standing
        },
        ..HandlerRegistration::new(&settings.name, EventCodes::of(&settings.codes))
    }
}

/// Returns the mode of a module.
pub fn mode(settings: &Module) -> Mode {
    match settings.mode {
        peal_config::Mode::Active => Mode::Active,
        peal_config::Mode::Shadow => Mode::Shadow,
    }
}

/// Returns the given settings that have no effect for a module that registers its handlers itself.
/// A placement also applies to policies and log channels.
pub fn handler_keys(entry: &ModuleEntry, roles: &BTreeSet<Role>) -> Vec<&'static str> {
    let has_other_place = roles.contains(&Role::LogChannel) || hooks(roles).next().is_some();
    let means_nothing = |key: &&str| {
        entry.origin_of(key).is_some() && !(*key == "module.placement" && has_other_place)
    };
    HANDLER_KEYS.into_iter().filter(means_nothing).collect()
}

/// Returns the hooks that a module decides at.
pub fn hooks(roles: &BTreeSet<Role>) -> impl Iterator<Item = Hook> {
    Hook::ALL
        .into_iter()
        .filter(|hook| Role::policy(*hook).is_some_and(|role| roles.contains(&role)))
}

/// The placements taken so far.
#[derive(Default)]
pub struct PlacementCheck<'a> {
    handlers: BTreeMap<Owner, Registrations<()>>,
    policies: BTreeMap<Hook, PolicyChain<()>>,
    channels: Registrations<()>,
    served: BTreeMap<&'a Key, &'a str>,
    /// True if some modules are unknown.
    has_unknown: bool,
    /// True if the names of some modules' handlers are unknown.
    has_unnamed: bool,
}

impl<'a> PlacementCheck<'a> {
    /// Counts a module about which nothing is known.
    pub fn pass_over(&mut self) {
        self.has_unknown = true;
    }

    /// Takes the placements of a module, or returns the conflicts.
    pub fn take(
        &mut self,
        entry: &'a ModuleEntry,
        owner: &Owner,
        roles: &BTreeSet<Role>,
    ) -> Vec<Problem> {
        let settings = &entry.settings;
        let mut problems = Vec::new();
        let mut wrong = |key, message: String| problems.push(entry.problem(key, message));
        if roles.contains(&Role::EventHandler) {
            if roles.contains(&Role::Lifecycle) && handler_keys(entry, roles).is_empty() {
                // The module registers its handlers itself, when it is started.
                self.has_unnamed = true;
            } else if let Err(error) = self
                .handlers
                .entry(owner.clone())
                .or_default()
                .register(registration(settings), ())
                // An unknown module may hold the name or the placement that seems to be missing.
                && is_certain(&error, self.has_unknown || self.has_unnamed)
            {
                wrong(
                    "module.placement",
                    format!("module {} cannot be registered: {error}", settings.name),
                );
            }
        }
        let mut unseated = None;
        for hook in hooks(roles) {
            let chain = self.policies.entry(hook).or_default();
            let taken = chain.register(
                &settings.name,
                (settings.placement.clone(), mode(settings)),
                OnFailure::default(),
                (),
            );
            unseated = unseated.or(taken
                .err()
                .filter(|error| is_certain(error, self.has_unknown)));
        }
        if let Some(error) = unseated {
            wrong(
                "module.placement",
                format!("module {} cannot decide: {error}", settings.name),
            );
        }
        if roles.contains(&Role::LogChannel) {
            if settings.channels.is_empty() {
                wrong(
                    "module.channels",
                    ChannelError::None {
                        name: settings.name.clone(),
                    }
                    .to_string(),
                );
            }
            for channel in &settings.channels {
                let holder = *self.served.entry(channel).or_insert(&settings.name);
                if holder != settings.name {
                    let taken = ChannelError::Taken {
                        channel: channel.clone(),
                        holder: holder.to_owned(),
                    };
                    wrong("module.channels", taken.to_string());
                }
            }
            let place = settings.placement.clone();
            let registration = HandlerRegistration {
                place,
                ..HandlerRegistration::new(&settings.name, EventCodes::Default)
            };
            if let Err(error) = self.channels.register(registration, ())
                && is_certain(&error, self.has_unknown)
            {
                wrong(
                    "module.placement",
                    format!("module {} cannot be registered: {error}", settings.name),
                );
            }
        }
        problems
    }
}

/// Returns true if unknown modules could not resolve the error.
fn is_certain(error: &RegistrationError, has_unknown: bool) -> bool {
    !has_unknown || matches!(error, RegistrationError::Taken { .. })
}
