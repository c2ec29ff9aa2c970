//! Table of all settings except those of modules and sinks. A row contains key, type, default,
//! bounds, meaning, and an example other than the default.
//!
//! The parser, `peal config show`, the names of environment variables, the example file and the
//! reference tables are generated from it.
use crate::{
    cluster::{ClusterNameKind, NatsAddress, NatsAddressKind, NodeNameKind},
    defaults::{GIB, KIB, MIB, audit_secrets, tenant_grants},
    kinds::{
        ChannelOrder, FilePath, KeywordKind, ListenAddress, Micros, Millis, Number, Switch,
        TraceFilter, UnixGroupName, UnixUserName, Unset,
    },
    module_kinds::{CapabilityKind, InfoKey, List},
    signing::{SignerPublicKey, TrustedKey},
    table::settings,
    telemetry_kinds::{CollectorUrl, ResourceAttributeKind},
    values::{
        CheckpointSyslog, ConfinementMode, Durability, FuelCount, ModuleOwner, OrderedChannel,
        TenantProcess,
    },
};
use peal_core::{
    choice::{
        BindTo, ControlGroups, IdentityCheck, OnAbort, OnKill, ProcessorUnit, RecordFailurePolicy,
        RestartScope, TopologySource,
    },
    defaults::HookDefault,
};
use peal_model::{ClusterName, NodeName};
use peal_sinks::WebhookUrl;
use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

/// Maximum of times, in milliseconds: a day.
const DAY: u64 = 86_400_000;
/// Maximum of counts.
const MILLION: u64 = 1_000_000;
/// Maximum of memory and disk sizes, in bytes: a tebibyte.
const TIB: u64 = 1 << 40;

