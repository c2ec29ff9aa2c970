//! `peal reload` and `SIGHUP`: the configuration is read again. Changes that a running server can
//! take are applied; the others are reported.
use crate::{
    admin,
    args::{ConfigArgs, ReloadArgs},
    config, confinement, module,
    trace::{self, FilterSource},
    troubles::Troubles,
};
use anyhow::Result;
use peal_config::{
    Config, Policy, Problem, Problems, Resolved, Setting, SettingOverride, SettingsTable, Sink,
    SinkEntry,
};
use peal_confinement::ActiveConfinement;
use peal_modules::{DeployError, Deployer, PresentJob, ReloadTrigger};
use peal_server::{
    Metrics, ServerHandle,
    admin::{AdminReply, AdminRequest, ReloadReport},
    metrics::MetricsEndpoint,
};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// Setting of the trace's filter.
const TRACE_FILTER: &str = "trace.filter";

/// Configuration of a running server, and the parts that a reload can change.
pub struct ReloadableConfig {
    /// Sources of the configuration.
    pub sources: ConfigArgs,
    /// Settings given by command-line options.
    pub overrides: Vec<SettingOverride>,
    /// Settings in force; those that need a restart stay as they were at the start.
    pub current: Config,
    /// Endpoint of the metrics.
    pub endpoint: Option<MetricsEndpoint>,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Handle of the server.
    pub server: ServerHandle,
    /// Deployer of the modules.
    pub deployer: Deployer,
    /// Files that were read last, even if they were invalid.
    pub looked_at: Vec<PathBuf>,
    /// Confinement, which blocks paths that were not named at the start.
    pub confinement: Option<ActiveConfinement>,
    /// Sinks that were opened at the start.
    pub sinks: Vec<Sink>,
    /// State shown by `peal status`, which holds a refused configuration.
    pub troubles: Troubles,
}

impl ReloadableConfig {
    /// Reads the configuration again. An invalid one changes nothing.
    pub async fn reload(&mut self, prompt: ReloadTrigger) -> Result<ReloadReport> {
        let new = self.read()?;
        self.looked_at = looked_at(&new);
        let shut_out = self.shut_out(&new);
        if !shut_out.is_empty() {
            return Err(self
                .deployer
                .refuse(DeployError::Unfit(Problems(shut_out)))
                .into());
        }
        let wanted = new.config;
        // Steps that can fail come before the first change.
        let endpoint = match wanted.metrics.listen {
            Some(address) if wanted.metrics != self.current.metrics => {
                Some(MetricsEndpoint::start(address, self.metrics.clone()).await?)
            }
            _ => None,
        };
        // The signature rules apply to these modules already. The other settings, such as
        // those of the store, stay as they were at the start.
        let config = Config {
            modules: wanted.modules.clone(),
            ..self.current.clone()
        };
        let configured = self.deployer.configure(new.modules, &config, prompt);
        let deployed = configured.await?;
        let refused = self.deployer.refused_users();
        let mut reloaded = ReloadReport {
            modules: deployed.changes,
            refused,
            fetching: self.deployer.fetching(),
            ..ReloadReport::default()
        };
        self.note_settings(&wanted, &new.sinks, &mut reloaded);
        if reloaded.applied.iter().any(|key| key == TRACE_FILTER) {
            trace::follow(&wanted.trace.filter)?;
        }
        if wanted.metrics != self.current.metrics {
            // Stopped only now: if an earlier step had failed, the old endpoint would stay.
            if let Some(old) = std::mem::replace(&mut self.endpoint, endpoint) {
                old.stop().await;
            }
            self.current.metrics = wanted.metrics;
        }
        self.server.set_defaults(config::defaults(&wanted.policy));
        // The only setting of this section that needs a restart.
        let max_pending_decisions = self.current.policy.max_pending_decisions;
        self.current.policy = Policy {
            max_pending_decisions,
            ..wanted.policy
        };
        // Settings that need a restart keep their old values here, so that the next reload reports
        // them again.
        self.current.modules = wanted.modules;
        if reloaded.applied.iter().any(|key| key == TRACE_FILTER) {
            self.current.trace = wanted.trace;
        }
        Ok(reloaded)
    }

    /// Returns what a reload would change now.
    pub async fn check(&self) -> Result<ReloadReport> {
        let new = self.read()?;
        let shut_out = self.shut_out(&new);
        if !shut_out.is_empty() {
            return Err(Problems(shut_out).into());
        }
        let config = Config {
            modules: new.config.modules.clone(),
            ..self.current.clone()
        };
        let checked = self
            .deployer
            .check_configuration(new.modules, &config)
            .await?;
        let mut report = ReloadReport {
            modules: checked.deployed.changes,
            refused: self.deployer.refused_users(),
            fetching: checked.fetching,
            ..ReloadReport::default()
        };
        self.note_settings(&new.config, &new.sinks, &mut report);
        Ok(report)
    }

