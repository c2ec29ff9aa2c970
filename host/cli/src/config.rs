//! Configuration of a command: its sources, and the settings that are made of it.
use crate::{args::ConfigArgs, console, telemetry};
use peal_audit::TrailRetention;
use peal_config::{
    Config, ConfigCheck, ConfigSources, OrderedChannel, Problem, ProblemOrigin, Problems,
    Requirement, Resolved, SettingOverride, SettingsTable, SystemResources,
};
use peal_core::{
    choice::RecordFailurePolicy,
    defaults::Defaults,
    group,
    log::{ChannelRequirement, LogSettings, channel, duplicates::Aggregation, queue::QueueLimits},
    monitor::MonitorLimits,
    published,
    server::{DecisionLimits, EventBudget, Monitoring, RetentionLimits},
};
use peal_launcher::{BlockingLimits, CleanupSettings};
use peal_model::Hook;
use peal_nats::ClusterAccess;
use peal_sandbox::Capability;
use peal_server::{
    ChainSettings, ChannelSettings, InboxLimits, OutboxLimits, RendezvousSettings, ServerKind,
    ServerSettings, Serves, SpillSettings, StubSettings, admin::AdminGroup,
};
use peal_store::{RecordLimits, StoreSettings};
use rustix::{
    process::{Resource, getrlimit},
    system::sysinfo,
};
use std::{path::PathBuf, time::Duration};

/// Reads all layers of the configuration. `options` are the command-line options that are settings
/// too; they come last.
pub fn load(
    args: ConfigArgs,
    options: impl IntoIterator<Item = SettingOverride>,
) -> Result<Resolved, Problems> {
    sources(args, options).load()
}

/// Reads only the settings of these sections, so that errors in other sections do not stop the
/// command.
pub fn load_sections(args: ConfigArgs, sections: &[&str]) -> Result<Config, Problems> {
    Ok(self::sources(args, []).load_sections(sections)?.config)
}

/// Configuration whose settings, at least, are valid.
pub struct Readable {
    /// Settings and, if they are valid, modules.
    pub resolved: Resolved,
    /// Problems of the modules' configuration, if any.
    pub modules: Result<(), Problems>,
}

/// Reads all layers. If only the modules' configuration is invalid, returns the settings with the
/// problems.
pub fn load_for_server(
    args: ConfigArgs,
    options: impl IntoIterator<Item = SettingOverride>,
) -> Result<Readable, Problems> {
    let sources = sources(args, options);
    match sources.load() {
        Ok(resolved) => Ok(Readable {
            resolved,
            modules: Ok(()),
        }),
        Err(problems) => match sources.load_settings() {
            Ok(resolved) => Ok(Readable {
                resolved,
                modules: Err(problems),
            }),
            // This list has the problems of the modules too.
            Err(_) => Err(problems),
        },
    }
}

/// Returns every problem because of which a server would not start, as far as it can be found
/// without starting modules.
pub fn check(args: ConfigArgs) -> ConfigCheck {
    let ConfigCheck {
        resolved,
        mut problems,
    } = sources(args, []).check();
    // Paths and limits of components are settings, so they are read only if those are valid.
    if problems.is_empty() {
        let components = peal_modules::read_components(&resolved.modules, &resolved.config);
        problems.extend(
            components
                .err()
                .map(|problems| problems.0)
                .unwrap_or_default(),
        );
    } else {
        problems.extend(peal_modules::unfit_among(
            &resolved.modules,
            &resolved.config,
        ));
    }
    problems.extend(admin_group(&resolved).err());
    problems.extend(audit_failure(&resolved).err());
    problems.extend(cluster_access(&resolved).err());
    problems.extend(telemetry::collector(&resolved).err());
    problems.extend(console::check(&resolved).err());
    problems.extend(audit_retention(&resolved).err());
    ConfigCheck { resolved, problems }
}

/// Returns the Unix group whose members may administer, beside root and the server's own user.
pub fn admin_group(resolved: &Resolved) -> Result<Option<AdminGroup>, Problem> {
    let key = "admin.group";
    let wrong = |error| Problem::new(resolved.origin(key).clone(), format!("{key}: {error}"));
    resolved
        .config
        .admin
        .group
        .as_deref()
        .map(AdminGroup::named)
        .transpose()
        .map_err(wrong)
}

