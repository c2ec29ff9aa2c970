//! Shares of users: their defaults, and checks of given ones against their totals and the system.
use crate::{
    document::Origins,
    problem::Problem,
    settings::{Admin, Config, Events, Log, Policy, Publish, Server, Store, Tools},
};

/// Divisor that gives the default share of one user of all connections and tools.
const PART: usize = 4;

/// Default number of concurrent handshakes of one user.
const HANDSHAKES: usize = 64;

/// Files that a server needs beside those of its connections.
const OTHER_FILES: u64 = 64;

/// Resources of the system, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResources {
    /// Limit of open files of this process (`RLIMIT_NOFILE`, the hard limit).
    pub open_files: Option<u64>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
}

impl Server {
    /// Returns the connections that one user may have.
    pub fn connections_per_user(&self) -> usize {
        self.max_connections_per_user
            // At least one: zero would lock out every user.
            .unwrap_or((self.max_connections / PART).max(1))
    }

    /// Returns the concurrent handshakes that one user may have.
    pub fn handshakes_per_user(&self) -> usize {
        self.max_handshakes_per_user
            // Every handshake belongs to a connection, so more would never occur.
            .unwrap_or(HANDSHAKES.min(self.connections_per_user()))
    }

    /// Returns the bytes that incomplete messages of one user may take.
    pub fn partial_frame_bytes_per_user(&self) -> usize {
        self.max_partial_frame_bytes_per_user
            .unwrap_or(self.max_message_bytes.saturating_mul(2))
    }

    /// Returns the bytes that values put by all procs may take.
    pub fn put_bytes_total(&self) -> usize {
        self.max_put_bytes_total
            .unwrap_or(self.put_bytes_per_user().saturating_mul(8))
    }

    /// Returns the bytes that incomplete messages of all users may take.
    pub fn partial_frame_bytes_total(&self) -> usize {
        self.max_partial_frame_bytes_total
            .unwrap_or(self.partial_frame_bytes_per_user().saturating_mul(4))
    }

    /// Returns the bytes that events for the handlers of one user and its jobs may take.
    pub fn chain_queue_bytes_per_user(&self) -> usize {
        self.max_chain_queue_bytes_per_user
            .unwrap_or(self.max_chain_queue_bytes.saturating_mul(2))
    }

    /// Returns the bytes that events for the handlers of all users and jobs may take.
    pub fn chain_queue_bytes_total(&self) -> usize {
        self.max_chain_queue_bytes_total
            .unwrap_or(self.chain_queue_bytes_per_user().saturating_mul(4))
    }

    /// Returns the bytes that messages for the clients of one user may take.
    pub fn outbox_bytes_per_user(&self) -> usize {
        self.max_outbox_bytes_per_user
            .unwrap_or(self.max_outbox_bytes.saturating_mul(2))
    }

    /// Returns the bytes that messages for all clients may take.
    pub fn outbox_bytes_total(&self) -> usize {
        self.max_outbox_bytes_total
            .unwrap_or(self.outbox_bytes_per_user().saturating_mul(4))
    }

    /// Returns the bytes that waiting messages of all other servers may take.
    pub fn server_inbox_bytes_total(&self) -> usize {
        self.max_server_inbox_bytes_total
            .unwrap_or(self.max_server_inbox_bytes.saturating_mul(8))
    }

    /// Returns the bytes that values put by one user's procs may take.
    pub fn put_bytes_per_user(&self) -> usize {
        self.max_put_bytes_per_user
            .unwrap_or(self.max_put_bytes.saturating_mul(2))
    }
}

impl Tools {
    /// Returns the tools that one user may have.
    pub fn per_user(&self) -> usize {
        self.max_connections_per_user
            // At least one: zero would lock out the tools of every user.
            .unwrap_or((self.max_connections / PART).max(1))
    }
}

impl Admin {
    /// Returns the watchers that one user may have.
    pub fn watchers_per_user(&self) -> usize {
        self.max_watchers_per_user
            // At least one: zero would lock out every user.
            .unwrap_or((self.max_watchers / 8).max(1))
    }
}

impl Events {
    /// Returns the bytes that the index of retained events may take for one user's procs.
    pub fn index_bytes_per_user(&self) -> usize {
        self.max_index_bytes_per_user
            .unwrap_or(self.max_index_bytes / 2)
    }

    /// Returns the bytes that spilled events of one user may take.
    pub fn spill_bytes_per_user(&self) -> usize {
        self.max_spill_bytes_per_user
            .unwrap_or(self.max_spill_bytes / 2)
    }
}