    /// Reads the configuration.
    fn read(&self) -> Result<Resolved> {
        let new = config::load(self.sources.clone(), self.overrides.clone())?;
        // Only a check: the group in force stays until the next start.
        config::admin_group(&new).map_err(|problem| Problems(vec![problem]))?;
        Ok(new)
    }

    /// Returns the files that the confinement keeps from the server.
    fn shut_out(&self, new: &Resolved) -> Vec<Problem> {
        let confinement = self.confinement.as_ref();
        confinement
            .map(|raised| confinement::blocked_files(raised, &new.modules))
            .unwrap_or_default()
    }

    /// Notes the settings that differ: those that a running server takes, and those that it does not.
    fn note_settings(&self, wanted: &Config, sinks: &[SinkEntry], report: &mut ReloadReport) {
        for key in changed(&self.current, wanted) {
            let applied = match key {
                TRACE_FILTER => trace::filter_source() == FilterSource::Configuration,
                "metrics.listen" => true,
                key => {
                    key.starts_with("modules.")
                        || (key.starts_with("policy.") && key.ends_with(".default"))
                }
            };
            let list = if applied {
                &mut report.applied
            } else {
                &mut report.needs_restart
            };
            list.push(key.to_owned());
        }
        // Sinks are opened at the start only, so any difference needs a restart.
        if !sinks.iter().map(|sink| &sink.settings).eq(&self.sinks) {
            report.needs_restart.push("[[sink]]".to_owned());
        }
    }

    /// Starts to read the modules that users install; they run as soon as they are ready.
    pub fn look_at_users(&mut self) {
        self.deployer.look_at_users(&self.current);
    }

    /// Passes the present jobs to the deployer, after a job was added or removed.
    pub async fn follow_jobs(&mut self) {
        // A server that is ending returns `None`, which does not mean that there are no jobs.
        let Some(jobs) = self.server.jobs().await else {
            return;
        };
        let present = jobs.into_iter().map(|job| PresentJob {
            uid: job.spec.identity.uid,
            nspace: job.spec.nspace,
        });
        self.deployer.follow(present.collect()).await;
    }

    /// Returns the files of the configuration, and the paths where further ones could be added.
    pub fn files(&self) -> Vec<PathBuf> {
        named_files(&self.sources, &self.overrides)
            .into_iter()
            .chain(self.looked_at.iter().cloned())
            .collect()
    }

    /// Returns the directories in which users install modules.
    pub fn user_files(&self) -> Vec<PathBuf> {
        peal_modules::watched(self.current.deploy.user_modules_dir.as_deref())
    }
}

/// Returns the paths that a configuration is read from, whether they exist or not.
pub fn named_files(sources: &ConfigArgs, given: &[SettingOverride]) -> Vec<PathBuf> {
    let main = config::sources(sources.clone(), given.to_vec()).main_file();
    let drop_ins = main
        .iter()
        .filter_map(|main| main.parent())
        .map(|parent| parent.join("modules.d"));
    main.iter().cloned().chain(drop_ins).collect()
}

/// Returns the files of a configuration that was read, and of its modules.
pub fn looked_at(read: &Resolved) -> Vec<PathBuf> {
    // A replaced component is a change, too.
    let components = read.modules.iter();
    let components = components.filter_map(|entry| entry.settings.path.file().map(Path::to_owned));
    components.chain(read.files.iter().cloned()).collect()
}

/// Returns the keys of the settings that differ.
fn changed(old: &Config, new: &Config) -> Vec<&'static str> {
    let differs = |setting: &&Setting<Config>| setting.value(old) != setting.value(new);
    Config::ALL
        .iter()
        .filter(differs)
        .map(|setting| setting.key)
        .collect()
}

/// Requests a reload from a running server, and prints the report.
pub fn request(args: ReloadArgs) -> Result<ExitCode> {
    let ReloadArgs { at, dry_run } = args;
    let (reply, _) = admin::request_change(at, AdminRequest::Reload, dry_run)?;
    let AdminReply::Reloaded(reloaded) = reply else {
        return admin::unexpected(&reply);
    };
    let mut out = crate::output::stdout();
    let [has_changed, will_change, is_fetched, nothing] = if dry_run.dry_run {
        [
            "would change",
            "would change",
            "would be fetched from its registry",
            "would change nothing",
        ]
    } else {
        [
            "has changed",
            "will change",
            "is fetched from its registry; `peal module list` shows its state",
            "nothing has changed",
        ]
    };
    for key in &reloaded.applied {
        writeln!(out, "{key} {has_changed}")?;
    }
    module::write_changes(&mut out, &reloaded.modules, dry_run)?;
    for key in &reloaded.needs_restart {
        writeln!(out, "{key} {will_change} at the next start")?;
    }
    for refused in &reloaded.refused {
        writeln!(out, "{refused}")?;
    }
    for name in &reloaded.fetching {
        writeln!(out, "module {name} {is_fetched}")?;
    }
    if reloaded.is_unchanged() && reloaded.fetching.is_empty() {
        writeln!(out, "{nothing}")?;
    }
    Ok(ExitCode::SUCCESS)
}