/// Returns the policy for decisions that cannot be recorded; `None` without an audit trail. With an
/// audit trail the setting is mandatory.
pub fn audit_failure(resolved: &Resolved) -> Result<Option<RecordFailurePolicy>, Problem> {
    let (audit, key) = (&resolved.config.audit, "audit.on_failure");
    match (&audit.path, audit.on_failure) {
        (None, _) => Ok(None),
        (Some(_), Some(policy)) => Ok(Some(policy)),
        // An invalid value has been reported already.
        (Some(_), None) if *resolved.origin(key) != ProblemOrigin::BuiltIn => Ok(None),
        (Some(_), None) => Err(Problem::new(
            resolved.origin("audit.path").clone(),
            format!(
                "{key} is required with an audit trail: \"deny\" turns a grant into a denial while it cannot be \
                recorded, \"continue\" grants without a record"
            ),
        )),
    }
}

/// Returns the access of this node to its cluster; `None` without a cluster.
pub fn cluster_access(resolved: &Resolved) -> Result<Option<ClusterAccess>, Problem> {
    ClusterAccess::from_settings(&resolved.config.cluster, &peal_system::hostname()).map_err(
        |error| {
            // The setting that is missing stands nowhere, so the problem is that of the section.
            let given = Config::ALL
                .iter()
                .filter(|setting| setting.key.starts_with("cluster."))
                .map(|setting| resolved.origin(setting.key))
                .find(|origin| **origin != ProblemOrigin::BuiltIn);
            let origin = given.cloned().unwrap_or(ProblemOrigin::BuiltIn);
            Problem::new(origin, error.to_string())
        },
    )
}

/// Default of the days for which decisions are kept.
const DECISION_DAYS: u32 = 7;

/// Returns the retention times of the audit trail.
pub fn audit_retention(resolved: &Resolved) -> Result<TrailRetention, Problem> {
    let audit = &resolved.config.audit;
    if let (Some(days), Some(keep)) = (audit.decision_days, audit.keep_days)
        && days > keep
    {
        let key = "audit.decision_days";
        let what = format!(
            "{key}: decisions cannot stay for {days} days where audit.keep_days is {keep}; {keep} is the most"
        );
        return Err(Problem::new(resolved.origin(key).clone(), what));
    }
    let user = audit.max_decision_percent_per_user;
    let all = audit.decision_percent;
    if user > all {
        let key = "audit.max_decision_percent_per_user";
        // A default stands nowhere, so that the problem is that of the other setting.
        let is_given = *resolved.origin(key) != ProblemOrigin::BuiltIn;
        let origin = resolved.origin(if is_given {
            key
        } else {
            "audit.decision_percent"
        });
        let what = format!(
            "{key} is {user}, and audit.decision_percent {all}; the share of one user is {all} at most"
        );
        return Err(Problem::new(origin.clone(), what));
    }
    Ok(trail_retention(&resolved.config))
}

/// Returns the retention times of a valid configuration.
pub fn trail_retention(config: &Config) -> TrailRetention {
    let audit = &config.audit;
    let time = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    TrailRetention {
        keep: audit.keep_days.map(time),
        call_age: audit.min_call_age,
        decision_age: time(
            audit
                .decision_days
                .unwrap_or(DECISION_DAYS)
                .min(audit.keep_days.unwrap_or(u32::MAX)),
        ),
        decision_percent: audit.decision_percent,
        user_percent: audit.max_decision_percent_per_user,
        user_call_percent: audit.max_call_percent_per_user,
    }
}

/// Returns the sources of a command's configuration.
pub fn sources(
    args: ConfigArgs,
    options: impl IntoIterator<Item = SettingOverride>,
) -> ConfigSources {
    ConfigSources {
        file: args.config,
        environment: std::env::vars_os().collect(),
        overrides: args.set.into_iter().chain(options).collect(),
        capabilities: Capability::ALL.map(Capability::name).to_vec(),
        system: system_resources(),
    }
}

/// Returns the resources of this system that settings must not exceed.
fn system_resources() -> SystemResources {
    let memory = sysinfo();
    SystemResources {
        // `None` means no limit.
        open_files: getrlimit(Resource::Nofile).maximum,
        memory_bytes: Some(memory.totalram.saturating_mul(memory.mem_unit.into())),
    }
}

/// Returns the limits of cleanup registrations; `within`, if set, confines them to these
/// directories.
pub fn cleanup_settings(config: &Config, within: Option<Vec<PathBuf>>) -> CleanupSettings {
    let run = &config.run;
    let max_paths = run.max_cleanup_paths;
    let max_entries = run.max_cleanup_entries;
    let max_depth = run.max_cleanup_depth;
    CleanupSettings {
        max_paths,
        max_entries,
        max_depth,
        within,
    }
}

