//! Lets members of Unix groups control any job. `peal-module.toml` says how, and declares the
//! settings.
use peal_sdk::{
    Config, PolicyOutcome, PolicySubject, Registration, Request, UnixGroup, Value,
    job_control_policy, lifecycle,
};
use std::sync::OnceLock;

/// Configured group.
#[derive(Clone, PartialEq, Debug)]
enum Wanted {
    Number(u32),
    Name(String),
}

impl Wanted {
    fn read(text: &str) -> Wanted {
        text.parse()
            .map_or_else(|_| Wanted::Name(text.to_owned()), Wanted::Number)
    }

    fn is(&self, group: &UnixGroup) -> bool {
        match self {
            Wanted::Number(gid) => group.gid == *gid,
            Wanted::Name(name) => group.name.as_ref() == Some(name),
        }
    }
}

static GROUPS: OnceLock<Vec<Wanted>> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["groups"])?;
    let groups = match config.get("groups") {
        Some(Value::Int64(_)) => {
            let gid = config
                .number("groups", 0..=u32::MAX.into())?
                .and_then(|gid| u32::try_from(gid).ok());
            gid.map(Wanted::Number).into_iter().collect()
        }
        _ => config
            .list("groups")?
            .unwrap_or_default()
            .into_iter()
            .map(Wanted::read)
            .collect::<Vec<Wanted>>(),
    };
    if groups.is_empty() {
        return Err(
            "the setting \"groups\" is missing; it should name the Unix groups that may control any job, as in \"wheel, 500\"".to_owned()
        );
    }
    // An instance receives its settings only once.
    let _ = GROUPS.set(groups);
    Ok(Vec::new())
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let Some(wanted) = GROUPS
        .get()
        .filter(|_| request.subject() == PolicySubject::JobControl)
    else {
        return PolicyOutcome::pass();
    };
    let groups = request.unix_groups();
    if groups
        .iter()
        .any(|group| wanted.iter().any(|wanted| wanted.is(group)))
    {
        PolicyOutcome::grant()
    } else {
        PolicyOutcome::pass()
    }
}

job_control_policy!(decide);
lifecycle!(init, stop);
