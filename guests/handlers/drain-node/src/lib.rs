//! Drains a node, with its group, when one event comes there again and again. `peal-module.toml` says
//! how, and declares the settings.
mod drained;
mod settings;
mod spread;

use drained::Drained;
use peal_sdk::{
    Config, Event, Info, Outcome, PolicyOutcome, Registration, Request, Value, clock, handler, key,
    lifecycle, notify, spawn_policy, state, status,
};
use peal_tally::Tally;
use settings::Settings;
use spread::Spread;
use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Maximum number of counters: codes and nodes.
const ROOM: usize = 4096;

/// Maximum number of nodes that one event names.
const MOST_NODES: usize = 256;

/// Maximum length of the name of a node, in bytes.
const LONGEST: usize = 200;

struct Counts {
    nodes: Tally<(i32, String)>,
    groups: Spread,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static COUNTS: OnceLock<Mutex<Counts>> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    let settings = Settings::read(config)?;
    state::keys("")
        .map_err(|status| format!("it can keep nothing (status {status}): set store.path"))?;
    let window = settings.window;
    let counts = Counts {
        nodes: Tally::new(settings.count, window, ROOM),
        groups: Spread::new(settings.spread, window, ROOM),
    };
    let codes = settings.codes.iter().chain(&settings.release);
    let registration = codes.fold(Registration::new().name("drain-node"), |all, code| {
        all.code(*code)
    });
    let levels = [key::PMIX_EVENT_JOB_LEVEL, key::PMIX_EVENT_ENVIRO_LEVEL];
    let registration = levels
        .into_iter()
        .fold(registration, |all, level| all.directive(level, true));
    // An instance receives its settings only once.
    let _ = COUNTS.set(Mutex::new(counts));
    let _ = SETTINGS.set(settings);
    Ok(vec![registration])
}

fn stop() {}

/// Returns the nodes of an event.
fn nodes_of(event: &Event, settings: &Settings) -> BTreeSet<String> {
    let named = event.get(&settings.node_key);
    let named = named.as_ref().and_then(Value::as_str).unwrap_or_default();
    let mut nodes: BTreeSet<String> = names(named).take(MOST_NODES).collect();
    if nodes.is_empty() {
        nodes.insert(settings.here.clone());
    }
    nodes
}

/// Returns the names in a text, which has commas between them.
fn names(text: &str) -> impl Iterator<Item = String> {
    let names = text.split(',').map(str::trim);
    // A name is part of a key of the state, and of a text for admins.
    let is_name =
        |name: &&str| !name.is_empty() && name.len() <= LONGEST && !name.contains(char::is_control);
    names.filter(is_name).map(str::to_owned)
}

fn handle(event: &Event) -> Outcome {
    let (Some(settings), Some(counts)) = (SETTINGS.get(), COUNTS.get()) else {
        return Outcome::no_action();
    };
    let nodes = nodes_of(event, settings);
    let code = event.code();
    if settings.release == Some(code) {
        return release(&nodes);
    }
    let now = u64::try_from(clock::now().as_millis()).unwrap_or(u64::MAX);
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    for node in nodes {
        if let Some(group) = settings.group_of(&node)
            && let Some(touched) = counts.groups.add(code, group, &node, now)
        {
            found.push(Drained::group(code, group, touched));
        }
        if counts.nodes.add(&(code, node.clone()), now) {
            found.push(Drained::node(code, node, settings.count));
        }
    }
    let drained = found.into_iter().map(|found| drain(settings, found, now));
    match drained.collect::<Result<Vec<usize>, i32>>() {
        Ok(drained) => match drained.iter().sum::<usize>() {
            0 => Outcome::no_action(),
            nodes => Outcome::partial().with("peal.drain.drained", nodes),
        },
        Err(status) => Outcome::status(status),
    }
}

/// Ends the drain of nodes.
fn release(nodes: &BTreeSet<String>) -> Outcome {
    let mut released = 0_usize;
    for node in nodes {
        match drained::remove(node) {
            Ok(true) => released += 1,
            Ok(false) => {}
            Err(status) => return Outcome::status(status),
        }
    }
    match released {
        0 => Outcome::no_action(),
        nodes => Outcome::partial().with("peal.drain.released", nodes),
    }
}

/// Drains nodes, and raises the event if some were not drained yet. Returns their number.
fn drain(settings: &Settings, mut found: Drained<'_>, now: u64) -> Result<usize, i32> {
    let mut added = Vec::new();
    for node in found.nodes {
        if drained::add(&node, found.code, now)? {
            added.push(node);
        }
    }
    found.nodes = added;
    if found.nodes.is_empty() {
        return Ok(0);
    }
    let text = found.text(settings);
    let group = found
        .group
        .map(|group| Info::new("peal.drain.group", group));
    let infos = [
        Info::new(key::PMIX_EVENT_TEXT_MESSAGE, text),
        Info::new("peal.drain.nodes", found.nodes.join(",")),
        Info::new("peal.drain.code", Value::Status(found.code)),
        Info::new("peal.drain.count", found.count),
    ];
    notify(
        settings.into,
        settings.range,
        infos.into_iter().chain(group),
    )?;
    Ok(found.nodes.len())
}

fn decide(request: &Request) -> PolicyOutcome {
    let Some(settings) = SETTINGS.get().filter(|settings| settings.deny) else {
        return PolicyOutcome::pass();
    };
    let wanted = request.directives().into_iter().chain(request.infos());
    let wanted =
        wanted.filter(|info| [key::PMIX_HOST, key::PMIX_ADD_HOST].contains(&info.key.as_str()));
    let mut nodes: BTreeSet<String> = wanted
        .filter_map(|info| Some(names(info.value.as_str()?).collect::<Vec<_>>()))
        .flatten()
        .collect();
    nodes.insert(settings.here.clone());
    for node in nodes {
        match drained::of(&node) {
            Ok(None) => {}
            Ok(Some(code)) => {
                return PolicyOutcome::deny(status::PMIX_ERR_NOT_AVAILABLE)
                    .with_reason(format!("node {node} is drained because of event {code}"));
            }
            // A node that cannot be looked up is not used.
            Err(status) => {
                return PolicyOutcome::deny(status)
                    .with_reason(format!("it is unknown whether node {node} is drained"));
            }
        }
    }
    PolicyOutcome::pass()
}

handler!(handle);
spawn_policy!(decide);
lifecycle!(init, stop);