/// Returns the limits of published data.
fn publish_limits(config: &Config) -> published::PublishLimits {
    let publish = &config.publish;
    published::PublishLimits {
        items: published::PublishLimit {
            user: publish.max_items_per_user,
            total: publish.items_total(),
        },
        bytes: published::PublishLimit {
            user: publish.max_bytes_per_user,
            total: publish.bytes_total(),
        },
        waits: published::PublishLimit {
            user: publish.max_pending_lookups_per_user,
            total: publish.pending_lookups_total(),
        },
    }
}

/// Returns the limits of threads that work for users.
pub fn blocking_limits(config: &Config) -> BlockingLimits {
    BlockingLimits {
        all: config.server.max_blocking_threads,
        user: config.server.max_blocking_threads_per_user,
    }
}

/// Returns the limits of launchers that register jobs.
pub fn stub_settings(config: &Config) -> StubSettings {
    let hosts = &config.hosts;
    StubSettings {
        max_stubs: hosts.max_stubs,
        max_jobs: hosts.max_jobs,
        answer_timeout: hosts.answer_timeout,
        allowance: EventBudget::new(config.server.event_budget),
        ..StubSettings::default()
    }
}

/// Returns the limits and times of the server.
pub fn server_settings(config: &Config) -> ServerSettings {
    let server = &config.server;
    let events = &config.events;
    // The other limits of messages have no settings.
    let mut wire = ServerSettings::default().wire;
    wire.max_message = server.max_message_bytes;
    wire.max_memory = server.max_decoded_message_bytes;
    let dir = events.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
    let spill = SpillSettings {
        dir,
        max_bytes: events.max_spill_bytes as u64,
    };
    ServerSettings {
        duty: if server.gateway {
            ServerKind::Gateway
        } else {
            ServerKind::Node
        },
        wire,
        spill,
        core: peal_core::server::StateSettings {
            get_timeout: server.get_timeout,
            retention: RetentionLimits {
                ring: events.ring_size,
                ring_bytes: events.max_ring_bytes,
                memory: events.max_memory_bytes,
                spill: events.max_spill_bytes,
                user_spill: events.spill_bytes_per_user(),
                index: events.max_index_bytes,
                user_index: events.index_bytes_per_user(),
            },
            connection_loss_window: events.connection_loss_window,
            max_event_bytes: server.max_event_bytes,
            max_put_bytes: server.max_put_bytes,
            max_put_bytes_per_user: server.put_bytes_per_user(),
            max_put_bytes_total: server.put_bytes_total(),
            max_pending_gets: server.max_pending_gets,
            max_fences: server.max_fences,
            max_fence_set_procs: server.max_fence_set_procs,
            max_registrations: server.max_registrations,
            max_connections_per_proc: server.max_connections_per_proc,
            monitoring: match server.monitoring {
                None => Monitoring::Deferred,
                Some(true) => Monitoring::Server,
                Some(false) => Monitoring::Host,
            },
            monitors: MonitorLimits {
                per_proc: server.max_monitors_per_proc,
                total: server.max_monitors_total,
                files: server.max_monitored_files,
            },
            max_tools: if config.tools.enable {
                config.tools.max_connections
            } else {
                0
            },
            max_tools_per_user: config.tools.per_user(),
            allowance: EventBudget::new(server.event_budget),
            defaults: defaults(&config.policy),
            decisions: DecisionLimits {
                requests: config.policy.max_pending_decisions,
                user_requests: config.policy.pending_decisions_per_user(),
                bytes: config.policy.max_pending_decision_bytes,
                user_bytes: config.policy.pending_decision_bytes_per_user(),
            },
            groups: group::GroupSettings {
                timeout: config.group.timeout,
                decision_timeout: config.group.decision_timeout,
                result_retention: config.group.result_retention,
                max_per_user: config.group.max_per_user,
            },
            max_controls: config.job_control.max_requests,
            checkpoint_timeout: config.job_control.checkpoint_timeout,
            preempt_grace: config.job_control.preempt_grace,
            server_answer_timeout: config.cluster.answer_timeout,
            publish: publish_limits(config),
            ..peal_core::server::StateSettings::default()
        },
        max_connections: server.max_connections,
        max_connections_per_user: server.connections_per_user(),
        max_handshakes_per_user: server.handshakes_per_user(),
        max_partial_frame_bytes_per_user: server.partial_frame_bytes_per_user(),
        max_partial_frame_bytes_total: server.partial_frame_bytes_total(),
        frame_timeout: server.frame_timeout,
        max_refusal_delay: server.max_refusal_delay,
        max_busy_percent: server.max_busy_percent,
        spin_time: server.spin_time,
        handshake_timeout: server.handshake_timeout,
        max_outbox_messages: server.max_outbox_messages,
        outbox: OutboxLimits {
            client: server.max_outbox_bytes,
            user: server.outbox_bytes_per_user(),
            total: server.outbox_bytes_total(),
        },
        inbox: InboxLimits {
            server: server.max_server_inbox_bytes,
            total: server.server_inbox_bytes_total(),
        },
        max_open_requests: server.max_open_requests,
        chains: ChainSettings {
            queue: server.max_chain_queue_events,
            queue_bytes: server.max_chain_queue_bytes,
            user_queue_bytes: server.chain_queue_bytes_per_user(),
            total_queue_bytes: server.chain_queue_bytes_total(),
            drain_timeout: server.chain_drain_timeout,
        },
        channels: ChannelSettings {
            log: log(&config.log),
            queue: log_queue(&config.log),
            ..ChannelSettings::default()
        },
        drain_timeout: server.drain_timeout,
        host_environment_timeout: server.host_environment_timeout,
        identity: config.identity.check,
    }
}