settings! {
    /// All settings but those of modules.
    "" Config {}

    /// Execution of jobs.
    "run" run: Run {
        /// Consequence of an abnormal end of a proc when no handler of its event decides: terminate
        /// the job, or let the other procs continue.
        on_abort "run.on_abort": OnAbort = OnAbort::Terminate, KeywordKind, "\"continue\"";
        /// Time that handlers of an abnormal termination have to request or prevent termination of
        /// the job, in milliseconds.
        action_timeout "run.action_timeout_ms": Duration = Duration::from_secs(5), Millis(0, DAY), "1000";
        /// Delay between an abnormal end of a proc and the termination of the other procs, in
        /// milliseconds, so that they can finish pending work and output.
        termination_delay "run.termination_delay_ms": Duration = Duration::from_millis(200), Millis(0, DAY), "0";
        /// Time between the request to terminate and the kill of a proc, in milliseconds.
        grace "run.grace_ms": Duration = Duration::from_secs(3), Millis(0, DAY), "500";
        /// Procs that a restart starts again: only the named ones, or all procs of their job.
        restart "run.restart": RestartScope = RestartScope::Ranks, KeywordKind, "\"job\"";
        /// Effect on the job if `peal run` is killed or crashes: its procs and those of spawned jobs
        /// are killed, or run on without a server.
        on_kill "run.on_kill": OnKill = OnKill::End, KeywordKind, "\"continue\"";
        /// Use of a control group (cgroup v2) for each proc. A frozen control group pauses the
        /// proc; without one, signals pause it.
        control_groups "run.control_groups": ControlGroups = ControlGroups::Try, KeywordKind, "\"off\"";
        /// Source of the topology of the node (processors, caches, memory, devices) for procs: `peal run`
        /// discovers it once by hwloc's `lstopo`, and keeps it for a day in its cache directory; or each
        /// proc discovers it by itself, as without `lstopo`.
        topology "run.topology": TopologySource = TopologySource::Launcher, KeywordKind, "\"procs\"";
        /// Unit of processors that each proc of `peal run` may run on: a hardware thread, a core, the cores of
        /// a level-3 cache, of a NUMA node or of a package; or all.
        bind_to "run.bind_to": BindTo = BindTo::None, KeywordKind, "\"core\"";
        /// Unit of processors that bound procs are placed on by turns. Within it each takes the next one of
        /// `run.bind_to`.
        map_by "run.map_by": Option<ProcessorUnit> = None, Unset("that of run.bind_to", KeywordKind), "\"package\"";
        /// Maximum number of spawned jobs (PMIx_Spawn, MPI_Comm_spawn) that exist at the same time.
        max_spawned_jobs "run.max_spawned_jobs": usize = 64, Number(0, 65_535), "8";
        /// Latest output of each stream of a proc that is kept for later pulls (PMIx_IOF_pull), in
        /// bytes. The total of all procs is 16 MiB at most.
        output_backlog_bytes "run.output_backlog_bytes": usize = 16_384, Number(0, MILLION), "0";
        /// Maximum number of paths that the procs of one job may register for removal after their
        /// end, ignored paths included.
        max_cleanup_paths "run.max_cleanup_paths": usize = 4096, Number(0, MILLION), "64";
        /// Maximum number of files and directories that are visited for one cleanup registration.
        max_cleanup_entries "run.max_cleanup_entries": u64 = MILLION, Number(0, 1000 * MILLION), "10000";
        /// Maximum depth of nested directories that are visited for one cleanup registration.
        max_cleanup_depth "run.max_cleanup_depth": usize = 64, Number(0, 1000), "8";
    }

    /// Trace on standard error.
    "trace" trace: Trace {
        /// Traced lines, by level and target. `PEAL_LOG` overrides it.
        filter "trace.filter": String = "warn".to_owned(), TraceFilter, "\"info,peal::guest=debug\"";
    }

    /// Limits and timeouts of the server.
    "server" server: Server {
        /// User that the server runs as when root starts `peal serve`. "root" keeps root.
        user "server.user": Option<String> = None, Unset("peal if there is such a user, else root", UnixUserName), "\"pmix\"";
        /// Priority of a server that root starts as another user, above that of usual programs: the nice
        /// value with the sign reversed. Programs that use all processors delay the server less then.
        /// The processes of users' modules and compilers do not have it.
        priority "server.priority": u32 = 10, Number(0, 20), "0";
        /// Time after work in which the server, and a thread that has called a module, look for more before they sleep, in
        /// microseconds. They stop early when another program wants the processor. To wake a thread takes longer than
        /// most work of the server, so that events arrive sooner where procs leave a processor free. The server then uses
        /// more processor time. 0 makes them sleep at once.
        spin_time "server.spin_us": Duration = Duration::ZERO, Micros(0, 1000), "50";
        /// Maximum memory of one event, in bytes.
        max_event_bytes "server.max_event_bytes": usize = MIB, Number(1024, 1 << 30), "65536";
        /// Makes this server write to log channels that other servers lack (`PMIX_SERVER_GATEWAY`).
        /// Messages logged to stdout and stderr on any server then appear here.
        gateway "server.gateway": bool = false, Switch, "true";
        /// Maximum memory of the keys and values that one proc has put, in bytes.
        max_put_bytes "server.max_put_bytes": usize = 256 * MIB, Number(0, TIB), "1048576";
        /// Maximum memory of the keys and values that all procs of one user have put, in bytes.
        /// Root and the server's user are exempt.
        max_put_bytes_per_user "server.max_put_bytes_per_user": Option<usize> = None, Unset("twice server.max_put_bytes", Number(0, TIB)), "268435456";
        /// Maximum memory of the keys and values that all procs have put, in bytes. One eighth of it is
        /// reserved for the procs of root and the server's user.
        max_put_bytes_total "server.max_put_bytes_total": Option<usize> = None, Unset("eight times server.max_put_bytes_per_user", Number(0, 8 * TIB)), "1073741824";
        /// Maximum number of pending gets of one client, which wait for keys that are not available
        /// yet.
        max_pending_gets "server.max_pending_gets": usize = 4096, Number(0, MILLION), "64";
        /// Maximum number of fences in which one proc waits at the same time.
        max_fences "server.max_fences": usize = 64, Number(1, MILLION), "8";
        /// Maximum number of procs that the fences of one job over several servers name together. Each
        /// set of procs counts once, however often it meets.
        max_fence_set_procs "server.max_fence_set_procs": usize = 1 << 20, Number(1, 64 * MILLION), "65536";
        /// Maximum number of codes and filters that one client has registered.
        max_registrations "server.max_registrations": usize = 65_536, Number(1, MILLION), "1000";
        /// Maximum number of connections of one proc, those of its clones included.
        max_connections_per_proc "server.max_connections_per_proc": u32 = 64, Number(1, MILLION), "4";
        /// Maximum number of events that hosted handlers of this server raise in total in response to
        /// one event that no handler raised.
        event_budget "server.event_budget": u32 = 256, Number(0, MILLION), "16";
        /// Time that a get waits for a key that its proc has not put, in milliseconds, if the
        /// requester sets no timeout.
        get_timeout "server.get_timeout_ms": Duration = Duration::from_secs(2), Millis(0, DAY), "5000";
        /// Time that a client has to complete its handshake, in milliseconds.
        handshake_timeout "server.handshake_timeout_ms": Duration = Duration::from_secs(10), Millis(1, DAY), "3000";
        /// Maximum number of open connections. One eighth of them is reserved for root and the
        /// server's user.
        max_connections "server.max_connections": usize = 4096, Number(1, MILLION), "128";
        /// Maximum number of open connections of one user. More are refused. Root and the server's
        /// user are exempt.
        max_connections_per_user "server.max_connections_per_user": Option<usize> = None,
            Unset("a quarter of server.max_connections", Number(1, MILLION)), "32";
        /// Maximum number of handshakes of one user that are read at the same time. More wait for
        /// at most server.handshake_timeout_ms. Root and the server's user are exempt.
        max_handshakes_per_user "server.max_handshakes_per_user": Option<usize> = None,
            Unset("64, or server.max_connections_per_user if less", Number(1, MILLION)), "8";
        /// Maximum size of all partly received messages of one user, in bytes. Beyond it the server
        /// stops reading until there is space. Root and the server's user are exempt.
        max_partial_frame_bytes_per_user "server.max_partial_frame_bytes_per_user": Option<usize> = None,
            Unset("twice server.max_message_bytes", Number(4096, TIB)), "268435456";
        /// Maximum size of all partly received messages of all users, in bytes. Beyond it the server
        /// stops reading messages of users until there is space. Root and the server's user are
        /// exempt.
        max_partial_frame_bytes_total "server.max_partial_frame_bytes_total": Option<usize> = None,
            Unset("four times server.max_partial_frame_bytes_per_user", Number(4096, 4 * TIB)), "1073741824";
        /// Time between the first and the last byte of a message, in milliseconds. The server
        /// closes the connection of a message that takes longer.
        frame_timeout "server.frame_timeout_ms": Duration = Duration::from_secs(60), Millis(1, DAY), "10000";
        /// Maximum delay of a handshake or request, and of the close of a refused connection, of a user
        /// with more than 32 refused handshakes or connections, or 1000 refused requests, in a second,
        /// in milliseconds.
        max_refusal_delay "server.max_refusal_delay_ms": Duration = Duration::from_secs(1), Millis(0, 60_000), "500";
        /// Part of the time in percent for which the server's thread may be busy while several users make
        /// requests. Beyond it, those who make the most are delayed, unless they wait for each reply; each
        /// user can always make 200 requests in a second. Root, the server's user and administrators are
        /// never delayed. 100 turns it off.
        max_busy_percent "server.max_busy_percent": u32 = 30, Number(1, 100), "100";
        /// Maximum length of a message, in bytes.
        max_message_bytes "server.max_message_bytes": usize = 64 * MIB, Number(4096, 1 << 30), "1048576";
        /// Maximum memory of one message after decoding, in bytes.
        max_decoded_message_bytes "server.max_decoded_message_bytes": usize = 256 * MIB, Number(64 * 1024, TIB), "4194304";
        /// Maximum number of requests of one client that have no reply yet.
        max_open_requests "server.max_open_requests": usize = 4096, Number(1, MILLION), "256";
        /// Maximum number of messages in the outbox of one client. The server disconnects a client
        /// whose outbox overflows.
        max_outbox_messages "server.max_outbox_messages": usize = 65_536, Number(1, MILLION), "1024";
        /// Maximum memory of the messages in the outbox of one client, in bytes.
        max_outbox_bytes "server.max_outbox_bytes": usize = 256 * MIB, Number(4096, TIB), "16777216";
        /// Maximum memory of the messages in the outboxes of all clients of one user, in bytes. Beyond
        /// it the server disconnects clients that do not read. Root and the server's user are exempt.
        max_outbox_bytes_per_user "server.max_outbox_bytes_per_user": Option<usize> = None,
            Unset("twice server.max_outbox_bytes", Number(4096, TIB)), "33554432";
        /// Maximum memory of the messages in all outboxes, in bytes. One eighth of it is reserved for
        /// the clients of root and the server's user.
        max_outbox_bytes_total "server.max_outbox_bytes_total": Option<usize> = None,
            Unset("four times server.max_outbox_bytes_per_user", Number(4096, TIB)), "134217728";
        /// Maximum memory of the messages of one other server that wait to be processed, in bytes.
        /// Further ones wait at that server. Beyond the same memory there, its events are dropped, and
        /// the procs that they may have been for are told their number.
        max_server_inbox_bytes "server.max_server_inbox_bytes": usize = 64 * MIB, Number(4096, TIB), "16777216";
        /// Maximum memory of the messages of all other servers that wait to be processed, in bytes. A
        /// server of which no message waits has room for one.
        max_server_inbox_bytes_total "server.max_server_inbox_bytes_total": Option<usize> = None,
            Unset("eight times server.max_server_inbox_bytes", Number(4096, 8 * TIB)), "134217728";
        /// Maximum number of events that wait for the hosted handlers of one owner.
        max_chain_queue_events "server.max_chain_queue_events": usize = 65_536, Number(1, MILLION), "1024";
        /// Maximum memory of the events that wait for the hosted handlers of one owner, in bytes.
        max_chain_queue_bytes "server.max_chain_queue_bytes": usize = 64 * MIB, Number(4096, TIB), "1048576";
        /// Maximum memory of the events that wait for the hosted handlers of one user and of that
        /// user's jobs, in bytes.
        max_chain_queue_bytes_per_user "server.max_chain_queue_bytes_per_user": Option<usize> = None,
            Unset("twice server.max_chain_queue_bytes", Number(4096, TIB)), "2097152";
        /// Maximum memory of the events that wait for the hosted handlers of all users and jobs, in
        /// bytes. Handlers of the site have a queue of their own.
        max_chain_queue_bytes_total "server.max_chain_queue_bytes_total": Option<usize> = None,
            Unset("four times server.max_chain_queue_bytes_per_user", Number(4096, TIB)), "8388608";
        /// Time that accepted events have to pass the hosted handlers at shutdown, in milliseconds.
        chain_drain_timeout "server.chain_drain_timeout_ms": Duration = Duration::from_secs(10), Millis(0, DAY), "1000";
        /// Time that the host environment has to register for environment events, in milliseconds.
        /// The client that registers waits for it.
        host_environment_timeout "server.host_environment_timeout_ms": Duration = Duration::from_secs(5), Millis(1, DAY), "1000";
        /// Makes the server itself monitor procs and files (`PMIX_SERVER_ENABLE_MONITORING`). With
        /// false it asks the host environment.
        monitoring "server.monitoring": Option<bool> = None, Unset("the host environment if it supports monitoring, else the server", Switch), "true";
        /// Maximum number of monitors of one proc.
        max_monitors_per_proc "server.max_monitors_per_proc": usize = 64, Number(0, MILLION), "8";
        /// Maximum number of monitors of all procs. One user has half of them at most.
        max_monitors_total "server.max_monitors_total": usize = 65_536, Number(0, MILLION), "1000";
        /// Maximum number of file monitors of all procs. Each keeps a directory open. One user has
        /// half of them at most.
        max_monitored_files "server.max_monitored_files": usize = 512, Number(0, MILLION), "64";
        /// Maximum number of threads that answer queries and remove files for users at the same time.
        /// More work waits.
        max_blocking_threads "server.max_blocking_threads": usize = 32, Number(1, 512), "8";
        /// Maximum number of these threads for one user.
        max_blocking_threads_per_user "server.max_blocking_threads_per_user": usize = 4, Number(1, 512), "2";
        /// Time that clients have to read their remaining messages at shutdown, in milliseconds.
        drain_timeout "server.drain_timeout_ms": Duration = Duration::from_secs(5), Millis(0, DAY), "1000";
    }

    /// Handover of the server to another process (`peal upgrade`), for which requests wait.
    "upgrade" upgrade: UpgradeSettings {
        /// Time that clients have which are connecting, in milliseconds. Later ones are disconnected.
        handshake_timeout "upgrade.handshake_timeout_ms": Duration = Duration::from_secs(1), Millis(0, DAY), "2000";
        /// Time that requests and chains of handlers have which are under way, in milliseconds. If some take
        /// longer, the old process goes on.
        work_timeout "upgrade.work_timeout_ms": Duration = Duration::from_secs(5), Millis(1, DAY), "10000";
        /// Time limit of each message between the two processes, in milliseconds.
        transfer_timeout "upgrade.transfer_timeout_ms": Duration = Duration::from_secs(30), Millis(1, DAY), "10000";
        /// Time that the old process has for pending output of log channels and telemetry, in milliseconds.
        drain_timeout "upgrade.drain_timeout_ms": Duration = Duration::from_millis(500), Millis(0, DAY), "100";
        /// Maximum size of the state that the new process takes, in bytes.
        max_state_bytes "upgrade.max_state_bytes": usize = 4096 * MIB, Number(1, TIB), "1073741824";
    }

    /// Retained events: events kept for recipients that have not received them yet.
    "events" events: Events {
        /// Number of environment events in the event ring, which holds the latest ones for late
        /// registrations.
        ring_size "events.ring_size": usize = 512, Number(0, MILLION), "2048";
        /// Maximum memory of the event ring, in bytes.
        max_ring_bytes "events.max_ring_bytes": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// Maximum memory of retained events, in bytes. An event is retained until all its
        /// recipients have received it. More events are spilled to disk.
        max_memory_bytes "events.max_memory_bytes": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// Maximum memory of the index of retained events and their recipients, in bytes. One eighth
        /// of it is reserved for root and the server's user. Events are lost beyond it, and their
        /// recipients receive the number of lost events.
        max_index_bytes "events.max_index_bytes": usize = 256 * MIB, Number(4096, TIB), "1048576";
        /// Maximum memory of this index for the procs of one user, in bytes. Root and the server's
        /// user are exempt.
        max_index_bytes_per_user "events.max_index_bytes_per_user": Option<usize> = None,
            Unset("half of events.max_index_bytes", Number(4096, TIB)), "524288";
        /// Maximum disk space of spilled events, in bytes. One eighth of it is reserved for events
        /// of root, the server's user and the system. Events are lost beyond it. The files have no
        /// names and vanish with the server.
        max_spill_bytes "events.max_spill_bytes": usize = 4096 * MIB, Number(0, 1 << 50), "1048576";
        /// Maximum disk space of spilled events of one user, in bytes: of those for that user's procs
        /// alone, and of those that the user raised for others. Root and the server's user are
        /// exempt.
        max_spill_bytes_per_user "events.max_spill_bytes_per_user": Option<usize> = None,
            Unset("half of events.max_spill_bytes", Number(0, 1 << 50)), "524288";
        /// Time during which lost connections are collected into one event, in milliseconds.
        connection_loss_window "events.connection_loss_window_ms": Duration = Duration::from_millis(100), Millis(0, 60_000), "1000";
        /// Directory of the files for spilled events.
        spill_dir "events.spill_dir": Option<PathBuf> = None,
            Unset("the temporary directory of the system", FilePath), "\"/var/tmp\"";
    }

    /// Identification of peers.
    "identity" identity: Identity {
        /// Processes that may act as a proc: only the process started for it and its descendants,
        /// or any process of its user.
        check "identity.check": IdentityCheck = IdentityCheck::Process, KeywordKind, "\"user\"";
    }

    /// Default decisions, which apply when all policies of a hook pass or a hook has none.
    "policy" policy: Policy {
        /// Default decision about connections.
        connection "policy.connection.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about raised events.
        event "policy.event.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"grant\"";
        /// Default decision about job control requests.
        job_control "policy.job_control.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about monitor requests.
        monitor "policy.monitor.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about requests for nodes. With "built-in", only a policy can provide
        /// nodes.
        provision "policy.provision.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about log requests.
        log "policy.log.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about the construction of groups.
        group "policy.group.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about spawn requests.
        spawn "policy.spawn.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about publish requests.
        publish "policy.publish.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about lookups of published data.
        lookup "policy.lookup.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Default decision about queries about the jobs of other users.
        query "policy.query.default": HookDefault = HookDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Maximum number of requests and connections that wait for policies. One eighth of them is
        /// reserved for root, the server's user and modules of the site. More are denied.
        max_pending_decisions "policy.max_pending_decisions": usize = 1024, Number(1, MILLION), "64";
        /// Maximum number of these requests and connections of one user. Root and the server's user
        /// are exempt. Users take turns.
        max_pending_decisions_per_user "policy.max_pending_decisions_per_user": Option<usize> = None,
            Unset("a quarter of policy.max_pending_decisions", Number(1, MILLION)), "16";
        /// Maximum memory of the requests and connections that wait for policies, in bytes. One eighth
        /// of it is reserved for root, the server's user and modules of the site.
        max_pending_decision_bytes "policy.max_pending_decision_bytes": usize = 64 * MIB, Number(4096, TIB), "1048576";
        /// Maximum memory of the requests and connections of one user that wait for policies, in
        /// bytes. Root and the server's user are exempt.
        max_pending_decision_bytes_per_user "policy.max_pending_decision_bytes_per_user": Option<usize> = None,
            Unset("a quarter of policy.max_pending_decision_bytes", Number(4096, TIB)), "524288";
    }

    /// Job control requests (`PMIx_Job_control`).
    "job_control" job_control: JobControl {
        /// Maximum number of unfinished requests. One user has half of them at most. The server
        /// remembers the same number of finished requests.
        max_requests "job_control.max_requests": usize = 1024, Number(2, 100_000), "64";
        /// Time that procs have for a checkpoint, in milliseconds, if the request sets no timeout.
        checkpoint_timeout "job_control.checkpoint_timeout_ms": Duration = Duration::from_secs(300), Millis(1, DAY), "60000";
        /// Time between the preemption alert and the preemption of a proc, in milliseconds, if the
        /// request sets none.
        preempt_grace "job_control.preempt_grace_ms": Duration = Duration::from_secs(30), Millis(0, DAY), "5000";
    }

    /// Groups of procs (`PMIx_Group_construct`).
    "group" group: Group {
        /// Time that the construction or destruction of a group may take, in milliseconds, if the
        /// request sets no timeout.
        timeout "group.timeout_ms": Duration = Duration::from_secs(300), Millis(1, DAY), "60000";
        /// Time that the leader of a group has to decide after a member failed, in milliseconds, and
        /// a launcher that forms a group over nodes. Without a decision the construction fails.
        decision_timeout "group.decision_timeout_ms": Duration = Duration::from_secs(10), Millis(1, DAY), "2000";
        /// Time for which the result of a construct or destruct is kept for late participants, in
        /// milliseconds.
        result_retention "group.result_retention_ms": Duration = Duration::from_secs(60), Millis(1000, DAY), "120000";
        /// Maximum number of groups of one user, those under construction included.
        max_per_user "group.max_per_user": usize = 1024, Number(1, MILLION), "64";
    }

    /// Published data (`PMIx_Publish`).
    "publish" publish: Publish {
        /// Maximum number of values that one user has published.
        max_items_per_user "publish.max_items_per_user": usize = 4096, Number(0, MILLION), "64";
        /// Maximum number of published values of all users. One eighth of it is reserved for root and
        /// the server's user.
        max_items_total "publish.max_items_total": Option<usize> = None,
            Unset("four times publish.max_items_per_user", Number(0, 4 * MILLION)), "1024";
        /// Maximum memory of the values that one user has published, in bytes.
        max_bytes_per_user "publish.max_bytes_per_user": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// Maximum memory of the published values of all users, in bytes. One eighth of it is
        /// reserved for root and the server's user.
        max_bytes_total "publish.max_bytes_total": Option<usize> = None,
            Unset("four times publish.max_bytes_per_user", Number(0, 4 * TIB)), "16777216";
        /// Maximum number of unpublished keys for which the lookups of one user wait.
        max_pending_lookups_per_user "publish.max_pending_lookups_per_user": usize = 4096, Number(0, MILLION), "64";
        /// Maximum number of unpublished keys for which the lookups of all users wait. One eighth of
        /// it is reserved for root and the server's user.
        max_pending_lookups_total "publish.max_pending_lookups_total": Option<usize> = None,
            Unset("four times publish.max_pending_lookups_per_user", Number(0, 4 * MILLION)), "1024";
    }

    /// Log requests (`PMIx_Log`).
    "log" log: Log {
        /// Order in which log channels are tried if a request names none: channel names without
        /// `PMIX_LOG_`. The suffix `:req` marks channels that must succeed.
        order "log.order": Vec<OrderedChannel> = Vec::new(), ChannelOrder, "\"local_syslog:req,global_syslog,email\"";
        /// Stops logging at the first channel that succeeds, unless the request specifies
        /// otherwise.
        once "log.once": bool = false, Switch, "true";
        /// Time during which repetitions of a logged request (`PMIX_LOG_KEY`, `PMIX_LOG_VAL`) are
        /// only counted, in milliseconds. 0 turns this off.
        aggregate_window "log.aggregate_window_ms": Duration = Duration::from_secs(5), Millis(0, 3_600_000), "60000";
        /// Maximum number of different requests that are remembered to detect repetitions.
        max_aggregate_entries "log.max_aggregate_entries": usize = 1024, Number(0, 65_536), "64";
        /// Maximum number of requests that wait for log channels or are being written. More are
        /// refused.
        max_queue_requests "log.max_queue_requests": usize = 4096, Number(1, MILLION), "256";
        /// Maximum memory of the requests that wait for log channels or are being written, in
        /// bytes.
        max_queue_bytes "log.max_queue_bytes": usize = 64 * MIB, Number(4096, TIB), "1048576";
        /// Maximum number of requests of one user among log.max_queue_requests.
        max_queue_requests_per_user "log.max_queue_requests_per_user": Option<usize> = None,
            Unset("a quarter of log.max_queue_requests", Number(1, MILLION)), "64";
        /// Maximum memory of the requests of one user among log.max_queue_bytes, in bytes.
        max_queue_bytes_per_user "log.max_queue_bytes_per_user": Option<usize> = None,
            Unset("a quarter of log.max_queue_bytes", Number(4096, TIB)), "65536";
    }

    /// Connections of tools.
    "tools" tools: Tools {
        /// Permits tools to connect.
        enable "tools.enable": bool = true, Switch, "false";
        /// Maximum number of connected tools. One eighth of them is reserved for root and the
        /// server's user.
        max_connections "tools.max_connections": usize = 256, Number(1, MILLION), "16";
        /// Maximum number of connected tools of one user. Root and the server's user are exempt.
        max_connections_per_user "tools.max_connections_per_user": Option<usize> = None, Unset("a quarter of tools.max_connections", Number(1, MILLION)), "4";
        /// Directory of the rendezvous files of this server. Only the server's user may have write
        /// permission.
        session_dir "tools.session_dir": Option<PathBuf> = None,
            Unset("$PMIX_SERVER_TMPDIR, else peal-UID in the temporary directory of the system; /run/peal for root if another user owns that", FilePath), "\"/run/user/1000\"";
        /// Directory of the rendezvous file of the system server.
        system_dir "tools.system_dir": Option<PathBuf> = None,
            Unset("$PMIX_SYSTEM_TMPDIR, $TMPDIR, $TEMP or $TMP, else /tmp", FilePath), "\"/run/peal\"";
        /// Makes this server the system server of its node, which tools of all users find.
        system_server "tools.system_server": bool = false, Switch, "true";
    }

    /// Admin socket of a running server.
    "admin" admin: Admin {
        /// Path of the admin socket.
        socket "admin.socket": Option<PathBuf> = None,
            Unset("/run/peal/admin.sock for root, else $XDG_RUNTIME_DIR/peal/admin.sock", FilePath), "\"/run/peal/my.sock\"";
        /// Unix group whose members may administer the server, in addition to root and the server's
        /// user.
        group "admin.group": Option<String> = None, Unset("none", UnixGroupName), "\"wheel\"";
        /// Maximum number of registered jobs.
        max_jobs "admin.max_jobs": usize = 4096, Number(0, MILLION), "64";
        /// Maximum number of watchers (`peal top`, `peal event watch`). One eighth of them is reserved
        /// for root and the server's user.
        max_watchers "admin.max_watchers": usize = 64, Number(0, 4096), "16";
        /// Maximum number of watchers of one user. Root and the server's user are exempt.
        max_watchers_per_user "admin.max_watchers_per_user": Option<usize> = None,
            Unset("an eighth of admin.max_watchers", Number(0, 4096)), "2";
        /// Maximum number of denials, and of events with their passage through the chains, that are
        /// kept for watchers (`peal top`, the web console). In a flood a watcher gets an eighth of this number
        /// in a second, and is told how many it missed.
        max_recent_entries "admin.max_recent_entries": usize = 512, Number(1, 65_536), "64";
    }

    /// Jobs of other launchers, such as Slurm and mpirun, that use Peal's libpmix.so.2.
    "hosts" hosts: Hosts {
        /// Path of the socket at which `peal serve` takes jobs of other launchers. Their processes
        /// run as root or as the server's user. The library looks for /run/peal/hosts.sock.
        socket "hosts.socket": Option<PathBuf> = None,
            Unset("not served; each launcher starts a server of its own", FilePath), "\"/run/peal/hosts.sock\"";
        /// Maximum number of connected launcher processes.
        max_stubs "hosts.max_stubs": usize = 1024, Number(1, MILLION), "64";
        /// Maximum number of jobs of one launcher process.
        max_jobs "hosts.max_jobs": usize = 1024, Number(1, MILLION), "64";
        /// Time that a launcher has to answer a request that does not wait for other procs, in
        /// milliseconds. The requester then gets PMIX_ERR_TIMEOUT.
        answer_timeout "hosts.answer_timeout_ms": Duration = Duration::from_secs(60), Millis(1, DAY), "5000";
    }

    /// Metrics for Prometheus.
    "metrics" metrics: Metrics {
        /// Loopback address at which the metrics are served as text.
        listen "metrics.listen": Option<SocketAddr> = None, Unset("not served", ListenAddress::Loopback), "\"127.0.0.1:9464\"";
    }

    /// Web console: the activity, chains, modules and audit trail of the server in a browser. A process of
    /// its own serves it.
    "console" console: Console {
        /// Address at which the console is served. Any other than a loopback address needs a certificate.
        /// With port 0 the system chooses a free port, and the server prints the address.
        listen "console.listen": Option<SocketAddr> = None, Unset("not served", ListenAddress::Any), "\"127.0.0.1:9465\"";
        /// File with the token of those who may look, on its first line. Only its owner may read it.
        token_file "console.token_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/console-token\"";
        /// File with the token of administrators, who may also change modules. Only its owner may read it.
        admin_token_file "console.admin_token_file": Option<PathBuf> = None, Unset("nobody changes anything", FilePath), "\"/etc/peal/console-admin-token\"";
        /// Certificate of the console and its chain to an authority (PEM), for TLS.
        certificate "console.certificate": Option<PathBuf> = None, Unset("no TLS", FilePath), "\"/etc/peal/console.pem\"";
        /// Key of the certificate (PEM). Only its owner may read it.
        private_key "console.private_key": Option<PathBuf> = None, Unset("no TLS", FilePath), "\"/etc/peal/console-key.pem\"";
        /// Certificates of authorities (PEM). A browser with a certificate of theirs may look without a token.
        client_ca "console.client_ca": Option<PathBuf> = None, Unset("no certificates of clients", FilePath), "\"/etc/peal/console-clients.pem\"";
        /// Maximum number of connections. Beyond it the oldest one without rights is ended; if all have rights,
        /// further ones wait.
        max_connections "console.max_connections": usize = 256, Number(1, 65_535), "64";
        /// Maximum number of pages that show changes as they come. Further ones are shown as they were when
        /// they were loaded. All of them together are one watcher of the server.
        max_watchers "console.max_watchers": usize = 64, Number(0, 65_535), "16";
        /// Maximum number of browsers that are logged in. The one that logged in first is logged out.
        max_sessions "console.max_sessions": usize = 256, Number(1, 65_535), "16";
        /// Time after which a browser is logged out, in milliseconds.
        session_lifetime "console.session_lifetime_ms": Duration = Duration::from_secs(8 * 3600), Millis(1000, 7 * DAY), "3600000";
        /// Time in which a client must complete the TLS handshake and the head and the body of a request, in
        /// milliseconds.
        request_timeout "console.request_timeout_ms": Duration = Duration::from_secs(10), Millis(100, 600_000), "5000";
    }

    /// Export of traces and metrics by OTLP, the protocol of OpenTelemetry, as protobuf over HTTP. Servers
    /// of `peal serve` export. A collector that is slow or away delays nothing.
    "telemetry" telemetry: Telemetry {
        /// Collector to which traces and metrics go, at `/v1/traces` and `/v1/metrics` below this URL.
        endpoint "telemetry.endpoint": Option<WebhookUrl> = None, Unset("no export", CollectorUrl), "\"https://collector.example.org:4318\"";
        /// File with a header field `NAME: VALUE` on each line, such as a token. Only its owner may read
        /// it. Needs a URL that begins with https://.
        headers_file "telemetry.headers_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/etc/peal/collector-headers\"";
        /// Certificates of authorities (PEM) that the collector is verified by, instead of those of the
        /// system.
        ca "telemetry.ca": Option<PathBuf> = None, Unset("those of the system", FilePath), "\"/etc/peal/collector-ca.pem\"";
        /// Time in which the collector must take a batch, in milliseconds.
        timeout "telemetry.timeout_ms": Duration = Duration::from_secs(10), Millis(1, 600_000), "3000";
        /// Interval of the metrics, in milliseconds.
        metrics_interval "telemetry.metrics_interval_ms": Duration = Duration::from_secs(60), Millis(100, DAY), "15000";
        /// Number of events and decisions of which about one is a trace.
        sampling_interval "telemetry.sampling_interval": NonZeroU32 = NonZeroU32::MIN, Number(1, MILLION), "100";
        /// Maximum number of traces that start in a second.
        max_traces_per_second "telemetry.max_traces_per_second": u32 = 100, Number(0, MILLION), "1000";
        /// Maximum number of traces that wait for the collector. Further ones are dropped and counted.
        max_queue_traces "telemetry.max_queue_traces": NonZeroUsize = NonZeroUsize::MIN.saturating_add(2047), Number(1, MILLION), "256";
        /// Maximum memory of these traces, in bytes.
        max_queue_bytes "telemetry.max_queue_bytes": usize = 16 * MIB, Number(KIB as u64, TIB), "4194304";
        /// Attributes `NAME=VALUE` of the server in addition to `service.name` and others.
        resource_attributes "telemetry.resource_attributes": Vec<String> = Vec::new(), List(ResourceAttributeKind), "[\"deployment.environment.name=production\"]";
    }

    /// Deployment of modules to a running server.
    "deploy" deploy: Deploy {
        /// Makes `peal serve` watch the files of the configuration and of its modules, and deploy
        /// changes.
        watch "deploy.watch": bool = true, Switch, "false";
        /// Directory in which users install modules for all their jobs. It belongs to root. Each
        /// user owns one directory in it, with files as in modules.d.
        user_modules_dir "deploy.user_modules_dir": Option<PathBuf> = None, Unset("no user modules", FilePath), "\"/var/lib/peal/users\"";
        /// Maximum number of user components that are compiled and first started at the same time.
        /// The limit for one user is one.
        max_compilers "deploy.max_compilers": NonZeroUsize = NonZeroUsize::MIN.saturating_add(1), Number(1, 64), "1";
        /// Time that the compilation of one user component may take, in milliseconds. It runs at
        /// low priority.
        compile_timeout "deploy.compile_timeout_ms": Duration = Duration::from_secs(300), Millis(100, DAY), "30000";
        /// Maximum memory of the compilation of one user component, in bytes.
        max_compile_memory "deploy.max_compile_memory_bytes": u64 = GIB as u64, Number(64 * MIB as u64, TIB), "536870912";
        /// Time without changes before changed files are read, in milliseconds.
        debounce "deploy.debounce_ms": Duration = Duration::from_millis(250), Millis(0, 60_000), "2000";
    }

    /// Signatures of modules. The signature of `quota.wasm` is the file `quota.wasm.minisig` beside
    /// it. A reload applies changes to modules that are loaded afterwards.
    "modules" modules: Modules {
        /// Owners whose modules need a signature by a trusted key. Unsigned modules of these owners
        /// are refused.
        require_signature "modules.require_signature": Vec<ModuleOwner> = Vec::new(), List(KeywordKind), "[\"site\", \"job-supplied\"]";
        /// Public keys trusted for the modules of all owners: the second line of a `.pub` file of
        /// `peal module keygen` or minisign.
        trusted_keys "modules.trusted_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Additional public keys trusted for modules of users.
        user_keys "modules.user_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Additional public keys trusted for modules that the site assigns to jobs by name.
        namespace_keys "modules.namespace_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Capabilities that modules of the cluster may have on this node. A set with others is
        /// refused here.
        cluster_grants "modules.cluster_grants": Option<Vec<String>> = None,
            Unset("all capabilities", List(CapabilityKind)), "[\"logging\", \"state\"]";
        /// Additional public keys trusted for job-supplied modules.
        job_supplied_keys "modules.job_supplied_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
    }

    /// Data that outlive the process.
    "store" store: Store {
        /// SQLite database of job records and module state.
        path "store.path": Option<PathBuf> = None, Unset("no store", FilePath), "\"/var/lib/peal/peal.db\"";
        /// Maximum size of the database, in bytes. Each kind of data has a limit of its own, so that a
        /// full one refuses no other. One sixteenth is reserved for starts and ends of jobs, admin
        /// requests and module versions. The defaults of the limits leave half of the database for
        /// its structure.
        max_bytes "store.max_bytes": u64 = 2 * GIB as u64, Number(1 << 20, TIB), "67108864";
        /// Maximum size of the messages of all sinks that are not delivered yet, in bytes.
        max_mail_bytes "store.max_mail_bytes": Option<u64> = None,
            Unset("a sixteenth of store.max_bytes", Number(1 << 14, TIB)), "4194304";
        /// Maximum size of the state of all modules, in bytes. One eighth of it is reserved for
        /// modules of the site.
        max_state_bytes "store.max_state_bytes": Option<u64> = None,
            Unset("a sixteenth of store.max_bytes", Number(1 << 14, TIB)), "4194304";
        /// Maximum size of the recorded admin requests, in bytes. The oldest are removed first.
        max_admin_bytes "store.max_admin_bytes": Option<u64> = None,
            Unset("a sixteenth of store.max_bytes", Number(1 << 14, TIB)), "4194304";
        /// Maximum size of the entries in all job records, in bytes.
        max_record_bytes "store.max_record_bytes": Option<u64> = None,
            Unset("a quarter of store.max_bytes", Number(1 << 16, TIB)), "33554432";
        /// Maximum size of the entries in the job records of one user, in bytes. Records of ended
        /// jobs are removed first, the oldest before the others.
        max_record_bytes_per_user "store.max_record_bytes_per_user": Option<u64> = None,
            Unset("half of store.max_record_bytes", Number(1 << 16, TIB)), "16777216";
        /// Maximum size of the entries in one job record, in bytes.
        max_record_bytes_per_job "store.max_record_bytes_per_job": Option<u64> = None,
            Unset("a quarter of store.max_record_bytes_per_user", Number(1 << 14, TIB)), "1048576";
        /// Maximum number of entries in one job record.
        max_record_entries_per_job "store.max_record_entries_per_job": u32 = 100_000, Number(1, 100 * MILLION), "1000";
    }

    /// Audit trail: a record of every module call, every decision and every change of the module
    /// set. `peal audit` reads it.
    "audit" audit: Audit {
        /// SQLite database of the audit trail.
        path "audit.path": Option<PathBuf> = None, Unset("no audit trail", FilePath), "\"/var/lib/peal/audit.db\"";
        /// Behaviour when a decision cannot be recorded, for example on a full disk: deny requests
        /// that policies grant, or continue without a record. Required with audit.path.
        on_failure "audit.on_failure": Option<RecordFailurePolicy> = None, Unset("none; required with audit.path", KeywordKind), "\"deny\"";
        /// Private key that seals the trail. The server creates a missing key. The public key is
        /// written beside it.
        key "audit.key": Option<PathBuf> = None, Unset("name of the database with the suffix .key", FilePath), "\"/etc/peal/audit.key\"";
        /// Failure that a written record survives: the end of the process, or of the machine. With
        /// "machine" each group of records waits for the disk.
        durability "audit.durability": Durability = Durability::Process, KeywordKind, "\"machine\"";
        /// Maximum size of the database, in bytes. The oldest records are removed first.
        max_bytes "audit.max_bytes": u64 = GIB as u64, Number(1 << 20, TIB), "10737418240";
        /// Maximum age of records, in days. Records are removed earlier if the database is full.
        keep_days "audit.keep_days": Option<u32> = None, Unset("no limit", Number(1, 36_500)), "90";
        /// Share of audit.max_bytes that is reserved for decisions, in percent. Within it, calls
        /// and refusals are removed before decisions. Beyond it, decisions older than
        /// audit.decision_days are removed first.
        decision_percent "audit.decision_percent": u32 = 50, Number(1, 90), "75";
        /// Minimum age of removed decisions, in days. If nothing else can be removed, requests that
        /// policies grant are denied, as on a full disk.
        decision_days "audit.decision_days": Option<u32> = None, Unset("7, or audit.keep_days if that is less", Number(1, 36_500)), "30";
        /// Share of audit.max_bytes that decisions about one user may take when the trail is full
        /// of records that must stay, in percent. Further grants to that user are denied. Root and
        /// the server's user are exempt.
        max_decision_percent_per_user "audit.max_decision_percent_per_user": u32 = 25, Number(1, 90), "10";
        /// Minimum age of removed calls and refusals, in milliseconds. If nothing else can be removed,
        /// requests that policies grant are denied, as on a full disk.
        min_call_age "audit.min_call_age_ms": Duration = Duration::from_secs(600), Millis(0, DAY), "3600000";
        /// Share of audit.max_bytes that calls and refusals caused by one user may take when no
        /// room can be made for more, in percent. Further calls caused by that user are counted
        /// and not recorded, and grants to that user are denied. Root and the server's user are
        /// exempt.
        max_call_percent_per_user "audit.max_call_percent_per_user": u32 = 25, Number(1, 90), "10";
        /// Time during which refusals of one user for one cause are counted into one record, in
        /// milliseconds. The first refusal is recorded immediately.
        refusal_interval "audit.refusal_interval_ms": Duration = Duration::from_secs(1), Millis(100, 3_600_000), "10000";
        /// Maximum number of records that wait to be written. Beyond it, calls of handlers and
        /// channels are dropped and counted; calls of policies wait.
        max_queue_records "audit.max_queue_records": usize = 8192, Number(16, MILLION), "1024";
        /// Sampling of handler instances: one of this number is recorded, from its first call to
        /// its last. 1 records all. Policies and channels are always recorded.
        sample_handlers "audit.sample_handlers": NonZeroU32 = NonZeroU32::MIN, Number(1, 1000), "10";
        /// Keys of infos, and of module configurations, whose values are replaced by a digest.
        secret_keys "audit.secret_keys": Vec<String> = audit_secrets(), List(InfoKey), "[\"pmix.cred\", \"password\"]";
        /// File to which trail checkpoints are appended, preferably on the disk of another machine.
        checkpoint_file "audit.checkpoint_file": Option<PathBuf> = None, Unset("none", FilePath), "\"/mnt/log/peal.checkpoints\"";
        /// Copies of trail checkpoints in the system log.
        checkpoint_syslog "audit.checkpoint_syslog": CheckpointSyslog = CheckpointSyslog::No, KeywordKind, "\"yes\"";
        /// Number of records between two trail checkpoints.
        checkpoint_records "audit.checkpoint_records": u64 = 1000, Number(1, 1000 * MILLION), "100";
        /// Maximum time between a record and the next trail checkpoint, in milliseconds.
        checkpoint_time "audit.checkpoint_ms": Duration = Duration::from_secs(10), Millis(10, DAY), "60000";
    }

    /// Confinement of `peal serve` by the kernel (Landlock, seccomp), which limits a compromised
    /// server. The server can change only paths that its configuration names at the start. It
    /// cannot read `inaccessible_paths`, execute programs, open connections except to its sinks, or
    /// make system calls that a server does not need.
    "confinement" confinement: Confinement {
        /// Use of confinement: none, as far as the kernel supports it, or required for the start of
        /// the server. `log` is `try` with system calls that are logged by the kernel and not
        /// refused, to find the reason for a refusal. `require` needs Linux 6.12.
        mode "confinement.mode": ConfinementMode = ConfinementMode::Try, KeywordKind, "\"require\"";
        /// Directories in which the server can read only paths named in the configuration or in
        /// `confinement.read_only_paths`.
        inaccessible_paths "confinement.inaccessible_paths": Vec<PathBuf> = ["/etc", "/home", "/root"].map(PathBuf::from).into(), List(FilePath), "[\"/etc\", \"/home\", \"/srv\"]";
        /// Files and directories inside `confinement.inaccessible_paths` that the server may read,
        /// such as directories of later components.
        read_only_paths "confinement.read_only_paths": Vec<PathBuf> = Vec::new(), List(FilePath), "[\"/opt/site/modules\"]";
        /// Directories below which the server removes paths that procs registered for cleanup. A
        /// compromised server could remove other files there.
        cleanup_roots "confinement.cleanup_roots": Vec<PathBuf> = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from).into(), List(FilePath), "[\"/scratch\"]";
        /// Files and directories that the server may also change, such as directories that later
        /// modules use.
        read_write_paths "confinement.read_write_paths": Vec<PathBuf> = Vec::new(), List(FilePath), "[\"/srv/modules\"]";
    }

    /// Engine that runs components.
    "sandbox" sandbox: Sandbox {
        /// Directory of compiled code. Only its owner may have write permission.
        cache_dir "sandbox.cache_dir": Option<PathBuf> = None, Unset("~/.cache/peal/compiled", FilePath), "\"/var/cache/peal\"";
        /// Number of threads that run the chains of jobs.
        threads "sandbox.threads": Option<NonZeroUsize> = None, Unset("one for each core", Number(1, 1024)), "2";
        /// Maximum number of instances of all modules. Modules of tenants use three quarters of it
        /// at most. A large component, as in Python or JavaScript, counts once for each 8 core
        /// instances, 2 memories or 4 tables.
        max_instances "sandbox.max_instances": u32 = 1000, Number(1, 100_000), "64";
        /// Modules whose fuel is counted: those with a fuel limit, or all. Counting slows a module
        /// down.
        fuel "sandbox.fuel": FuelCount = FuelCount::WhereLimited, KeywordKind, "\"always\"";
    }

    /// Registries from which modules are fetched (`path = "oci://..."` in a [[module]], `peal module
    /// pull` and `push`). Registries are asked by HTTPS only.
    "registry" registry: Registry {
        /// Directory of fetched artefacts. Each is verified at every use.
        store_dir "registry.store_dir": Option<PathBuf> = None, Unset("artifacts beside store.path, else ~/.cache/peal/artifacts", FilePath), "\"/var/lib/peal/artifacts\"";
        /// Certificates of authorities (PEM) that registries are verified by, instead of those of
        /// the system.
        ca "registry.ca": Option<PathBuf> = None, Unset("those of the system", FilePath), "\"/etc/peal/registry-ca.pem\"";
        /// File with user names and passwords for registries, in the form of docker's config.json.
        /// The process that fetches reads it; of programs that keep passwords it starts none.
        credentials "registry.credentials": Option<PathBuf> = None, Unset("none for servers; config.json in $DOCKER_CONFIG or ~/.docker for commands", FilePath), "\"/etc/peal/registry-auth.json\"";
        /// Maximum size of a fetched component, in bytes.
        max_component "registry.max_component_bytes": u64 = 64 * MIB as u64, Number(KIB as u64, 64 * MIB as u64), "4194304";
        /// Time in which a registry must accept a connection, in milliseconds.
        connect_timeout "registry.connect_timeout_ms": Duration = Duration::from_secs(10), Millis(1, DAY), "2000";
        /// Time in which an artefact must be fetched or pushed, in milliseconds.
        timeout "registry.timeout_ms": Duration = Duration::from_secs(120), Millis(1, DAY), "30000";
        /// Time after which a server tries again to fetch an artefact, in milliseconds.
        retry_interval "registry.retry_interval_ms": Duration = Duration::from_secs(30), Millis(10, DAY), "5000";
    }

    /// Cluster of the node: the NATS servers on which the servers of its nodes meet, one for each node.
    /// `peal serve` joins it; `peal run` and the servers of launchers stay alone.
    "cluster" cluster: ClusterSettings {
        /// NATS servers, as `tls://HOST` or `tls://HOST:PORT`. One of them is enough for a connection.
        servers "cluster.servers": Vec<NatsAddress> = Vec::new(), List(NatsAddressKind), "[\"tls://nats1.example.org\", \"tls://nats2.example.org:4333\"]";
        /// Name of the cluster.
        name "cluster.name": Option<ClusterName> = None, Unset("no cluster", ClusterNameKind), "\"site\"";
        /// Name of this node in the cluster.
        node "cluster.node": Option<NodeName> = None, Unset("the host name up to its first dot", NodeNameKind), "\"n1\"";
        /// File with the seed of this node's key, which `peal cluster init` makes. Only its owner may read
        /// it.
        credentials "cluster.credentials": Option<PathBuf> = None, Unset("none, which a cluster needs", FilePath), "\"/etc/peal/cluster/node.seed\"";
        /// Certificates of authorities (PEM) that NATS servers are verified by, instead of those of the
        /// system.
        ca "cluster.ca": Option<PathBuf> = None, Unset("those of the system", FilePath), "\"/etc/peal/cluster/ca.pem\"";
        /// Nodes whose administrators may see the jobs, metrics and job records of this node: `peal ps
        /// --cluster` and others.
        viewers "cluster.viewers": Vec<NodeName> = Vec::new(), List(NodeNameKind), "[\"login1\"]";
        /// Time in which a NATS server must accept a connection and answer a request, in milliseconds.
        timeout "cluster.timeout_ms": Duration = Duration::from_secs(5), Millis(1, DAY), "2000";
        /// Time in which the servers of other nodes must control procs or answer queries, in milliseconds.
        answer_timeout "cluster.answer_timeout_ms": Duration = Duration::from_secs(30), Millis(1, DAY), "60000";
    }

    /// Limits of all modules of one user or one job together: configured modules with such a scope,
    /// and job-supplied modules.
    "tenant" tenant: Tenant {
        /// Processes that run the modules of users and jobs: one for each user, which runs as that user,
        /// or that of the server. "own" needs a server that root starts as another user
        /// (`server.user`).
        process "tenant.process": Option<TenantProcess> = None, Unset("\"own\" where the server can, else \"shared\"", KeywordKind), "\"shared\"";
        /// Share of processor time of one user's process, where the system has control groups:
        /// 100 is that of other processes.
        cpu_weight "tenant.cpu_weight": u64 = 20, Number(1, 10_000), "100";
        /// Maximum number of modules.
        max_modules "tenant.max_modules": usize = 16, Number(0, 1000), "4";
        /// Maximum size of a component that a user installs, in bytes.
        max_component "tenant.max_component_bytes": u64 = 32 * MIB as u64, Number(KIB as u64, 64 * MIB as u64), "4194304";
        /// Maximum size of the memories and tables of all instances, in bytes.
        max_memory_bytes "tenant.max_memory_bytes": usize = GIB, Number(64 * KIB as u64, TIB), "268435456";
        /// Maximum number of instances, idle and running.
        max_instances "tenant.max_instances": usize = 64, Number(1, 100_000), "16";
        /// Maximum size of the state of all modules, in bytes.
        max_state_bytes "tenant.max_state_bytes": u64 = 16 * MIB as u64, Number(0, TIB), "1048576";
        /// Capabilities that may be granted. Job-supplied modules are granted all of these except
        /// state, sinks and files.
        grants "tenant.grants": Vec<String> = tenant_grants(), List(CapabilityKind), "[\"logging\"]";
    }

    /// Limits of one job-supplied module.
    "job_supplied" job_supplied: JobSupplied {
        /// Memories and tables of one instance, in bytes.
        memory_bytes "job_supplied.memory_bytes": usize = 64 * MIB, Number(64 * KIB as u64, 1 << 34), "16777216";
        /// Processor time of one call outside of host calls, in milliseconds.
        call_time "job_supplied.call_time_ms": Duration = Duration::from_millis(100), Millis(1, 600_000), "20";
        /// Time that one call spends in host calls, in milliseconds.
        host_call_time "job_supplied.host_call_time_ms": Duration = Duration::from_secs(1), Millis(1, 600_000), "500";
        /// Fuel of one call.
        fuel "job_supplied.fuel": Option<u64> = None, Unset("not limited", Number(1, 1 << 62)), "100000000";
        /// Data that one call pushes, in bytes.
        output_bytes "job_supplied.output_bytes": usize = MIB, Number(0, 1 << 30), "65536";
        /// Events that one call raises.
        raised_events "job_supplied.raised_events": usize = 16, Number(0, 10_000), "4";
        /// Host calls of one call.
        host_calls "job_supplied.host_calls": u32 = 5000, Number(1, 1000 * MILLION), "500";
        /// Lines that the module writes to the trace per second. A burst has twice as many.
        log_lines_per_second "job_supplied.log_lines_per_second": u32 = 50, Number(1, MILLION), "5";
    }
}
