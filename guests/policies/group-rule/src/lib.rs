//! Restricts PMIx groups by name, participants and size. `peal-module.toml` says how, and declares
//! the settings.
use peal_name_patterns::Pattern;
use peal_sdk::{
    Config, GroupOperationKind, PolicyOutcome, PolicySubject, Registration, Request, group_policy,
    lifecycle, status,
};
use std::sync::OnceLock;

/// Wildcard rank: all procs of a job.
const ALL: u32 = u32::MAX - 1;

/// Maximum of the setting `most`.
const MOST: i64 = 1_000_000;

struct Settings {
    /// Allowed names; none: all.
    names: Option<Vec<Pattern>>,
    /// Allowed namespaces; none: all.
    nspaces: Option<Vec<Pattern>>,
    most: Option<usize>,
    because: String,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["names", "namespaces", "most", "because"])?;
    let names = patterns(config, "names")?;
    let nspaces = patterns(config, "namespaces")?;
    let most = config
        .number("most", 1..=MOST)?
        .and_then(|most| usize::try_from(most).ok());
    if names.is_none() && nspaces.is_none() && most.is_none() {
        return Err("it has nothing to do: set \"names\", \"namespaces\" or \"most\"".to_owned());
    }
    let because = config
        .text("because")?
        .map(|text| format!(" ({text})"))
        .unwrap_or_default();
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings {
        names,
        nspaces,
        most,
        because,
    });
    Ok(Vec::new())
}

fn patterns(config: &Config, setting: &str) -> Result<Option<Vec<Pattern>>, String> {
    let wrong = |text: &str| {
        format!("{text:?} in {setting:?} is no name, or the beginning of one with a * behind it")
    };
    let read = |text: &str| Pattern::read(text).ok_or_else(|| wrong(text));
    let Some(texts) = config.list(setting)? else {
        return Ok(None);
    };
    if texts.is_empty() {
        return Err(format!(
            "the setting {setting:?} is empty, which denies all groups; leave it out to allow all"
        ));
    }
    texts
        .into_iter()
        .map(read)
        .collect::<Result<Vec<Pattern>, String>>()
        .map(Some)
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let (Some(settings), PolicySubject::Group(kind)) = (SETTINGS.get(), request.subject()) else {
        return PolicyOutcome::pass();
    };
    if kind == GroupOperationKind::Destruct {
        return PolicyOutcome::pass();
    }
    match breaks(settings, request) {
        None => PolicyOutcome::pass(),
        Some(reason) => PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS)
            .with_reason(format!("{reason}{}", settings.because)),
    }
}

/// Returns the rule that a request violates, in words.
fn breaks(settings: &Settings, request: &Request) -> Option<String> {
    // An answer to an invitation need not name the group: the invitation's name was checked.
    if let (Some(names), Some(name)) = (&settings.names, request.group_name())
        && !names.iter().any(|pattern| pattern.is_for(name))
    {
        return Some(format!("no group may be called {name:?}"));
    }
    if let Some(nspaces) = &settings.nspaces {
        let nspace = request
            .requester()
            .map(|requester| requester.nspace)
            .unwrap_or_default();
        if !nspaces.iter().any(|pattern| pattern.is_for(&nspace)) {
            return Some(format!("procs of {nspace:?} may be in no group"));
        }
    }
    let most = settings.most?;
    let targets = request.targets();
    if let Some(job) = targets.iter().find(|target| target.proc.rank == ALL) {
        return Some(format!(
            "name the procs of {:?} one by one: no more than {most} may be named",
            job.proc.nspace
        ));
    }
    (targets.len() > most).then(|| {
        format!(
            "{} procs are named, and no more than {most} may be",
            targets.len()
        )
    })
}

group_policy!(decide);
lifecycle!(init, stop);