/// Returns the places of the rendezvous files; `None` if tools are not allowed. Only a server that
/// serves more than its own jobs can be the system server.
pub fn tool_settings(config: &Config, serves: Serves) -> Option<RendezvousSettings> {
    let tools = &config.tools;
    let mut settings = RendezvousSettings::default();
    if let Some(dir) = &tools.system_dir {
        settings = settings.below(dir.clone());
    }
    if let Some(dir) = &tools.session_dir {
        settings.session_dir = dir.clone();
    }
    settings.serves = if tools.system_server && serves != Serves::Itself {
        Serves::System
    } else {
        serves
    };
    tools.enable.then_some(settings)
}

/// Returns the limits of the store.
pub fn store_settings(config: &Config) -> StoreSettings {
    let store = &config.store;
    let records = RecordLimits {
        bytes: store.record_bytes(),
        user_bytes: store.user_record_bytes(),
        job_bytes: store.job_record_bytes(),
        job_entries: store.max_record_entries_per_job,
    };
    StoreSettings {
        max_bytes: store.max_bytes,
        mail_bytes: store.mail_bytes(),
        state_bytes: store.state_bytes(),
        admin_bytes: store.admin_bytes(),
        records,
    }
}

/// Returns the verdicts for hooks without a policy's decision.
pub fn defaults(policy: &peal_config::Policy) -> Defaults {
    let mut defaults = Defaults::default();
    for hook in Hook::ALL {
        defaults.set(hook, policy.default_of(hook));
    }
    defaults
}

/// Returns the limits of queued log requests.
fn log_queue(log: &peal_config::Log) -> QueueLimits {
    QueueLimits {
        requests: log.max_queue_requests,
        bytes: log.max_queue_bytes,
        user_requests: log.user_queued(),
        user_bytes: log.user_queued_bytes(),
    }
}

/// Returns the order of the log channels and the rule for duplicates. A name that is too long for a
/// key names no channel.
fn log(log: &peal_config::Log) -> LogSettings {
    let entry = |ordered: &OrderedChannel| {
        let need = match ordered.requirement {
            Requirement::Optional => ChannelRequirement::Optional,
            Requirement::Required => ChannelRequirement::Required,
        };
        Some((channel(&ordered.name).ok()?, need))
    };
    let aggregation = Aggregation {
        window: log.aggregate_window,
        entries: log.max_aggregate_entries,
    };
    LogSettings {
        order: log.order.iter().filter_map(entry).collect(),
        once: log.once,
        aggregation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configured crates have default values of their own, for use without a configuration.
    /// They must agree with the defaults of the settings.
    #[test]
    fn settings_table_has_defaults_of_configured_crates() {
        let server = server_settings(&Config::default());
        assert_eq!(
            format!("{server:#?}"),
            format!("{:#?}", ServerSettings::default())
        );
        assert_eq!(
            cleanup_settings(&Config::default(), None),
            CleanupSettings::default()
        );
        assert_eq!(store_settings(&Config::default()), StoreSettings::default());
        let engine = peal_sandbox::EngineSettings::default();
        assert_eq!(
            Config::default().sandbox.max_instances,
            engine.max_instances
        );
    }
}
