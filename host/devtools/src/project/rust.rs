//! New project in Rust.
use super::SdkOrigin;
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// Source of one role, and the names that it and its test import from the SDK.
struct Part {
    imports: &'static [&'static str],
    test_imports: &'static [&'static str],
    text: &'static str,
}

fn part(role: Role) -> Part {
    // Names are listed by role, because an unused import is a warning in the new project.
    match role {
        Role::EventHandler => Part {
            imports: &["Event", "Outcome", "handler"],
            test_imports: &["Proc", "Value", "status"],
            text: include_str!("../../templates/rust/event-handler.txt"),
        },
        Role::ConnectionPolicy => Part {
            imports: &[
                "ConnectionKind",
                "PolicySubject",
                "PolicyOutcome",
                "Request",
                "connection_policy",
                "status",
            ],
            test_imports: &[],
            text: include_str!("../../templates/rust/connection-policy.txt"),
        },
        Role::EventPolicy => Part {
            imports: &[
                "PolicySubject",
                "PolicyOutcome",
                "Range",
                "Request",
                "event_policy",
                "status",
            ],
            test_imports: &[],
            text: include_str!("../../templates/rust/event-policy.txt"),
        },
        Role::JobControlPolicy => Part {
            imports: &[
                "PolicyOutcome",
                "Request",
                "job_control_policy",
                "key",
                "status",
            ],
            test_imports: &["PolicySubject"],
            text: include_str!("../../templates/rust/job-control-policy.txt"),
        },
        Role::MonitorPolicy => Part {
            imports: &[
                "PolicyOutcome",
                "Request",
                "key",
                "monitor_policy",
                "status",
            ],
            test_imports: &["PolicySubject"],
            text: include_str!("../../templates/rust/monitor-policy.txt"),
        },
        Role::ProvisionPolicy => Part {
            imports: &["PolicyOutcome", "Request", "provision_policy"],
            test_imports: &["PolicySubject"],
            text: include_str!("../../templates/rust/provision-policy.txt"),
        },
        Role::LogPolicy => Part {
            imports: &["PolicyOutcome", "Request", "Value", "log_policy"],
            test_imports: &["Info", "PolicySubject"],
            text: include_str!("../../templates/rust/log-policy.txt"),
        },
        Role::GroupPolicy => Part {
            imports: &["PolicyOutcome", "Request", "group_policy", "status"],
            test_imports: &["GroupOperationKind", "PolicySubject"],
            text: include_str!("../../templates/rust/group-policy.txt"),
        },
        Role::SpawnPolicy => Part {
            imports: &["PolicyOutcome", "Request", "spawn_policy", "status"],
            test_imports: &["Application", "PolicySubject"],
            text: include_str!("../../templates/rust/spawn-policy.txt"),
        },
        Role::LogChannel => Part {
            imports: &["LogRequest", "Value", "channel", "sink", "status"],
            test_imports: &["key"],
            text: include_str!("../../templates/rust/log-channel.txt"),
        },
        Role::Lifecycle => Part {
            imports: &["Config", "Registration", "Value", "lifecycle"],
            test_imports: &["Info"],
            text: include_str!("../../templates/rust/lifecycle.txt"),
        },
    }
}

pub fn files(roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("Cargo.toml", CARGO.replace("LIBRARY", &sdk.library("rust"))),
        (".cargo/config.toml", CONFIG.to_owned()),
        ("src/lib.rs", source(roles)),
    ]
}

fn source(roles: &BTreeSet<Role>) -> String {
    let parts: Vec<Part> = roles.iter().map(|role| part(*role)).collect();
    // Sorted and each once, since several roles import the same names.
    let imports: BTreeSet<&str> = parts
        .iter()
        .flat_map(|part| part.imports)
        .copied()
        .collect();
    let tests: BTreeSet<&str> = parts
        .iter()
        .flat_map(|part| part.test_imports)
        .copied()
        .collect();
    let texts: Vec<&str> = parts.iter().map(|part| part.text).collect();
    let (code, test) = super::halves(&texts, "\n");
    let mut text = format!(
        "//! The module MODULE.\n{}\n{code}\n#[cfg(test)]\nmod tests {{\n    use super::*;\n",
        uses(&imports, "")
    );
    // `use super::*` brings the names that the code imports.
    text += &uses(&tests.difference(&imports).copied().collect(), "    ");
    text + "\n" + &test + "}\n"
}

/// Width at which rustfmt breaks lines.
const WIDTH: usize = 100;

/// Formats a `use` of the SDK as rustfmt does.
fn uses(names: &BTreeSet<&str>, indent: &str) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    let list = match names.as_slice() {
        [] => return String::new(),
        [name] => (*name).to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    };
    let one_line = format!("{indent}use peal_sdk::{list};\n");
    if one_line.trim_end().len() <= WIDTH {
        return one_line;
    }
    let mut text = format!("{indent}use peal_sdk::{{");
    let mut line = String::new();
    for name in names {
        // rustfmt fills lines up to the width if the list does not fit in one.
        if line.is_empty() || indent.len() + 4 + line.len() + name.len() + 2 > WIDTH {
            text += line.trim_end();
            text += &format!("\n{indent}    ");
            line.clear();
        }
        line += &format!("{name}, ");
    }
    text + line.trim_end() + &format!("\n{indent}}};\n")
}

const CARGO: &str = r#"[package]
name = "MODULE"
version = "0.1.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
peal-sdk = { path = "LIBRARY" }

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
