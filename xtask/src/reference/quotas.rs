//! The page about quotas: resources that are charged to users, from the table of the server, and
//! bounds of other work.
use super::cell;
use peal_core::quota::{Quota, QuotaSettings, SiteShare};
use std::fmt::Write;

const HEAD: &str = "\
# Quotas of users

Generated from `host/core/src/quota.rs` by `cargo xtask docs`. What an unprivileged user can make the server hold or do is charged to that user. \
The kernel says which user that is. `peal stats --by-user` shows what each user holds, its share, and how often it was refused; users that may not \
administer the server see their own. A refused requester gets the name of the setting where the protocol has room for it; the log has it in any case.

Where root and the server's user are *exempt*, they have no share, and an eighth of the total, if there is one, is reserved for them.

";

/// Attack by which one user has the server hold much.
const HELD: &str = "tests/tests/security/attacks/held_resources.rs::resources_held_for_one_user_leave_room_for_others";

/// Part of a row that the server's table does not have.
struct Bound {
    /// Resource, in words.
    about: &'static str,
    /// Effect of the limit.
    effect: &'static str,
    /// Tests, as `file::test`.
    tests: &'static [&'static str],
}

fn bound(quota: Quota) -> Bound {
    let (about, effect, tests): (_, _, &[&str]) = match quota {
        Quota::Connections => (
            "connections, before the handshake as well",
            "the connection is closed, and after many refusals in a second only after a delay (`server.max_refusal_delay_ms`)",
            &[
                "host/server/src/user_shares/tests.rs::usage_equals_model_and_stays_within_shares",
                "tests/tests/security/attacks/silent_sockets.rs::silent_sockets_of_one_user_keep_no_one_else_out",
            ],
        ),
        Quota::Handshakes => (
            "handshakes that are being read",
            "the handshake waits, and ends after its timeout",
            &[
                "host/server/src/user_shares/tests.rs::usage_equals_model_and_stays_within_shares",
                "tests/tests/security/attacks/silent_sockets.rs::silent_sockets_of_one_user_keep_no_one_else_out",
            ],
        ),
        Quota::PartialFrameBytes => (
            "partial messages",
            "the server does not read on, and closes the connection after a time",
            &[
                "tests/tests/security/attacks/partial_frames.rs::unfinished_messages_take_share_of_memory_for_a_time",
                "tests/tests/security/attacks/partial_frames.rs::long_messages_beyond_share_wait_and_are_all_answered",
            ],
        ),
        Quota::Tools => (
            "connected tools",
            "the tool is refused",
            &[
                "host/core/src/server/tests/user_shares.rs::tools_of_one_user_are_bounded_and_some_are_root_and_servers",
                "tests/tests/security/attacks/many_tools.rs::tools_of_one_user_leave_room_for_those_of_others",
            ],
        ),
        Quota::PutBytes => (
            "values that procs put",
            "the commit is refused",
            &[
                "host/core/src/server/tests/user_shares.rs::values_of_one_user_are_bounded_and_refusal_has_limit",
                "tests/tests/security/attacks/parked_values.rs::values_of_one_user_take_share_of_memory_and_go_with_procs",
            ],
        ),
        Quota::OutboxBytes => (
            "messages that wait for clients",
            "at half of a limit events are retained instead; beyond it a client that does not read is disconnected",
            &[
                "host/server/src/outbox_share.rs::share_agrees_with_lists_of_messages",
                "tests/tests/security/client_input.rs::clients_of_one_user_share_the_memory_of_outboxes",
            ],
        ),
        Quota::ChainQueueBytes => (
            "events that wait for the handlers of a user and its jobs",
            "the handlers miss the event",
            &[
                "host/server/src/chains/queue.rs::user_beyond_share_misses_events_and_others_do_not",
                "tests/tests/security/tenants.rs::events_beyond_share_of_one_user_delay_no_other",
            ],
        ),
        Quota::PendingDecisions | Quota::PendingDecisionBytes => (
            "requests and connections that wait for policies; users take turns",
            "the request is denied",
            &[
                "host/core/src/decision_limits.rs::limits_agree_with_lists_of_decisions",
                "host/core/src/fair_queue.rs::queue_serves_users_as_a_list_with_times_does",
                "tests/tests/security/attacks/decision_flood.rs::waiting_decisions_of_one_user_delay_no_other",
            ],
        ),
        Quota::RetainedIndexBytes => (
            "index of retained events",
            "the recipient loses the event, and receives the number of lost events",
            &[
                "host/core/src/server/tests/kept.rs::unread_events_of_one_user_take_no_room_from_others",
            ],
        ),
        Quota::SpilledBytes => (
            "spilled events",
            "the event is lost, and its recipients receive the number of lost events",
            &[
                "host/core/src/server/tests/kept.rs::spilled_events_of_one_user_have_a_share",
                "host/core/src/server/tests/kept.rs::spilled_events_are_charged_to_source_and_site_keeps_room",
                "tests/tests/security/attacks/held_resources.rs::spilled_events_of_one_user_leave_room_for_others",
            ],
        ),
        Quota::Groups => (
            "groups, those under construction included",
            "the construct fails",
            &[
                "host/core/tests/group/main.rs::groups_of_one_user_are_bounded",
                HELD,
            ],
        ),
        Quota::Monitors => (
            "monitors of procs and files; one user has half of the total",
            "the monitor is refused",
            &[
                "host/core/src/server/tests/monitoring.rs::monitors_of_one_user_leave_room_for_those_of_others",
                HELD,
            ],
        ),
        Quota::JobControlRequests => (
            "unfinished job control requests; one user has half of the total",
            "the request is refused",
            &[
                "host/core/tests/one_server/controlling.rs::kept_requests_are_bounded_and_hidden_from_other_users",
            ],
        ),
        Quota::LogRequests | Quota::LogBytes => (
            "log requests that wait or are being written; users take turns at each channel",
            "the request is refused",
            &[
                "host/core/src/log/queue.rs::queue_does_as_a_list_of_all_requests",
                "tests/tests/security/attacks/log_flood.rs::flooded_slow_channel_delays_no_other_channel_or_user",
            ],
        ),
        Quota::SinkMessages | Quota::SinkBytes => (
            "messages that sinks (mail, syslog, web services) have not delivered yet; in the queue of each sink users take turns, and with several sinks shares and totals are sums",
            "the request is refused",
            &[
                "host/sinks/src/queue.rs::queue_agrees_with_list_of_messages",
                "tests/tests/logging/sinks.rs::mail_of_one_user_leaves_room_and_turns_for_others",
            ],
        ),
        Quota::PublishedItems | Quota::PublishedBytes | Quota::PendingLookups => (
            "published data, and keys for which lookups wait",
            "the request is refused",
            &[
                "host/core/tests/one_server/published.rs::published_data_agree_with_model",
                "host/core/tests/one_server/published.rs::site_publishes_when_users_have_used_up_their_part",
                "host/core/tests/over_servers/published.rs::data_of_a_user_are_charged_at_their_server_and_the_holder",
                HELD,
            ],
        ),
        Quota::AuditDecisionBytes => (
            "decisions about the user in the audit trail; the share is a part of the total in percent",
            "when no room can be made for more, requests that policies grant are denied",
            &[
                "host/audit/tests/keeping.rs::user_filling_room_of_decisions_is_denied_and_others_are_not",
            ],
        ),
        Quota::AuditCallBytes => (
            "calls and refusals that the user caused in the audit trail; the share is a part of the total in percent",
            "when no room can be made for more, further ones are counted only, and requests that policies grant are denied",
            &[
                "host/audit/tests/keeping.rs::user_filling_room_of_calls_is_left_out_and_others_are_not",
            ],
        ),
        Quota::GuestCpu => (
            "CPU time of the processes of the user's modules, as the kernel counts it; the share is a weight",
            "where the service's control group is delegated, the kernel gives time by the weights",
            &[
                "tests/tests/security/tenants.rs::processor_time_and_records_are_shown_for_each_user",
            ],
        ),
        Quota::Watchers => (
            "watchers (`peal top`, `peal event watch`)",
            "the watcher is refused",
            &[
                "host/server/src/admin/watcher_shares.rs::watchers_of_one_user_leave_room_for_others_and_root",
                "tests/tests/commands/top.rs::thousand_watchers_of_a_user_are_refused_beyond_share",
            ],
        ),
        Quota::RecordBytes => (
            "entries of job records",
            "entries of the user's ended jobs are removed; then further ones are counted only",
            &[
                "host/store/src/job_entries.rs::jobs_of_user_share_room_and_oldest_ended_one_is_removed",
                "tests/tests/security/attacks/job_records.rs::user_cannot_fill_the_store_for_records_of_others",
            ],
        ),
    };
    Bound {
        about,
        effect,
        tests,
    }
}