impl Policy {
    /// Returns the requests and connections of one user that may wait for policies.
    pub fn pending_decisions_per_user(&self) -> usize {
        self.max_pending_decisions_per_user
            // Rounded up, so that a limit of one leaves each user able to make a request.
            .unwrap_or(self.max_pending_decisions.div_ceil(PART))
    }

    /// Returns the bytes that these requests may take.
    pub fn pending_decision_bytes_per_user(&self) -> usize {
        self.max_pending_decision_bytes_per_user
            .unwrap_or(self.max_pending_decision_bytes / PART)
    }
}

impl Publish {
    /// Returns the values that all users may have published.
    pub fn items_total(&self) -> usize {
        self.max_items_total
            .unwrap_or(self.max_items_per_user.saturating_mul(4))
    }

    /// Returns the bytes that these values may take.
    pub fn bytes_total(&self) -> usize {
        self.max_bytes_total
            .unwrap_or(self.max_bytes_per_user.saturating_mul(4))
    }

    /// Returns the keys for which lookups of all users may wait.
    pub fn pending_lookups_total(&self) -> usize {
        self.max_pending_lookups_total
            .unwrap_or(self.max_pending_lookups_per_user.saturating_mul(4))
    }
}

impl Log {
    /// Returns the queued log requests that one user may have.
    pub fn user_queued(&self) -> usize {
        self.max_queue_requests_per_user
            // Rounded up, so that a small queue still has a share for each user.
            .unwrap_or(self.max_queue_requests.div_ceil(4))
    }

    /// Returns the bytes that these requests may take.
    pub fn user_queued_bytes(&self) -> usize {
        self.max_queue_bytes_per_user
            .unwrap_or(self.max_queue_bytes / 4)
    }
}

impl Store {
    /// Returns the bytes that messages of all sinks may take.
    pub fn mail_bytes(&self) -> u64 {
        self.max_mail_bytes.unwrap_or(self.max_bytes / 16)
    }

    /// Returns the bytes that the state of all modules may take.
    pub fn state_bytes(&self) -> u64 {
        self.max_state_bytes.unwrap_or(self.max_bytes / 16)
    }

    /// Returns the bytes that calls of admins may take.
    pub fn admin_bytes(&self) -> u64 {
        self.max_admin_bytes.unwrap_or(self.max_bytes / 16)
    }

    /// Returns the bytes that record entries of all jobs may take.
    pub fn record_bytes(&self) -> u64 {
        self.max_record_bytes.unwrap_or(self.max_bytes / 4)
    }

    /// Returns the bytes that record entries of one user's jobs may take.
    pub fn user_record_bytes(&self) -> u64 {
        self.max_record_bytes_per_user
            .unwrap_or(self.record_bytes() / 2)
    }

    /// Returns the bytes that record entries of one job may take.
    pub fn job_record_bytes(&self) -> u64 {
        self.max_record_bytes_per_job
            .unwrap_or(self.user_record_bytes() / 4)
    }
}

/// Bound of one setting.
struct Bound {
    key: &'static str,
    value: u64,
    limit: Limit,
    /// Reason of the bound.
    reason: String,
}

enum Limit {
    AtMost(u64),
    AtLeast(u64),
}

impl Bound {
    /// Returns the message if the bound is violated.
    fn violation(&self) -> Option<String> {
        let Bound {
            key,
            value,
            limit,
            reason,
        } = self;
        match *limit {
            Limit::AtMost(most) if *value > most => Some(format!(
                "{key} is {value}; it should be at most {most}: {reason}"
            )),
            Limit::AtLeast(least) if *value < least => Some(format!(
                "{key} is {value}; it should be at least {least}: {reason}"
            )),
            _ => None,
        }
    }
}

/// Returns the problems of settings that contradict each other or exceed the system. Defaults are
/// not checked, since they fit.
pub(crate) fn check(config: &Config, origins: &Origins, system: SystemResources) -> Vec<Problem> {
    let bounds = totals(config)
        .into_iter()
        .chain(system_bounds(config, system));
    let set = bounds.filter_map(|bound| Some((origins.get(bound.key)?, bound)));
    set.filter_map(|(origin, bound)| Some(Problem::new(origin.clone(), bound.violation()?)))
        .collect()
}

