//! `peal module dev`: builds and tests a project again after each change.
mod shadow;
mod sources;

use super::{
    build::BuiltComponent,
    candidate::{TestedComponent, case_files},
    case_results::{CaseResults, LogDisplay, changes, run_cases, run_file, table, usual_sinks},
};
use crate::{args::ModuleDev, interrupts::Interrupts, node, wait_message::WaitMessage};
use anyhow::Result;
use peal_build::{BuildTools, Install, Project};
use peal_devtools::module_test::{CallRecords, Candidate, CaseFile, CaseReport};
use peal_model::counted;
use peal_modules::Watch;
use peal_sandbox::ModuleLimits;
use shadow::Shadow;
use sources::SourceFiles;
use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Time without changes before a build: editors write several files at once.
const SETTLE: Duration = Duration::from_millis(50);

/// Builds and tests a project, and again after each change, until a signal comes.
pub fn dev(args: ModuleDev) -> Result<ExitCode> {
    let mut session = DevSession::open(args)?;
    if session.once {
        return session.round();
    }
    node::as_tool(async move {
        let mut interrupts = Interrupts::new()?;
        let mut watch = Watch::new(SETTLE);
        // Before the build: what changes meanwhile is built next.
        let mut sources = session.follow(&mut watch)?;
        loop {
            // The next change may mend it.
            if let Err(error) = session.round() {
                crate::print_line(&crate::error_text(&error));
            }
            crate::print_line("waiting for a change; Ctrl-C ends");
            loop {
                tokio::select! {
                    () = watch.changed() => {}
                    () = interrupts.end() => return Ok(ExitCode::SUCCESS),
                }
                let now = session.follow(&mut watch)?;
                // Built components and files that were only read are no change.
                if now != sources {
                    sources = now;
                    break;
                }
            }
        }
    })
}

/// Project under development.
struct DevSession {
    dir: PathBuf,
    recordings: Vec<PathBuf>,
    tools: BuildTools,
    limits: ModuleLimits,
    logs: LogDisplay,
    once: bool,
    shadow: Option<Shadow>,
    /// Component of the last round.
    built: Vec<u8>,
    /// Recordings that expect the answers of the last component that ran.
    answered: BTreeMap<PathBuf, CaseFile>,
}

impl DevSession {
    fn open(args: ModuleDev) -> Result<DevSession> {
        let project = Project::open(&args.dir)?;
        let shadow = match &args.shadow {
            Some(directory) => Some(Shadow::prepare(
                directory,
                &project.manifest.name,
                args.server,
            )?),
            None => None,
        };
        Ok(DevSession {
            dir: project.dir,
            recordings: args.recordings,
            tools: BuildTools::of_user(Install::Never)?,
            limits: ModuleLimits {
                call_time: args.call_time,
                ..ModuleLimits::default()
            },
            logs: if args.show_log {
                LogDisplay::Shown
            } else {
                LogDisplay::Hidden
            },
            once: args.once,
            shadow,
            built: Vec::new(),
            answered: BTreeMap::new(),
        })
    }

    /// Watches the project's present files. Returns their states.
    fn follow(&self, watch: &mut Watch) -> Result<SourceFiles> {
        let sources = SourceFiles::read(&self.dir, &self.recordings)?;
        watch.follow(sources.directories());
        Ok(sources)
    }

    /// Builds the component, runs its cases, and shows what changed in its answers to recordings.
    fn round(&mut self) -> Result<ExitCode> {
        let began = Instant::now();
        // The manifest may have changed.
        let project = Project::open(&self.dir)?;
        let component = {
            let waiting = WaitMessage::new("building");
            BuiltComponent::build(&project, &self.tools, &mut |words| waiting.show(words))?
        };
        // A server may watch the file.
        if component.bytes != self.built {
            component.write(&self.dir)?;
        }
        let BuiltComponent { name, bytes, .. } = component;
        let mut out = crate::output::stdout();
        writeln!(
            out,
            "{name}: {} bytes, built in {:.1} s",
            bytes.len(),
            began.elapsed().as_secs_f64()
        )?;
        let tested = TestedComponent::new(&self.dir, &name, &bytes)?;
        let results = self.results(&name, &tested)?;
        let is_ok = results
            .iter()
            .flat_map(|results| &results.reports)
            .all(CaseReport::is_ok);
        if !results.is_empty() {
            table(&results, self.logs, &mut out)?;
        }
        self.show_changes(&name, &tested, &mut out)?;
        if let Some(shadow) = &self.shadow {
            writeln!(out, "shadow: {}", shadow.install(&bytes)?)?;
        }
        out.flush()?;
        self.built = bytes;
        Ok(if is_ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Runs the project's cases.
    fn results(&self, name: &str, tested: &TestedComponent) -> Result<Vec<CaseResults>> {
        let sinks = usual_sinks();
        let of = self.candidate(name, tested, &sinks);
        let paths = case_files(&self.dir)?;
        paths.iter().map(|path| run_file(&of, path)).collect()
    }

    fn show_changes(
        &mut self,
        name: &str,
        tested: &TestedComponent,
        out: &mut impl Write,
    ) -> Result<()> {
        let sinks = usual_sinks();
        for path in &self.recordings {
            let earlier = self.answered.remove(path);
            let of = self.candidate(name, tested, &sinks);
            let results = match earlier {
                Some(file) => {
                    let results = run_cases(&of, file)?;
                    changes(&results, out)?;
                    results
                }
                None => {
                    let results = run_file(&of, path)?;
                    let answers = counted(results.reports.len(), "answer");
                    writeln!(out, "{}: {answers} to compare with", path.display())?;
                    results
                }
            };
            let expecting = results.file.expecting(&results.reports)?;
            self.answered.insert(path.clone(), expecting);
        }
        Ok(())
    }

    fn candidate<'a>(
        &'a self,
        name: &'a str,
        tested: &'a TestedComponent,
        sinks: &'a [String],
    ) -> Candidate<'a> {
        Candidate {
            engine: &tested.engine,
            name,
            bytes: &tested.bytes,
            sinks,
            limits: self.limits,
            records: CallRecords::None,
        }
    }
}