/// Bounds of work and of data that are not in the report.
const OTHERS: [(&str, &str, &str, &[&str]); 6] = [
    (
        "compilations of components",
        "one for each user, `deploy.max_compilers` in total, at low priority",
        "the component waits; after a failure the user waits longer",
        &[
            "host/modules/src/compile_queue.rs::users_take_turns_one_task_each",
            "tests/tests/security/attacks/large_components.rs::large_components_of_a_user_delay_no_other_user",
        ],
    ),
    (
        "queries, and removals of files",
        "`server.max_blocking_threads_per_user`, `server.max_blocking_threads`",
        "the work waits for the user's turn",
        &[
            "host/launcher/src/blocking_turns.rs::blocked_work_of_one_user_delays_no_other",
            "tests/tests/security/attacks/held_resources.rs::blocking_work_of_one_user_delays_no_other",
        ],
    ),
    (
        "checks of identities, looks at monitored files",
        "2 threads for each user, 8 in total (fixed)",
        "the check waits for the user's turn",
        &["host/server/src/fair_semaphore.rs::one_user_cannot_take_the_turns_of_others"],
    ),
    (
        "execution of requests",
        "while other users make requests: one connection of each user at a time, and `server.max_busy_percent` of the time for all",
        "the connection waits",
        &[
            "host/server/src/user_shares/tests.rs::one_connection_of_a_user_executes_beside_other_users",
        ],
    ),
    (
        "memory, instances and state of modules",
        "`tenant.max_memory_bytes`, `tenant.max_instances`, `tenant.max_state_bytes`; `store.max_state_bytes` in total",
        "the call fails with the name of the limit",
        &[
            "host/sandbox/tests/sharing.rs::all_modules_of_a_tenant_share_its_memory_and_instances",
            "host/store/tests/kinds.rs::full_kind_of_data_refuses_no_other",
            "host/store/tests/kinds.rs::site_keeps_state_when_users_have_used_up_their_part",
        ],
    ),
    (
        "calls of the admin socket by users that may not administer",
        "8 for each user, 64 in total (fixed)",
        "the call is refused",
        &["tests/tests/commands/admin.rs::other_users_see_their_own_resources_only"],
    ),
];

/// Returns the page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| resource | `--by-user` | share of one user | total | root and the server's user | at the limit | shown by |\n|---|---|---|---|---|---|---|\n");
    for quota in Quota::ALL {
        let QuotaSettings {
            resource,
            share,
            total,
            site,
        } = quota.settings();
        let Bound {
            about,
            effect,
            tests,
        } = bound(*quota);
        let total = total.map_or_else(|| "none".to_owned(), |total| format!("`{total}`"));
        let site = match site {
            SiteShare::Exempt => "exempt",
            SiteShare::AsUsers => "as other users",
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "| {} | `{resource}` | `{share}` | {total} | {site} | {} | {} |",
            cell(about),
            cell(effect),
            named(tests)
        );
    }
    page.push_str("\nBounds of other work:\n\n| work | limits | at the limit | shown by |\n|---|---|---|---|\n");
    for (about, limits, effect, tests) in OTHERS {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            cell(about),
            cell(limits),
            cell(effect),
            named(tests)
        );
    }
    page
}

fn named(tests: &[&str]) -> String {
    let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
    tests.join(", ")
}
