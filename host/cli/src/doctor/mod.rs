//! `peal doctor`: examines what installations fail by, and says what to do. It changes nothing.
mod clock;
mod control_groups;
mod directories;
mod engine;
mod kernel;
mod library;
mod network;
mod running_server;
mod temporary_files;
mod topology;

use crate::{
    args::{ConfigArgs, DoctorArgs, OutputFormat, ServerArgs},
    config, output, plain,
    wait_message::WaitMessage,
};
use anyhow::Result;
use peal_config::{ConfigCheck, Resolved};
use peal_model::counted;
use serde::Serialize;
use std::{
    fmt::Display,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Exit status if something would not work.
const FAILURE: u8 = 1;

/// Width of the longest outcome.
const OUTCOME_WIDTH: usize = 7;

/// Width of the longest subject.
const SUBJECT_WIDTH: usize = 15;

/// Subject of an examination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Subject {
    /// Configuration files and settings.
    Configuration,
    /// Confinement by the kernel.
    Kernel,
    /// Control groups of version 2.
    ControlGroups,
    /// Directories and files of the configuration.
    Directories,
    /// Directory by which programs find the server.
    TemporaryFiles,
    /// WebAssembly engine.
    Engine,
    /// Topology of this node for procs.
    Topology,
    /// C library that programs load.
    Library,
    /// Ports and servers.
    Network,
    /// Time.
    Clock,
    /// Running server.
    Server,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::Configuration => "configuration",
            Subject::Kernel => "kernel",
            Subject::ControlGroups => "control groups",
            Subject::Directories => "directories",
            Subject::TemporaryFiles => "temporary files",
            Subject::Engine => "engine",
            Subject::Topology => "topology",
            Subject::Library => "libpmix",
            Subject::Network => "network",
            Subject::Clock => "clock",
            Subject::Server => "server",
        }
    }
}

/// Outcome of an examination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// All is as it should be.
    Ok,
    /// Something works less well than it could.
    Warning,
    /// Something does not work.
    Failed,
    /// It could not be examined.
    Skipped,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Warning => "warning",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        }
    }

    /// Returns the number of its colour on terminals.
    fn colour(self) -> u8 {
        match self {
            Outcome::Ok => 32,
            Outcome::Warning => 33,
            Outcome::Failed => 31,
            Outcome::Skipped => 2,
        }
    }
}

/// Result of an examination, without its subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Finding {
    outcome: Outcome,
    /// State that was found.
    found: String,
    /// Step that would improve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(found: impl Into<String>) -> Finding {
        Finding {
            outcome: Outcome::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn skipped(found: impl Into<String>) -> Finding {
        Finding {
            outcome: Outcome::Skipped,
            ..Finding::ok(found)
        }
    }

    fn warning(found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            outcome: Outcome::Warning,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    fn failed(found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            outcome: Outcome::Failed,
            ..Finding::warning(found, advice)
        }
    }
}

/// Result of an examination.
#[derive(Serialize)]
struct ExaminedSubject {
    subject: Subject,
    #[serde(flatten)]
    finding: Finding,
}

/// Results of all examinations.
#[derive(Serialize)]
struct Examination {
    /// False if one of them failed.
    ok: bool,
    findings: Vec<ExaminedSubject>,
}

/// Runs the command.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let waiting = WaitMessage::new("examining this system");
    let examination = examine(args.at, &args.programs);
    // The line of the message must be gone before anything else is printed.
    drop(waiting);
    match args.format.output {
        OutputFormat::Data(form) => output::print(&form.document(&examination)?)?,
        _ => print(&mut output::stdout(), &examination)?,
    }
    Ok(if examination.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILURE)
    })
}

fn examine(at: ServerArgs, programs: &[PathBuf]) -> Examination {
    let (configured, resolved) = configuration(at.config.clone());
    let config = &resolved.config;
    // A configuration that cannot be read names no socket.
    let socket = crate::admin::socket(at).unwrap_or_else(|_| crate::admin::usual_socket());
    let answer = running_server::ask(&socket);
    let examined = [
        (Subject::Configuration, vec![configured]),
        (
            Subject::Kernel,
            vec![kernel::examine(config.confinement.mode)],
        ),
        (Subject::ControlGroups, vec![control_groups::examine()]),
        (Subject::Directories, directories::examine(config, &socket)),
        (Subject::TemporaryFiles, temporary_files::examine(config)),
        (Subject::Engine, vec![engine::examine(&config.sandbox)]),
        (Subject::Topology, vec![topology::examine(&config.run)]),
        (Subject::Library, library::examine(programs)),
        (Subject::Network, network::examine(&resolved, &answer)),
        (Subject::Clock, clock::examine(&resolved)),
        (
            Subject::Server,
            vec![running_server::examine(&answer, &socket)],
        ),
    ];
    let findings = examined.into_iter().flat_map(|(subject, findings)| {
        let findings = findings.into_iter();
        findings.map(move |finding| ExaminedSubject { subject, finding })
    });
    let findings: Vec<ExaminedSubject> = findings.collect();
    let has_failed = |of: &ExaminedSubject| of.finding.outcome == Outcome::Failed;
    Examination {
        ok: !findings.iter().any(has_failed),
        findings,
    }
}

/// Reads the configuration. Where it is invalid, the result has the defaults.
fn configuration(args: ConfigArgs) -> (Finding, Resolved) {
    let ConfigCheck { resolved, problems } = config::check(args);
    let files = &resolved.files;
    let finding = match (problems.first(), files.as_slice()) {
        (Some(first), _) => Finding::failed(
            format!("{}, the first: {first}", counted(problems.len(), "problem")),
            "`peal config check` lists all of them",
        ),
        (None, []) => Finding::ok("no file was read: the defaults apply"),
        (None, files) => {
            let modules = counted(resolved.modules.len(), "module");
            let files: Vec<String> = files.iter().map(|of| of.display().to_string()).collect();
            Finding::ok(format!("{}, {modules}", files.join(", ")))
        }
    };
    (finding, resolved)
}

fn print(out: &mut impl Write, examination: &Examination) -> io::Result<()> {
    let has_colour = crate::output::has_colour();
    for ExaminedSubject { subject, finding } in &examination.findings {
        let outcome = format!("{:OUTCOME_WIDTH$}", finding.outcome.name());
        let outcome = if has_colour {
            format!("\u{1b}[{}m{outcome}\u{1b}[0m", finding.outcome.colour())
        } else {
            outcome
        };
        let subject = format!("{:SUBJECT_WIDTH$}", subject.name());
        writeln!(out, "{outcome}  {subject}  {}", one_line(&finding.found))?;
        for advice in finding.advice.iter().flat_map(|advice| advice.lines()) {
            let indent = OUTCOME_WIDTH + SUBJECT_WIDTH + 4;
            writeln!(out, "{:indent$}{}", "", plain(advice))?;
        }
    }
    Ok(())
}

/// Joins the lines of a text, since a finding takes one line.
fn one_line(text: impl Display) -> String {
    let text = text.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    plain(&lines.join(" "))
}