/// Returns the bounds of shares by their totals.
fn totals(config: &Config) -> [Bound; 23] {
    let Config {
        admin,
        server,
        tools,
        events,
        policy,
        log,
        store,
        ..
    } = config;
    // A share above its total has no effect: the total is reached first.
    let at_most_bytes = |key, value: u64, total: &str, most: u64| Bound {
        key,
        value,
        limit: Limit::AtMost(most),
        reason: format!("{total} is {most}"),
    };
    let at_most = |key, value: usize, total: &str, most: usize| {
        at_most_bytes(key, value as u64, total, most as u64)
    };
    let connections = "server.max_connections_per_user";
    [
        at_most(
            connections,
            server.connections_per_user(),
            "server.max_connections",
            server.max_connections,
        ),
        at_most(
            "server.max_handshakes_per_user",
            server.handshakes_per_user(),
            connections,
            server.connections_per_user(),
        ),
        at_most(
            "tools.max_connections_per_user",
            tools.per_user(),
            "tools.max_connections",
            tools.max_connections,
        ),
        at_most(
            "admin.max_watchers_per_user",
            admin.watchers_per_user(),
            "admin.max_watchers",
            admin.max_watchers,
        ),
        Bound {
            key: "server.max_partial_frame_bytes_per_user",
            value: server.partial_frame_bytes_per_user() as u64,
            limit: Limit::AtLeast(server.max_message_bytes as u64),
            reason: "a message may be as long (server.max_message_bytes)".to_owned(),
        },
        at_most(
            "server.max_put_bytes_per_user",
            server.put_bytes_per_user(),
            "server.max_put_bytes_total",
            server.put_bytes_total(),
        ),
        at_most(
            "server.max_partial_frame_bytes_per_user",
            server.partial_frame_bytes_per_user(),
            "server.max_partial_frame_bytes_total",
            server.partial_frame_bytes_total(),
        ),
        at_most(
            "server.max_blocking_threads_per_user",
            server.max_blocking_threads_per_user,
            "server.max_blocking_threads",
            server.max_blocking_threads,
        ),
        at_most(
            "server.max_chain_queue_bytes_per_user",
            server.chain_queue_bytes_per_user(),
            "server.max_chain_queue_bytes_total",
            server.chain_queue_bytes_total(),
        ),
        at_most(
            "server.max_outbox_bytes_per_user",
            server.outbox_bytes_per_user(),
            "server.max_outbox_bytes_total",
            server.outbox_bytes_total(),
        ),
        at_most(
            "server.max_server_inbox_bytes",
            server.max_server_inbox_bytes,
            "server.max_server_inbox_bytes_total",
            server.server_inbox_bytes_total(),
        ),
        at_most(
            "events.max_index_bytes_per_user",
            events.index_bytes_per_user(),
            "events.max_index_bytes",
            events.max_index_bytes,
        ),
        at_most(
            "events.max_spill_bytes_per_user",
            events.spill_bytes_per_user(),
            "events.max_spill_bytes",
            events.max_spill_bytes,
        ),
        at_most(
            "policy.max_pending_decisions_per_user",
            policy.pending_decisions_per_user(),
            "policy.max_pending_decisions",
            policy.max_pending_decisions,
        ),
        at_most(
            "policy.max_pending_decision_bytes_per_user",
            policy.pending_decision_bytes_per_user(),
            "policy.max_pending_decision_bytes",
            policy.max_pending_decision_bytes,
        ),
        at_most(
            "log.max_queue_requests_per_user",
            log.user_queued(),
            "log.max_queue_requests",
            log.max_queue_requests,
        ),
        at_most(
            "log.max_queue_bytes_per_user",
            log.user_queued_bytes(),
            "log.max_queue_bytes",
            log.max_queue_bytes,
        ),
        at_most_bytes(
            "store.max_mail_bytes",
            store.mail_bytes(),
            "a quarter of store.max_bytes",
            store.max_bytes / 4,
        ),
        at_most_bytes(
            "store.max_state_bytes",
            store.state_bytes(),
            "a quarter of store.max_bytes",
            store.max_bytes / 4,
        ),
        at_most_bytes(
            "store.max_admin_bytes",
            store.admin_bytes(),
            "a quarter of store.max_bytes",
            store.max_bytes / 4,
        ),
        at_most_bytes(
            "store.max_record_bytes",
            store.record_bytes(),
            "store.max_bytes",
            store.max_bytes,
        ),
        at_most_bytes(
            "store.max_record_bytes_per_user",
            store.user_record_bytes(),
            "store.max_record_bytes",
            store.record_bytes(),
        ),
        at_most_bytes(
            "store.max_record_bytes_per_job",
            store.job_record_bytes(),
            "store.max_record_bytes_per_user",
            store.user_record_bytes(),
        ),
    ]
}

