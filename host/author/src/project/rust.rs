//! A new project in Rust.
use peal_sandbox::Role;
use std::{collections::BTreeSet, fmt::Write as _};

/// What stands in the source for one role: what it imports of the SDK, the code, and what its test imports and is.
struct Part {
    imports: &'static [&'static str],
    code: &'static str,
    test_imports: &'static [&'static str],
    test: &'static str,
}

fn part(role: Role) -> Part {
    match role {
        Role::EventHandler => Part {
            imports: &["Event", "Outcome", "handler"],
            code: "\
/// Says who raised the event, and leaves the rest to others.
fn handle(event: &Event) -> Outcome {
    let who = event.source().map_or(\"the resource manager\".to_owned(), |proc| proc.to_string());
    Outcome::no_action().with(\"MODULE.greeting\", format!(\"well done, {who}\"))
}

handler!(handle);
",
            test_imports: &["Proc", "Value", "status"],
            test: "\
    #[test]
    fn whoever_raised_it_is_greeted() {
        let event = Event::for_test(status::PMIX_ERR_PROC_ABORTED).by(Proc::new(\"job\", 3));
        assert_eq!(handle(&event).get(\"MODULE.greeting\"), Some(&Value::from(\"well done, job:3\")));
    }
",
        },
        Role::ConnectionPolicy => Part {
            imports: &["Matter", "PolicyOutcome", "Request", "ConnectionKind", "connection_policy", "status"],
            code: "\
/// Turns tools away, and leaves procs of jobs to others.
fn may_connect(request: &Request) -> PolicyOutcome {
    match request.matter() {
        Matter::Connection(ConnectionKind::Tool) => {
            PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).because(\"no tools today\")
        }
        _ => PolicyOutcome::pass(),
    }
}

connection_policy!(may_connect);
",
            test_imports: &[],
            test: "\
    #[test]
    fn tools_are_turned_away() {
        let tool = Request::for_test(Matter::Connection(ConnectionKind::Tool));
        assert!(may_connect(&tool).is_denial());
        let proc = Request::for_test(Matter::Connection(ConnectionKind::Client));
        assert!(!may_connect(&proc).is_denial());
    }
",
        },
        Role::EventPolicy => Part {
            imports: &["Matter", "PolicyOutcome", "Range", "Request", "event_policy", "status"],
            code: "\
/// Lets no event out of its job, and leaves the rest to others.
fn may_raise(request: &Request) -> PolicyOutcome {
    match request.matter() {
        Matter::Event { range: Range::Global, .. } => {
            PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).because(\"not so loud\")
        }
        _ => PolicyOutcome::pass(),
    }
}

event_policy!(may_raise);
",
            test_imports: &[],
            test: "\
    #[test]
    fn an_event_for_everybody_is_denied() {
        let event = |range| Request::for_test(Matter::Event { code: -3001, range });
        assert!(may_raise(&event(Range::Global)).is_denial());
        assert!(!may_raise(&event(Range::Namespace)).is_denial());
    }
",
        },
        Role::JobControlPolicy => Part {
            imports: &["PolicyOutcome", "Request", "job_control_policy", "key", "status"],
            code: "\
/// Lets nobody kill procs, and leaves the rest to others.
fn may_control(request: &Request) -> PolicyOutcome {
    match request.get(key::PMIX_JOB_CTRL_KILL) {
        Some(_) => PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).because(\"terminate it instead\"),
        None => PolicyOutcome::pass(),
    }
}

job_control_policy!(may_control);
",
            test_imports: &["Matter"],
            test: "\
    #[test]
    fn killing_is_denied() {
        let request = || Request::for_test(Matter::JobControl);
        assert!(may_control(&request().with_directive(key::PMIX_JOB_CTRL_KILL, true)).is_denial());
        assert!(!may_control(&request()).is_denial());
    }
",
        },
        Role::LogChannel => Part {
            imports: &["LogRequest", "channel", "sink", "status"],
            code: "\
/// The text to be logged, as a line.
fn line(request: &LogRequest) -> Result<String, i32> {
    let text = request.get(request.channel()).ok_or(status::PMIX_ERR_BAD_PARAM)?;
    Ok(format!(\"{}\\n\", text.as_str().ok_or(status::PMIX_ERR_BAD_PARAM)?))
}

/// Writes it to the first sink that the admin opened.
fn log(request: &LogRequest) -> Result<(), i32> {
    let names = sink::names();
    sink::write(names.first().ok_or(status::PMIX_ERR_NOT_FOUND)?, line(request)?)
}

channel!(log);
",
            test_imports: &["key"],
            test: "\
    #[test]
    fn a_line_is_the_text_under_the_channels_key() {
        let request = LogRequest::for_test(key::PMIX_LOG_STDERR).with(key::PMIX_LOG_STDERR, \"hello\");
        assert_eq!(line(&request), Ok(\"hello\\n\".to_owned()));
    }
",
        },
        Role::Lifecycle => Part {
            imports: &["Config", "Registration", "lifecycle"],
            code: "\
/// Refuses to start with a setting that is wrong.
fn init(config: &Config) -> Result<Vec<Registration>, String> {
    match config.get(\"greeting\") {
        Some(value) if value.as_str().is_none() => Err(\"the setting \\\"greeting\\\" must be a string\".to_owned()),
        _ => Ok(Vec::new()),
    }
}

fn stop() {}

lifecycle!(init, stop);
",
            test_imports: &["Info"],
            test: "\
    #[test]
    fn a_wrong_setting_is_refused() {
        assert!(init(&Config::for_test([Info::new(\"greeting\", 7u32)])).is_err());
        assert_eq!(init(&Config::for_test([])), Ok(Vec::new()));
    }
",
        },
    }
}

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    vec![("Cargo.toml", CARGO.to_owned()), (".cargo/config.toml", CONFIG.to_owned()), ("src/lib.rs", source(roles))]
}

fn source(roles: &BTreeSet<Role>) -> String {
    let imports: BTreeSet<&str> = roles.iter().flat_map(|role| part(*role).imports).copied().collect();
    let test_imports: BTreeSet<&str> = roles
        .iter()
        .flat_map(|role| part(*role).test_imports)
        .copied()
        .filter(|name| !imports.contains(name))
        .collect();
    let mut text = format!("//! The module MODULE.\nuse peal_sdk::{};\n", braced(&imports));
    for role in roles {
        text += "\n";
        text += part(*role).code;
    }
    text += "\n#[cfg(test)]\nmod tests {\n    use super::*;\n";
    if !test_imports.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    use peal_sdk::{};", braced(&test_imports));
    }
    for role in roles {
        text += "\n";
        text += part(*role).test;
    }
    text + "}\n"
}

/// A list of imports, in the order that rustfmt gives them: types, functions, then modules and macros as they come.
fn braced(names: &BTreeSet<&str>) -> String {
    match names.first() {
        Some(name) if names.len() == 1 => (*name).to_owned(),
        _ => format!("{{{}}}", names.iter().copied().collect::<Vec<_>>().join(", ")),
    }
}

const CARGO: &str = r#"[package]
name = "MODULE"
version = "0.1.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
peal-sdk = { path = "sdk/rust" }

# Function names stay in, so that the backtrace of a trap can be read.
[profile.release]
lto = true
codegen-units = 1
panic = "abort"
strip = "debuginfo"

[workspace]
"#;

const CONFIG: &str = r#"# A small stack keeps a fresh instance at two pages of memory instead of seventeen; one that overflows traps.
[target.wasm32-unknown-unknown]
rustflags = ["-Clink-arg=-zstack-size=65536"]
"#;
