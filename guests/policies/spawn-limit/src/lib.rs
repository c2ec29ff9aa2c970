//! Restricts spawned jobs: procs, programs and directory. `peal-module.toml` says how, and declares
//! the settings.
use peal_name_patterns::Pattern;
use peal_sdk::{
    Application, Config, Info, PolicyOutcome, PolicySubject, Registration, Request, Value, key,
    lifecycle, spawn_policy, status,
};
use std::sync::OnceLock;

/// Maximum of the setting `procs`.
const MOST: i64 = 1_000_000;

#[derive(Default)]
struct Settings {
    procs: Option<u64>,
    /// Allowed programs; none: all.
    programs: Option<Vec<Pattern>>,
    directory: Option<String>,
    is_tagged: bool,
    exempt: Vec<u32>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["procs", "programs", "directory", "tag_output", "exempt"])?;
    let settings = Settings {
        procs: config
            .number("procs", 1..=MOST)?
            .and_then(|procs| u64::try_from(procs).ok()),
        programs: programs(config)?,
        directory: directory(config)?,
        is_tagged: is_tagged(config)?,
        exempt: exempt(config)?,
    };
    let is_limited =
        settings.procs.is_some() || settings.programs.is_some() || settings.directory.is_some();
    if !is_limited && !settings.is_tagged {
        return Err(
            "it has nothing to do: set \"procs\", \"programs\", \"directory\" or \"tag_output\""
                .to_owned(),
        );
    }
    // An instance receives its settings only once.
    let _ = SETTINGS.set(settings);
    Ok(Vec::new())
}

/// Parses paths only: a name would be searched in the requester's own `PATH`.
fn programs(config: &Config) -> Result<Option<Vec<Pattern>>, String> {
    let wrong = |text: &str| {
        format!("{text:?} in \"programs\" is no path, or the beginning of one with a * behind it")
    };
    let read = |text: &str| {
        let is_path = text.starts_with('/') && !goes_back(text);
        Pattern::read(text)
            .filter(|_| is_path)
            .ok_or_else(|| wrong(text))
    };
    let Some(texts) = config.list("programs")? else {
        return Ok(None);
    };
    if texts.is_empty() {
        return Err(
            "the setting \"programs\" is empty, so that nothing could be spawned; leave it out to allow all".into()
        );
    }
    texts
        .into_iter()
        .map(read)
        .collect::<Result<Vec<Pattern>, String>>()
        .map(Some)
}

fn directory(config: &Config) -> Result<Option<String>, String> {
    match config.text("directory")? {
        Some(text) if !text.starts_with('/') => Err(format!(
            "{text:?} in \"directory\" is no directory's full path, such as \"/scratch\""
        )),
        text => Ok(text.map(str::to_owned)),
    }
}

fn is_tagged(config: &Config) -> Result<bool, String> {
    match config.get("tag_output") {
        None => Ok(false),
        Some(Value::Boolean(is_tagged)) => Ok(*is_tagged),
        Some(other) => Err(format!("\"tag_output\" is true or false, not {other:?}")),
    }
}

fn exempt(config: &Config) -> Result<Vec<u32>, String> {
    let user = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} in \"exempt\" is no user's number"))
    };
    config
        .list("exempt")?
        .unwrap_or_default()
        .into_iter()
        .map(user)
        .collect()
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let (Some(settings), PolicySubject::Spawn) = (SETTINGS.get(), request.subject()) else {
        return PolicyOutcome::pass();
    };
    if request
        .identity()
        .is_some_and(|identity| settings.exempt.contains(&identity.uid))
    {
        return PolicyOutcome::pass();
    }
    let applications = request.applications();
    match breaks(settings, &applications) {
        Some((status, reason)) => PolicyOutcome::deny(status).with_reason(reason),
        None => amended(settings, request.directives()),
    }
}

