//! The table of settings, but for those of modules and sinks: every key, its type, default, bounds, meaning, and a value other than the default.
//!
//! Reading, `peal config show`, the environment's names, the example file and the tables for readers are made from it.
use crate::{
    defaults::{GIB, KIB, MIB, audit_secrets, tenant_grants},
    kinds::{
        ChannelOrder, FilePath, KeywordKind, Loopback, Millis, Number, Switch, TraceFilter,
        UnixGroupName, Unset,
    },
    module_kinds::{CapabilityKind, InfoKey, List},
    signing::{SignerPublicKey, TrustedKey},
    table::settings,
    values::{
        AuditFailure, CheckpointSyslog, ControlGroups, Durability, FuelCount, IdentityCheck,
        ModuleOwner, OnAbort, OrderedChannel, PolicyDefault, RestartScope, WallMode,
    },
};
use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

/// The longest time that can be set, in milliseconds: a day.
const DAY: u64 = 86_400_000;
/// The most of anything that is counted.
const MILLION: u64 = 1_000_000;
/// The most memory or disk that can be allowed, in bytes: a tebibyte.
const TIB: u64 = 1 << 40;

settings! {
    /// All settings but those of modules.
    "" Config {}

    /// How jobs run.
    "run" run: Run {
        /// What follows the abnormal end of a proc where no handler of its event wishes anything: the job is ended, or the
        /// other procs go on.
        on_abort "run.on_abort": OnAbort = OnAbort::Terminate, KeywordKind, "\"continue\"";
        /// How long these handlers have to wish something.
        action_timeout "run.action_timeout_ms": Duration = Duration::from_secs(5), Millis(0, DAY), "1000";
        /// How long the other procs go on after an abnormal end before they are told to end, so that they can finish what they were
        /// about to do or write.
        termination_delay "run.termination_delay_ms": Duration = Duration::from_millis(200), Millis(0, DAY), "0";
        /// How long procs that are to end have before they are killed.
        grace "run.grace_ms": Duration = Duration::from_secs(3), Millis(0, DAY), "500";
        /// Who is started again where a proc is to be: only those that were named, or all procs of their job.
        restart "run.restart": RestartScope = RestartScope::Ranks, KeywordKind, "\"job\"";
        /// Whether procs are kept in control groups (cgroup v2) of their own, which are frozen to pause them; where that is not
        /// possible, they are paused by signals.
        control_groups "run.control_groups": ControlGroups = ControlGroups::Try, KeywordKind, "\"off\"";
        /// How many jobs there may be at the same time that procs have spawned (PMIx_Spawn, MPI_Comm_spawn).
        max_spawned_jobs "run.max_spawned_jobs": usize = 64, Number(0, 65_535), "8";
        /// How much of what a proc has written last to each output is kept for those who pull it later (PMIx_IOF_pull), in bytes. Of
        /// all procs together it is 16 MiB at most.
        kept_output "run.kept_output_bytes": usize = 16_384, Number(0, MILLION), "0";
        /// How many paths the procs of one job may register to be removed when they have ended, names to be ignored among them.
        cleanup_paths "run.cleanup_paths": usize = 4096, Number(0, MILLION), "64";
        /// How many files and directories are looked at to remove what one registration names.
        cleanup_entries "run.cleanup_entries": u64 = MILLION, Number(0, 1000 * MILLION), "10000";
        /// How many directories below each other are gone into for that.
        cleanup_depth "run.cleanup_depth": usize = 64, Number(0, 1000), "8";
    }

    /// What is traced on standard error.
    "trace" trace: Trace {
        /// Which lines, by level and by where they come from; `PEAL_LOG` overrides it.
        filter "trace.filter": String = "warn".to_owned(), TraceFilter, "\"info,peal::guest=debug\"";
    }

    /// The limits and times of the server.
    "server" server: Server {
        /// How much memory one event may take, in bytes.
        max_event_bytes "server.max_event_bytes": usize = MIB, Number(1024, 1 << 30), "65536";
        /// Whether it writes to log channels that other servers do not have (`PMIX_SERVER_GATEWAY`); what is logged to stdout and
        /// stderr anywhere appears here then.
        gateway "server.gateway": bool = false, Switch, "true";
        /// How much memory the keys and values that one proc has put may take, in bytes.
        max_put_bytes "server.max_put_bytes": usize = 256 * MIB, Number(0, TIB), "1048576";
        /// How much memory the keys and values that all procs of one user have put may take, in bytes; root and the server's user may put
        /// more.
        max_put_bytes_per_user "server.max_put_bytes_per_user": Option<usize> = None, Unset("twice server.max_put_bytes", Number(0, TIB)), "268435456";
        /// How many gets of one client may wait for keys that are not there yet.
        max_held_gets "server.max_held_gets": usize = 4096, Number(0, MILLION), "64";
        /// How many fences one proc may wait in at once.
        max_fences "server.max_fences": usize = 64, Number(1, MILLION), "8";
        /// How many codes and filters one client may have registered.
        max_registrations "server.max_registrations": usize = 65_536, Number(1, MILLION), "1000";
        /// How many connections one proc may have, its own and those of its clones.
        max_clones "server.max_clones": u32 = 64, Number(1, MILLION), "4";
        /// How many events hosted handlers may raise in all because of one that no handler raised.
        raised_events "server.raised_events": u32 = 256, Number(0, MILLION), "16";
        /// How long a get waits for a key that its proc has not put, where the requester gives no time.
        get_timeout "server.get_timeout_ms": Duration = Duration::from_secs(2), Millis(0, DAY), "5000";
        /// How long a client may take to say who it is.
        handshake_timeout "server.handshake_timeout_ms": Duration = Duration::from_secs(10), Millis(1, DAY), "3000";
        /// How many connections there may be at once; an eighth of them are for root and the server's user alone.
        max_connections "server.max_connections": usize = 4096, Number(1, MILLION), "128";
        /// How many of them one user may have, unless that is root or the server's; more are refused.
        max_connections_per_user "server.max_connections_per_user": Option<usize> = None,
            Unset("a quarter of server.max_connections", Number(1, MILLION)), "32";
        /// How many handshakes of such a user are read at once; others wait for as long as a handshake may take.
        max_handshakes_per_user "server.max_handshakes_per_user": Option<usize> = None,
            Unset("64, or server.max_connections_per_user where that is less", Number(1, MILLION)), "8";
        /// How many bytes messages of such a user may take of which a part has come; others are read no further until there is room.
        max_partial_frame_bytes_per_user "server.max_partial_frame_bytes_per_user": Option<usize> = None,
            Unset("twice server.max_message", Number(4096, TIB)), "268435456";
        /// How long a message may take from its first byte to its last; then its connection is closed.
        frame_timeout "server.frame_timeout_ms": Duration = Duration::from_secs(60), Millis(1, DAY), "10000";
        /// Longest wait of a user's handshake or request, behind more than 32 refused handshakes or 1000 refused requests in a second.
        refusal_delay "server.refusal_delay_ms": Duration = Duration::from_secs(1), Millis(0, 60_000), "500";
        /// How long a message may be, in bytes.
        max_message "server.max_message": usize = 64 * MIB, Number(4096, 1 << 30), "1048576";
        /// How much memory one message may take when it is unpacked, in bytes.
        max_message_memory "server.max_message_memory": usize = 256 * MIB, Number(64 * 1024, TIB), "4194304";
        /// How many requests of one client may await their answers.
        max_open_requests "server.max_open_requests": usize = 4096, Number(1, MILLION), "256";
        /// How many messages may wait for one client; one that does not read them is cut off.
        outbox "server.outbox": usize = 65_536, Number(1, MILLION), "1024";
        /// How much memory these may take, in bytes.
        outbox_bytes "server.outbox_bytes": usize = 256 * MIB, Number(4096, TIB), "16777216";
        /// How many events may wait for the hosted handlers of one owner.
        chain_queue "server.chain_queue": usize = 65_536, Number(1, MILLION), "1024";
        /// How much memory these may take, in bytes.
        chain_queue_bytes "server.chain_queue_bytes": usize = 64 * MIB, Number(4096, TIB), "1048576";
        /// How long events that were accepted have to pass the hosted handlers at the end.
        chain_drain_timeout "server.chain_drain_timeout_ms": Duration = Duration::from_secs(10), Millis(0, DAY), "1000";
        /// How long the host environment may take to register for events of the environment; the client that wants them waits.
        host_timeout "server.host_timeout_ms": Duration = Duration::from_secs(5), Millis(1, DAY), "1000";
        /// Whether the server itself monitors procs and files (`PMIX_SERVER_ENABLE_MONITORING`); if not, the host environment is asked.
        monitoring "server.monitoring": Option<bool> = None, Unset("the host environment where it offers that, else the server", Switch), "true";
        /// How many monitors one proc may have.
        max_monitors "server.max_monitors": usize = 64, Number(0, MILLION), "8";
        /// How many monitors all procs may have; half of them for one user.
        max_all_monitors "server.max_all_monitors": usize = 65_536, Number(0, MILLION), "1000";
        /// How many of these may be of files, each of which keeps a directory open; half of them for one user.
        max_monitored_files "server.max_monitored_files": usize = 512, Number(0, MILLION), "64";
        /// How long clients have to take what is left for them at the end.
        drain_timeout "server.drain_timeout_ms": Duration = Duration::from_secs(5), Millis(0, DAY), "1000";
    }

    /// What is kept of events for those who have not been told of them.
    "events" events: Events {
        /// How many events of the environment are kept for late registrations: the newest.
        ring_size "events.ring_size": usize = 512, Number(0, MILLION), "2048";
        /// How much memory these may take, in bytes.
        ring_bytes "events.ring_bytes": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// Bytes of memory for events that are kept until everybody whom they are for has been told; more go to disk.
        memory_limit "events.memory_limit": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// Bytes that it may take to know which events are kept and for whom; half of them for one user's.
        index_limit "events.index_limit": usize = 256 * MIB, Number(4096, TIB), "1048576";
        /// Bytes of disk for kept events that there is no room for in memory, half of them for one user's; in files without names, gone with
        /// the server.
        spill_limit "events.spill_limit": usize = 4096 * MIB, Number(0, 1 << 50), "1048576";
        /// How long losses of connections are gathered, so that one event tells of all of them.
        loss_window "events.loss_window_ms": Duration = Duration::from_millis(100), Millis(0, 60_000), "1000";
        /// The directory of these files.
        spill_dir "events.spill_dir": Option<PathBuf> = None,
            Unset("the system's directory for temporary files", FilePath), "\"/var/tmp\"";
    }

    /// How peers are identified.
    "identity" identity: Identity {
        /// Who may be a proc: only the process that was started for it and its descendants, or any process of its user.
        check "identity.check": IdentityCheck = IdentityCheck::Process, KeywordKind, "\"user\"";
    }

    /// What holds where all policies of a hook pass, or where there are none.
    "policy" policy: Policy {
        /// Who may connect.
        connection "policy.connection.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Which events may be raised.
        event "policy.event.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"grant\"";
        /// Who may control which procs.
        job_control "policy.job-control.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may have which procs monitored.
        monitor "policy.monitor.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who is provided with nodes; unless a policy provides them, or this grants, nobody.
        provision "policy.provision.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may write to log channels.
        log "policy.log.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may form groups with whom.
        group "policy.group.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may start procs.
        spawn "policy.spawn.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may publish data.
        publish "policy.publish.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may look up published data.
        lookup "policy.lookup.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// Who may ask about others' jobs.
        query "policy.query.default": PolicyDefault = PolicyDefault::BuiltIn, KeywordKind, "\"deny\"";
        /// How many requests and connections may wait for policies, those of one user at most half of them; more are denied.
        max_pending "policy.max_pending": usize = 1024, Number(1, MILLION), "64";
    }

    /// Requests to control jobs (`PMIx_Job_control`).
    "control" control: Control {
        /// How many requests may have not ended, those of one user at most half of them; as many that have are remembered.
        max_requests "control.max_requests": usize = 1024, Number(2, 100_000), "64";
        /// How long procs may take for a checkpoint, where a request does not say.
        checkpoint_timeout "control.checkpoint_timeout_ms": Duration = Duration::from_secs(300), Millis(1, DAY), "60000";
        /// How long procs have between the alert that they are preempted and that, where a request does not say.
        preempt_grace "control.preempt_grace_ms": Duration = Duration::from_secs(30), Millis(0, DAY), "5000";
    }

    /// Groups of procs (`PMIx_Group_construct`).
    "group" group: Group {
        /// How long constructing or destructing one may take, where a request does not say.
        timeout "group.timeout_ms": Duration = Duration::from_secs(300), Millis(1, DAY), "60000";
        /// How long whoever leads has to say what becomes of one in which somebody failed, before it comes to nothing.
        decision_time "group.decision_time_ms": Duration = Duration::from_secs(10), Millis(1, DAY), "2000";
        /// For how long whoever comes late learns how it ended, and who was told what is remembered.
        memory "group.memory_ms": Duration = Duration::from_secs(60), Millis(1000, DAY), "120000";
        /// How many groups a user may have, with those that are being constructed.
        max "group.max": usize = 1024, Number(1, MILLION), "64";
    }

    /// Data that procs publish (`PMIx_Publish`).
    "publish" publish: Publish {
        /// How many values a user may have published.
        max_items "publish.max_items": usize = 4096, Number(0, MILLION), "64";
        /// How much memory these may take, in bytes.
        max_bytes "publish.max_bytes": usize = 64 * MIB, Number(0, TIB), "1048576";
        /// How many keys that are not there yet a user's lookups may wait for.
        max_waits "publish.max_waits": usize = 4096, Number(0, MILLION), "64";
    }

    /// Requests to log (`PMIx_Log`).
    "log" log: Log {
        /// The order in which channels are tried where a request names none, by their names without `PMIX_LOG_`; `:req`
        /// marks those that must succeed.
        order "log.order": Vec<OrderedChannel> = Vec::new(), ChannelOrder, "\"local_syslog:req,global_syslog,email\"";
        /// Whether to stop at the first channel that succeeds, where a request does not say.
        once "log.once": bool = false, Switch, "true";
        /// For how long a request that is like one that was logged (`PMIX_LOG_KEY`, `PMIX_LOG_VAL`) is only counted; never with 0.
        aggregate_window "log.aggregate_window_ms": Duration = Duration::from_secs(5), Millis(0, 3_600_000), "60000";
        /// How many different requests are remembered for that.
        aggregate_entries "log.aggregate_entries": usize = 1024, Number(0, 65_536), "64";
        /// How many requests may wait for log channels or be being written; more are refused.
        max_queued "log.max_queued": usize = 4096, Number(1, MILLION), "256";
        /// How much memory these may take, in bytes.
        max_queued_bytes "log.max_queued_bytes": usize = 64 * MIB, Number(4096, TIB), "1048576";
        /// How many of these requests may be of one user.
        max_user_queued "log.max_user_queued": Option<usize> = None,
            Unset("a quarter of log.max_queued", Number(1, MILLION)), "64";
        /// How much memory these may take, in bytes.
        max_user_queued_bytes "log.max_user_queued_bytes": Option<usize> = None,
            Unset("a quarter of log.max_queued_bytes", Number(4096, TIB)), "65536";
    }

    /// Connections of tools.
    "tools" tools: Tools {
        /// Whether tools may connect.
        enable "tools.enable": bool = true, Switch, "false";
        /// How many tools may be connected; an eighth of them are for root and the server's user alone.
        max "tools.max": usize = 256, Number(1, MILLION), "16";
        /// How many of them one user may have, unless that is root or the server's.
        max_per_user "tools.max_per_user": Option<usize> = None, Unset("a quarter of tools.max", Number(1, MILLION)), "4";
        /// The directory of the rendezvous files by which tools find this server; only its user may be able to write there.
        session_dir "tools.session_dir": Option<PathBuf> = None,
            Unset("$PMIX_SERVER_TMPDIR, else peal-UID in the system's directory; for root /run/peal where that is somebody else's", FilePath), "\"/run/user/1000\"";
        /// The directory of the rendezvous file of the system server.
        system_dir "tools.system_dir": Option<PathBuf> = None,
            Unset("$PMIX_SYSTEM_TMPDIR, $TMPDIR, $TEMP or $TMP, else /tmp", FilePath), "\"/run/peal\"";
        /// Whether this server is the one of its machine that tools of all users find.
        system_server "tools.system_server": bool = false, Switch, "true";
    }

    /// The socket by which a running server is administrated.
    "admin" admin: Admin {
        /// The socket.
        socket "admin.socket": Option<PathBuf> = None,
            Unset("/run/peal/admin.sock for root, else $XDG_RUNTIME_DIR/peal/admin.sock", FilePath), "\"/run/peal/my.sock\"";
        /// The group that may administrate the server beside root and the server's own user.
        group "admin.group": Option<String> = None, Unset("none", UnixGroupName), "\"wheel\"";
        /// How many jobs may be registered at once.
        max_jobs "admin.max_jobs": usize = 4096, Number(0, MILLION), "64";
    }

    /// What the server counts, for Prometheus.
    "metrics" metrics: Metrics {
        /// Where the counters are served as text; only to this machine.
        listen "metrics.listen": Option<SocketAddr> = None, Unset("not served", Loopback), "\"127.0.0.1:9464\"";
    }

    /// How the modules of a running server are changed.
    "deploy" deploy: Deploy {
        /// Whether `peal serve` looks at the files of the configuration and of its modules, and takes over what changes there.
        watch "deploy.watch": bool = true, Switch, "false";
        /// Where users install modules for all of their jobs: a directory of root's in which each has one that belongs to them,
        /// with files as in modules.d.
        user_dir "deploy.user_dir": Option<PathBuf> = None, Unset("users install none", FilePath), "\"/var/lib/peal/users\"";
        /// How many components of users are compiled, and started for the first time, at once. Of one user it is one at a time.
        max_compilers "deploy.max_compilers": NonZeroUsize = NonZeroUsize::MIN.saturating_add(1), Number(1, 64), "1";
        /// How long the compilation of one component of a user may take. It runs at a low priority.
        compile_timeout "deploy.compile_timeout_ms": Duration = Duration::from_secs(300), Millis(100, DAY), "30000";
        /// How much memory the compilation of one component of a user may take, in bytes.
        max_compile_memory "deploy.max_compile_memory_bytes": u64 = GIB as u64, Number(64 * MIB as u64, TIB), "536870912";
        /// How long these files must have been left alone before they are read.
        settle "deploy.settle_ms": Duration = Duration::from_millis(250), Millis(0, 60_000), "2000";
    }

    /// Who must have signed the components of modules. The signature of `quota.wasm` lies beside it, in `quota.wasm.minisig`. A reload
    /// takes over what is said here, for all that is loaded from then on.
    "modules" modules: Modules {
        /// Whose modules must be signed by a key that is trusted for them: of theirs, nothing else is loaded.
        require_signature "modules.require_signature": Vec<ModuleOwner> = Vec::new(), List(KeywordKind), "[\"site\", \"brought\"]";
        /// The public keys that are trusted for everybody's modules: the second line of a `.pub` of `peal module keygen` or minisign.
        trusted_keys "modules.trusted_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Those that are trusted for modules of users as well.
        user_keys "modules.user_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Those that are trusted for modules that the site gives jobs of some names as well.
        namespace_keys "modules.namespace_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
        /// Those that are trusted for what jobs bring as well.
        brought_keys "modules.brought_keys": Vec<TrustedKey> = Vec::new(), List(SignerPublicKey),
            "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
    }

    /// What outlives the process.
    "store" store: Store {
        /// The SQLite database for the record of jobs and the state of modules.
        path "store.path": Option<PathBuf> = None, Unset("nothing is kept", FilePath), "\"/var/lib/peal/peal.db\"";
        /// How large it may become, in bytes.
        max_bytes "store.max_bytes": u64 = GIB as u64, Number(1 << 20, TIB), "67108864";
        /// How many bytes the entries in the records of all jobs may take: the rest is for messages and the state of modules.
        max_record_bytes "store.max_record_bytes": Option<u64> = None,
            Unset("half of store.max_bytes", Number(1 << 16, TIB)), "33554432";
        /// How many bytes the entries in the records of one user's jobs may take. Those of jobs that have ended make room, the oldest first.
        max_user_record_bytes "store.max_user_record_bytes": Option<u64> = None,
            Unset("half of store.max_record_bytes", Number(1 << 16, TIB)), "16777216";
        /// How many bytes the entries in the record of one job may take.
        max_job_record_bytes "store.max_job_record_bytes": Option<u64> = None,
            Unset("a quarter of store.max_user_record_bytes", Number(1 << 14, TIB)), "1048576";
        /// How many entries the record of one job may have.
        max_job_entries "store.max_job_entries": u32 = 100_000, Number(1, 100 * MILLION), "1000";
    }

    /// The audit trail: every call of every module, every decision and every change among the modules. `peal audit` reads it.
    "audit" audit: Audit {
        /// The SQLite database for it.
        path "audit.path": Option<PathBuf> = None, Unset("nothing is recorded", FilePath), "\"/var/lib/peal/audit.db\"";
        /// What to do where a decision cannot be recorded, as when the disk is full: deny what policies grant, or go on without a
        /// record. Has to be said where there is a trail.
        on_failure "audit.on_failure": Option<AuditFailure> = None, Unset("has to be said with audit.path", KeywordKind), "\"deny\"";
        /// The key that it is sealed with, made where there is none. Its public key is written beside it.
        key "audit.key": Option<PathBuf> = None, Unset("the database's name with .key behind it", FilePath), "\"/etc/peal/audit.key\"";
        /// What a record survives once it is written: the end of the process, or of the machine as well, for which each group
        /// waits for the disk.
        durability "audit.durability": Durability = Durability::Process, KeywordKind, "\"machine\"";
        /// How large the database may become, in bytes. The oldest records make room.
        max_bytes "audit.max_bytes": u64 = GIB as u64, Number(1 << 20, TIB), "10737418240";
        /// For how many days records are kept, if there is room for so many.
        keep_days "audit.keep_days": Option<u32> = None, Unset("as long as there is room", Number(1, 36_500)), "90";
        /// Of a hundred bytes of audit.max_bytes, those that decisions have for themselves: calls and refusals go first. Beyond them the oldest
        /// decisions go before calls and refusals, if they are old enough.
        decision_percent "audit.decision_percent": u32 = 50, Number(1, 90), "75";
        /// For how many days decisions stay, whatever room others want. Where nothing else can go, what policies grant is denied, as on
        /// a full disk.
        decision_days "audit.decision_days": Option<u32> = None, Unset("7, or audit.keep_days if that is less", Number(1, 36_500)), "30";
        /// Of a hundred bytes of audit.max_bytes, those that the decisions about one user may take where the trail is full of records
        /// that stay. What else is granted to that user is denied then; root and the user of the server are not.
        user_decision_percent "audit.user_decision_percent": u32 = 25, Number(1, 90), "10";
        /// For how long refusals of one user for one cause are counted before they are recorded together. The first one is recorded at once.
        refusal_interval "audit.refusal_interval_ms": Duration = Duration::from_secs(1), Millis(100, 3_600_000), "10000";
        /// How many records may wait to be written. Beyond them calls of handlers and channels are left out and counted; calls of
        /// policies wait.
        queue "audit.queue": usize = 8192, Number(16, MILLION), "1024";
        /// Of how many instances of a handler one is recorded, from its first call to its last: 1 is all of them. What policies and
        /// channels do is always recorded.
        sample_handlers "audit.sample_handlers": NonZeroU32 = NonZeroU32::MIN, Number(1, 1000), "10";
        /// The keys of infos, and of modules' configurations, whose values are not kept: a digest stands for each.
        secrets "audit.secrets": Vec<String> = audit_secrets(), List(InfoKey), "[\"pmix.cred\", \"password\"]";
        /// A file that checkpoints are added to: best on another machine's disk.
        checkpoint_file "audit.checkpoint_file": Option<PathBuf> = None, Unset("there is none", FilePath), "\"/mnt/log/peal.checkpoints\"";
        /// Whether they go to the system's log as well.
        checkpoint_syslog "audit.checkpoint_syslog": CheckpointSyslog = CheckpointSyslog::No, KeywordKind, "\"yes\"";
        /// After how many records there is a checkpoint.
        checkpoint_records "audit.checkpoint_records": u64 = 1000, Number(1, 1000 * MILLION), "100";
        /// After how long there is one, if there are records.
        checkpoint_time "audit.checkpoint_ms": Duration = Duration::from_secs(10), Millis(10, DAY), "60000";
    }

    /// The wall that the kernel keeps around `peal serve`: what the server can still reach if somebody takes it over. It changes only
    /// what its configuration names at the start, reads nothing that is shut, runs nothing, connects nowhere, and makes no system
    /// call that a server has no use for.
    "wall" wall: Wall {
        /// Whether there is one: as far as the kernel can, or else no server.
        mode "wall.mode": WallMode = WallMode::Try, KeywordKind, "\"require\"";
        /// The directories in which it reads nothing but what its configuration names.
        shut "wall.shut": Vec<PathBuf> = ["/etc", "/home", "/root"].map(PathBuf::from).into(), List(FilePath), "[\"/etc\", \"/home\", \"/srv\"]";
        /// Files and directories in those that it may read all the same, as where components will lie that are not named yet.
        read "wall.read": Vec<PathBuf> = Vec::new(), List(FilePath), "[\"/opt/site/modules\"]";
        /// The directories below which it removes what procs have registered for when they have ended; whoever took it over could
        /// remove more there.
        clean "wall.clean": Vec<PathBuf> = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from).into(), List(FilePath), "[\"/scratch\"]";
        /// Those that it may change as well, as where modules that are not named yet will have directories.
        write "wall.write": Vec<PathBuf> = Vec::new(), List(FilePath), "[\"/srv/modules\"]";
    }

    /// The engine that runs components.
    "sandbox" sandbox: Sandbox {
        /// Where compiled code is kept; only its owner may be able to write there.
        cache_dir "sandbox.cache_dir": Option<PathBuf> = None, Unset("~/.cache/peal/compiled", FilePath), "\"/var/cache/peal\"";
        /// The threads on which the chains of jobs run.
        threads "sandbox.threads": Option<NonZeroUsize> = None, Unset("one per core", Number(1, 1024)), "2";
        /// The most instances of all modules together; users' and jobs' have three quarters of it at most. One of a large component, as
        /// in Python or JavaScript, counts as several: one for each 8 core instances, 2 memories or 4 tables.
        max_instances "sandbox.max_instances": u32 = 1000, Number(1, 100_000), "64";
        /// For which modules fuel is counted: for those that have a limit of it, or for all, which slows all of them down.
        fuel "sandbox.fuel": FuelCount = FuelCount::WhereLimited, KeywordKind, "\"always\"";
    }

    /// What the modules of one user or one job may have together: those of the configuration that have such a scope, and those
    /// that the job brings.
    "tenant" tenant: Tenant {
        /// How many modules.
        modules "tenant.modules": usize = 16, Number(0, 1000), "4";
        /// How large a component that a user installs may be, in bytes.
        max_component "tenant.max_component_bytes": u64 = 32 * MIB as u64, Number(KIB as u64, 64 * MIB as u64), "4194304";
        /// Bytes of all memories and tables of all their instances.
        memory "tenant.memory": usize = GIB, Number(64 * KIB as u64, TIB), "268435456";
        /// How many instances, warm and running.
        instances "tenant.instances": usize = 64, Number(1, 100_000), "16";
        /// How much they may keep as state, in bytes.
        state_quota "tenant.state_quota": u64 = 16 * MIB as u64, Number(0, TIB), "1048576";
        /// The capabilities that they may be granted. What a job brings is granted all of these but state, sinks and files.
        grants "tenant.grants": Vec<String> = tenant_grants(), List(CapabilityKind), "[\"logging\"]";
    }

    /// What a module may use that a job brings.
    "brought" brought: Brought {
        /// Bytes of all memories and tables of one instance.
        memory "brought.memory": usize = 64 * MIB, Number(64 * KIB as u64, 1 << 34), "16777216";
        /// How long one call may run, host calls not counted.
        call_time "brought.call_time_ms": Duration = Duration::from_millis(100), Millis(1, 600_000), "20";
        /// How long one call may spend in host calls.
        host_time "brought.host_time_ms": Duration = Duration::from_secs(1), Millis(1, 600_000), "500";
        /// Fuel of one call.
        fuel "brought.fuel": Option<u64> = None, Unset("not limited", Number(1, 1 << 62)), "100000000";
        /// Bytes that one call may push.
        output "brought.output": usize = MIB, Number(0, 1 << 30), "65536";
        /// Events that one call may raise.
        notifications "brought.notifications": usize = 16, Number(0, 10_000), "4";
        /// Host calls of one call.
        host_calls "brought.host_calls": u32 = 5000, Number(1, 1000 * MILLION), "500";
        /// Lines that it may write to the trace in a second; at once twice as many.
        log_lines "brought.log_lines": u32 = 50, Number(1, MILLION), "5";
    }
}