/// Returns the bounds by the resources of the system.
fn system_bounds(config: &Config, system: SystemResources) -> Vec<Bound> {
    let server = &config.server;
    let files = system.open_files.map(|files| Bound {
        key: "server.max_connections",
        value: server.max_connections as u64,
        // Each connection is an open file.
        limit: Limit::AtMost(files.saturating_sub(OTHER_FILES)),
        reason: format!("this process may have {files} files open (RLIMIT_NOFILE), and needs some for other things"),
    });
    let memory = system.memory_bytes.into_iter().flat_map(|memory| {
        [
            (
                "server.max_partial_frame_bytes_per_user",
                server.partial_frame_bytes_per_user(),
            ),
            ("server.max_put_bytes_per_user", server.put_bytes_per_user()),
        ]
        .map(|(key, value)| Bound {
            key,
            value: value as u64,
            limit: Limit::AtMost(memory),
            reason: "the machine has no more memory".to_owned(),
        })
    });
    files.into_iter().chain(memory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{ConfigSources, SettingOverride};

    const SYSTEM: SystemResources = SystemResources {
        open_files: Some(1064),
        memory_bytes: Some(1 << 30),
    };

    /// Returns the problems of these settings.
    fn problems(settings: &[&str]) -> Vec<String> {
        let sources = ConfigSources {
            environment: vec![("PEAL_CONFIG".into(), "".into())],
            overrides: settings
                .iter()
                .filter_map(|text| SettingOverride::set(text))
                .collect(),
            system: SYSTEM,
            ..ConfigSources::default()
        };
        sources
            .check()
            .problems
            .iter()
            .map(Problem::to_string)
            .collect()
    }

    /// Each row: valid settings, one more that is invalid, and the message.
    #[test]
    fn shares_above_total_or_system_are_refused_with_valid_values() {
        for (fits, wrong, says) in [
            (
                &[
                    "server.max_connections=100",
                    "server.max_connections_per_user=100",
                ][..],
                "server.max_connections_per_user=101",
                "server.max_connections_per_user is 101; it should be at most 100: server.max_connections is 100",
            ),
            (
                &[
                    "server.max_connections=100",
                    "server.max_handshakes_per_user=25",
                ],
                "server.max_handshakes_per_user=26",
                "server.max_handshakes_per_user is 26; it should be at most 25: server.max_connections_per_user is 25",
            ),
            (
                &[
                    "tools.max_connections=8",
                    "tools.max_connections_per_user=8",
                ],
                "tools.max_connections_per_user=9",
                "tools.max_connections_per_user is 9; it should be at most 8: tools.max_connections is 8",
            ),
            (
                &[
                    "server.max_message_bytes=8192",
                    "server.max_partial_frame_bytes_per_user=8192",
                ],
                "server.max_partial_frame_bytes_per_user=8191",
                "server.max_partial_frame_bytes_per_user is 8191; it should be at least 8192: a message may be as long",
            ),
            (
                &["server.max_connections=1000"],
                "server.max_connections=1001",
                "server.max_connections is 1001; it should be at most 1000: this process may have 1064 files open (RLIMIT_NOFILE)",
            ),
            (
                &["server.max_put_bytes_per_user=1073741824"],
                "server.max_put_bytes_per_user=1073741825",
                "server.max_put_bytes_per_user is 1073741825; it should be at most 1073741824: the machine has no more memory",
            ),
        ] {
            assert_eq!(problems(fits), Vec::<String>::new(), "{fits:?}");
            let told = problems(&[fits, &[wrong]].concat());
            let key = wrong.split('=').next().unwrap_or_default();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told.iter()
                    .all(|told| told.starts_with(&format!("--set {key}: {says}"))),
                "{told:?}"
            );
        }
    }

    #[test]
    fn shares_of_zero_are_refused() {
        for key in [
            "server.max_connections_per_user",
            "server.max_handshakes_per_user",
            "server.max_partial_frame_bytes_per_user",
            "server.frame_timeout_ms",
            "tools.max_connections_per_user",
        ] {
            let told = problems(&[&format!("{key}=0")]);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told.iter()
                    .all(|told| told.contains(&format!("{key} is 0; it should be a whole number"))),
                "{told:?}"
            );
        }
    }

    #[test]
    fn unset_shares_follow_their_totals() {
        let mut config = Config::default();
        let shares = |config: &Config| {
            let Config { server, tools, .. } = config;
            [
                server.connections_per_user(),
                server.handshakes_per_user(),
                tools.per_user(),
            ]
        };
        assert_eq!(shares(&config), [1024, 64, 64]);
        (config.server.max_connections, config.tools.max_connections) = (16, 2);
        assert_eq!(shares(&config), [4, 4, 1]);
        assert_eq!(
            problems(&[
                "server.max_connections=1",
                "tools.max_connections=1",
                "server.max_message_bytes=1073741824"
            ]),
            Vec::<String>::new()
        );
    }
}
