//! State of the host environment that another process of `peal serve` continues.
use super::{EmbeddedHostEnvironment, cleanup::HandedCleanups, pulls::PullTable};
use peal_core::job::JobSpec;
use peal_model::Nspace;
use peal_server::admin::JobRegistrar;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// State of a host environment whose jobs other launchers have started.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HandedHost {
    /// Time since the registration of each job.
    elapsed: BTreeMap<Nspace, Duration>,
    cleanups: HandedCleanups,
    #[serde(default)]
    pulls: PullTable,
}

impl EmbeddedHostEnvironment {
    /// Returns the state for another process, when the server asks for nothing more.
    ///
    /// # Errors
    ///
    /// Returns a kind of state that no other process can continue.
    pub fn handed(&self) -> Result<HandedHost, &'static str> {
        Ok(HandedHost {
            elapsed: self.table.elapsed_times(),
            cleanups: self.cleanups.handed()?,
            pulls: self.pulls.handed(),
        })
    }

    /// Continues with the jobs of another process.
    pub fn continue_from(&self, handed: HandedHost, jobs: &[JobSpec]) {
        jobs.iter().for_each(|job| self.adopt(job));
        self.table.set_elapsed_times(&handed.elapsed);
        self.cleanups.restore(handed.cleanups);
        self.pulls.restore(handed.pulls);
    }
}