/// Returns the rule that a request violates: its status, and words.
fn breaks(settings: &Settings, applications: &[Application]) -> Option<(i32, String)> {
    let procs: u64 = applications
        .iter()
        .map(|application| u64::from(application.procs))
        .sum();
    if let Some(most) = settings.procs.filter(|most| procs > *most) {
        let reason = format!("{procs} procs are requested at once; the limit is {most}");
        return Some((status::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES, reason));
    }
    let refused = applications
        .iter()
        .find_map(|application| refusal(settings, application))?;
    Some((status::PMIX_ERR_NO_PERMISSIONS, refused))
}

fn refusal(settings: &Settings, application: &Application) -> Option<String> {
    let command = &application.command;
    if let Some(programs) = &settings.programs {
        let is_allowed =
            !goes_back(command) && programs.iter().any(|pattern| pattern.is_for(command));
        if !is_allowed {
            return Some(format!(
                "{command:?} is no program that may be spawned; name it by its path"
            ));
        }
    }
    let directory = settings.directory.as_ref()?;
    let has_own = application
        .directives
        .iter()
        .any(|info| info.key == key::PMIX_WDIR);
    has_own.then(|| {
        format!("{command:?} is to start in a directory of its own; all start in {directory:?}")
    })
}

/// Returns whether a path leads upwards, as `/opt/../bin` does.
fn goes_back(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Passes, with the required directives.
fn amended(settings: &Settings, mut directives: Vec<Info>) -> PolicyOutcome {
    let mut set = |key: &str, info: Info| {
        directives.retain(|info| info.key != key);
        directives.push(info);
    };
    if let Some(directory) = &settings.directory {
        set(
            key::PMIX_WDIR,
            Info::new(key::PMIX_WDIR, directory.as_str()),
        );
    }
    if settings.is_tagged {
        set(key::PMIX_TAG_OUTPUT, Info::new(key::PMIX_TAG_OUTPUT, true));
    }
    if settings.directory.is_none() && !settings.is_tagged {
        return PolicyOutcome::pass();
    }
    PolicyOutcome::pass().amend(directives)
}

spawn_policy!(decide);
lifecycle!(init, stop);

#[cfg(test)]
mod tests {
    use super::*;

    fn application(command: &str, procs: u32) -> Application {
        Application {
            command: command.to_owned(),
            procs,
            ..Application::default()
        }
    }

    #[test]
    fn procs_of_all_applications_count() {
        let settings = Settings {
            procs: Some(4),
            ..Settings::default()
        };
        assert_eq!(
            breaks(&settings, &[application("a", 2), application("b", 2)]),
            None
        );
        let (status, _) = breaks(&settings, &[application("a", 2), application("b", 3)]).unwrap();
        assert_eq!(status, status::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES);
        assert!(
            breaks(
                &settings,
                &[application("a", u32::MAX), application("b", u32::MAX)]
            )
            .is_some()
        );
    }

    #[test]
    fn a_program_is_allowed_by_its_path_and_no_way_round() {
        let programs = Some(vec![
            Pattern::read("/opt/*").unwrap(),
            Pattern::read("/bin/date").unwrap(),
        ]);
        let settings = Settings {
            programs,
            ..Settings::default()
        };
        for (command, is_allowed) in [
            ("/opt/solver", true),
            ("/opt/..solver/x", true),
            ("/opt/../bin/sh", false),
            ("/opt/..", false),
            ("/bin/date", true),
            ("/bin/dates", false),
            ("date", false),
            ("", false),
        ] {
            assert_eq!(
                breaks(&settings, &[application(command, 1)]).is_none(),
                is_allowed,
                "{command}"
            );
        }
        assert!(
            breaks(&settings, &[application("/opt/a", 1), application("sh", 1)]).is_some(),
            "each of them counts"
        );
    }

    #[test]
    fn all_start_in_one_directory() {
        let settings = Settings {
            directory: Some("/scratch".to_owned()),
            ..Settings::default()
        };
        let mut own = application("a", 1);
        assert_eq!(breaks(&settings, &[own.clone()]), None);
        own.directives.push(Info::new(key::PMIX_WDIR, "/tmp"));
        assert!(breaks(&settings, &[own.clone()]).is_some());
        assert_eq!(breaks(&Settings::default(), &[own]), None);
    }
}
