//! Accepts or declines invitations to groups by rules. `peal-module.toml` says how, and declares
//! the settings.
mod rule;

use peal_sdk::{Config, Event, Outcome, Registration, Value, handler, key, lifecycle, status};
use rule::Rule;
use std::sync::OnceLock;

/// Key of the answer: `accept` or `decline`, a text.
const ANSWER: &str = "peal.group.answer";
/// Key of the rule, as configured.
const RULE: &str = "peal.group.rule";

static RULES: OnceLock<Vec<Rule>> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["rules"])?;
    let rules = config.list("rules")?.unwrap_or_default();
    if rules.is_empty() {
        return Err("the setting \"rules\" is missing; it should list patterns with answers, as in \"crew-*=accept, *=decline\""
            .to_owned());
    }
    let rules = rules
        .into_iter()
        .map(Rule::read)
        .collect::<Result<Vec<Rule>, String>>()?;
    // An instance receives its settings only once.
    let _ = RULES.set(rules);
    Ok(vec![
        Registration::new()
            .name("join-by-rule")
            .code(status::PMIX_GROUP_INVITED),
    ])
}

fn stop() {}

fn advise(event: &Event) -> Outcome {
    let group = match event.get(key::PMIX_GROUP_ID) {
        Some(Value::Text(name)) => name,
        // An invitation to nothing.
        _ => return Outcome::no_action(),
    };
    let nspace = event.source().map(|source| source.nspace);
    let user = event.credentials().map(|identity| identity.uid);
    let rule = RULES
        .get()
        .into_iter()
        .flatten()
        .find(|rule| rule.is_for(&group, nspace.as_deref(), user));
    match rule {
        Some(rule) => Outcome::partial()
            .with(ANSWER, rule.answer().name())
            .with(RULE, rule.text()),
        None => Outcome::no_action(),
    }
}

handler!(advise);
lifecycle!(init, stop);
