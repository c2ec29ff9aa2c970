//! The hook of spawns.
use super::{BuiltInRule, Hook, HookSubject, bytes_of, replace};
use crate::{Amendment, App, Info, Text};
use serde::{Deserialize, Serialize};

/// A spawn, as its policies see it. The targets of the request are the procs that the job is
/// spawned for, if the request names others than the requester.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SpawnSubject {
    /// Applications to be spawned as one job.
    pub applications: Vec<Application>,
    /// Directives of the applications.
    pub infos: Vec<Info>,
    /// Directives of the job.
    pub directives: Vec<Info>,
}

/// An application to be spawned. In its texts, bytes that are not UTF-8 are replaced by U+FFFD.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Application {
    /// Program as requested; empty if none is named.
    pub command: String,
    /// Arguments, without the program.
    pub arguments: Vec<String>,
    /// Environment, `NAME=value`.
    pub environment: Vec<String>,
    /// Working directory, unless directives name another.
    pub directory: Option<String>,
    /// Number of procs; 0 if the number is invalid.
    pub procs: u32,
    /// Number of its directives in [`SpawnSubject::infos`], where those of all applications follow
    /// each other.
    pub directives: usize,
}

impl From<&App> for Application {
    fn from(app: &App) -> Application {
        let all = |texts: &mut dyn Iterator<Item = &Option<Text>>| {
            texts.flatten().map(Text::to_string).collect()
        };
        Application {
            command: app.program().map(Text::to_string).unwrap_or_default(),
            // The first argument is the name of the program.
            arguments: all(&mut app.args.iter().skip(1)),
            environment: all(&mut app.env.iter()),
            directory: app.cwd.as_ref().map(Text::to_string),
            procs: u32::try_from(app.max_procs).unwrap_or_default(),
            directives: app.infos.len(),
        }
    }
}

impl Application {
    /// Returns the memory of the texts, in bytes.
    fn bytes(&self) -> usize {
        let lists = self.arguments.iter().chain(&self.environment);
        [&self.command]
            .into_iter()
            .chain(lists)
            .chain(&self.directory)
            // Empty texts take memory, too.
            .map(|text| text.len().saturating_add(size_of::<String>()))
            .fold(size_of::<Application>(), usize::saturating_add)
    }
}

impl HookSubject for SpawnSubject {
    fn hook(&self) -> Hook {
        Hook::Spawn
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnUserIds {
            infos: [&self.directives, &self.infos],
        }
    }

    fn summary(&self, _targets: usize) -> String {
        let applications = self.applications.iter();
        let commands: Vec<&str> = applications.map(|app| app.command.as_str()).collect();
        format!("spawn of {commands:?}")
    }

    fn infos(&self) -> &[Info] {
        &self.infos
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
    }

    fn bytes(&self) -> usize {
        let applications = self.applications.iter().map(Application::bytes);
        let applications = applications.fold(bytes_of(&self.infos), usize::saturating_add);
        applications
            // The held request has a copy beside that of the policies.
            .saturating_mul(2)
            .saturating_add(bytes_of(&self.directives))
    }
}
