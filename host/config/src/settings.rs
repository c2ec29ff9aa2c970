//! The table of settings: every key, its type, default, bounds, meaning, and a value other than the default.
//!
//! Reading, `peal config show`, the environment's names, the example file and the tables for readers are made from it.
use crate::{
    file_kinds::FilesGrant,
    kinds::{ChannelOrder, FilePath, GroupName, Loopback, Millis, Number, Required, Switch, TraceFilter, Unset, Words},
    module_kinds::{
        Capability, Channel, Code, List, ModuleName, ModuleScope, OwnSettings, Placement, ProcName, Sha256,
    },
    table::settings,
    values::{
        EventLevels, Files, FuelCount, IdentityCheck, Isolation, Mode, OnAbort, OnFailure, OrderedChannel,
        PolicyDefault, Scope, SinkName,
    },
};
use peal_core::registration::Place;
use peal_model::{Hook, Info, Key, Proc, Status};
use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

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
        on_abort "run.on_abort": OnAbort = OnAbort::Terminate, Words, "\"continue\"";
        /// How long these handlers have to wish something.
        action_timeout "run.action_timeout_ms": Duration = Duration::from_secs(5), Millis(0, DAY), "1000";
        /// How long procs that are to end have before they are killed.
        grace "run.grace_ms": Duration = Duration::from_secs(3), Millis(0, DAY), "500";
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
        /// How much memory the keys and values that one proc has put may take, in bytes.
        max_put_bytes "server.max_put_bytes": usize = 256 * MIB, Number(0, TIB), "1048576";
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
        /// How many connections there may be at once.
        max_connections "server.max_connections": usize = 4096, Number(1, MILLION), "128";
        /// How long a message may be, in bytes.
        max_message "server.max_message": usize = 64 * MIB, Number(4096, 1 << 30), "1048576";
        /// How much memory one message may take when it is unpacked, in bytes.
        max_message_memory "server.max_message_memory": usize = 256 * MIB, Number(64 * 1024, TIB), "4194304";
        /// How many requests of one client may await their answers.
        max_open_requests "server.max_open_requests": usize = 4096, Number(1, MILLION), "256";
        /// How many requests of all clients may wait for the server.
        request_queue "server.request_queue": usize = 64, Number(1, MILLION), "1024";
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
        /// Bytes of disk for kept events that there is no room for in memory; in files without names, gone with the server.
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
        check "identity.check": IdentityCheck = IdentityCheck::Process, Words, "\"user\"";
    }

    /// What holds where all policies of a hook pass, or where there are none.
    "policy" policy: Policy {
        /// Who may connect.
        connection "policy.connection.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Which events may be raised.
        event "policy.event.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"grant\"";
        /// Who may control which procs.
        job_control "policy.job-control.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may have which procs monitored.
        monitor "policy.monitor.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may write to log channels.
        log "policy.log.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may form groups with whom.
        group "policy.group.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may start procs.
        spawn "policy.spawn.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may publish data.
        publish "policy.publish.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may look up published data.
        lookup "policy.lookup.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// Who may ask about others' jobs.
        query "policy.query.default": PolicyDefault = PolicyDefault::BuiltIn, Words, "\"deny\"";
        /// How many requests may wait for policies, those of one user at most half of them; more are denied.
        max_pending "policy.max_pending": usize = 1024, Number(1, MILLION), "64";
    }

    /// Requests to log (`PMIx_Log`).
    "log" log: Log {
        /// The order in which channels are tried where a request names none, by their names without `PMIX_LOG_`; `:req`
        /// marks those that must succeed.
        order "log.order": Vec<OrderedChannel> = Vec::new(), ChannelOrder, "\"local_syslog:req,global_syslog,email\"";
        /// Whether to stop at the first channel that succeeds, where a request does not say.
        once "log.once": bool = false, Switch, "true";
    }

    /// Connections of tools.
    "tools" tools: Tools {
        /// Whether tools may connect.
        enable "tools.enable": bool = true, Switch, "false";
        /// How many tools may be connected.
        max "tools.max": usize = 256, Number(1, MILLION), "16";
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
        group "admin.group": Option<String> = None, Unset("none", GroupName), "\"wheel\"";
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
        /// How long these files must have been left alone before they are read.
        settle "deploy.settle_ms": Duration = Duration::from_millis(250), Millis(0, 60_000), "2000";
    }

    /// What outlives the process.
    "store" store: Store {
        /// The SQLite database for the record of jobs and the state of modules.
        path "store.path": Option<PathBuf> = None, Unset("nothing is kept", FilePath), "\"/var/lib/peal/peal.db\"";
        /// How large it may become, in bytes.
        max_bytes "store.max_bytes": u64 = GIB as u64, Number(1 << 20, TIB), "67108864";
    }

    /// The engine that runs components.
    "sandbox" sandbox: Sandbox {
        /// Where compiled code is kept; only its owner may be able to write there.
        cache_dir "sandbox.cache_dir": Option<PathBuf> = None, Unset("~/.cache/peal/compiled", FilePath), "\"/var/cache/peal\"";
        /// The threads on which the chains of jobs run.
        threads "sandbox.threads": Option<NonZeroUsize> = None, Unset("one per core", Number(1, 1024)), "2";
        /// The most instances of all modules together.
        max_instances "sandbox.max_instances": u32 = 1000, Number(1, 100_000), "64";
        /// For which modules fuel is counted: for those that have a limit of it, or for all, which slows all of them down.
        fuel "sandbox.fuel": FuelCount = FuelCount::WhereLimited, Words, "\"always\"";
    }

    /// What the modules of one user or one job may have together: those of the configuration that have such a scope, and those
    /// that the job brings.
    "tenant" tenant: Tenant {
        /// How many modules.
        modules "tenant.modules": usize = 16, Number(0, 1000), "4";
        /// Bytes of all memories and tables of all their instances.
        memory "tenant.memory": usize = GIB, Number(64 * KIB as u64, TIB), "268435456";
        /// How many instances, warm and running.
        instances "tenant.instances": usize = 64, Number(1, 100_000), "16";
        /// How much they may keep as state, in bytes.
        state_quota "tenant.state_quota": u64 = 16 * MIB as u64, Number(0, TIB), "1048576";
        /// The capabilities that they may be granted. What a job brings is granted all of these but state, sinks and files.
        grants "tenant.grants": Vec<String> = tenant_grants(), List(Capability), "[\"logging\"]";
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

/// What tells a tenant's module nothing that is not its own, and lets it write nowhere but to what is kept for it.
fn tenant_grants() -> Vec<String> {
    ["logging", "clock", "notify", "registration", "state", "random", "wasi"].map(str::to_owned).to_vec()
}

settings! {
    /// A module: a component that the site deploys.
    "module" Module {
        /// What it is called; its results appear under this name. No two modules have the same.
        name "module.name": String = String::new(), Required(ModuleName), "\"same-user\"";
        /// Its file.
        path "module.path": PathBuf = PathBuf::new(), Required(FilePath), "\"same-user.wasm\"";
        /// The digest that the file must have.
        sha256 "module.sha256": Option<[u8; 32]> = None, Unset("any", Sha256),
            "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"";
        /// Whose it is: a handler of a user or a job sees what concerns their procs, in a chain of its own behind the site's.
        scope "module.scope": Scope = Scope::Site, ModuleScope, "\"namespace:solver\"";
        /// Whether it takes part or, as a shadow, is only asked what it would do: `peal module diff` shows where that differs.
        mode "module.mode": Mode = Mode::Active, Words, "\"shadow\"";
        /// The events that a handler is for; an empty array means all.
        codes "module.codes": Vec<Status> = Vec::new(), List(Code), "[\"PMIX_ERR_PROC_ABORTED_BY_SIG\", -3001]";
        /// The classes of events that a handler is for: those about jobs, those about the environment, or both.
        levels "module.levels": EventLevels = EventLevels::Job, Words, "\"both\"";
        /// If any procs are named, a handler is called only for events that affect one of them, or that do not say whom they affect.
        affected "module.affected": Vec<Proc> = Vec::new(), List(ProcName), "[\"solver:0\", \"viewer:*\"]";
        /// Where it stands in its chain.
        place "module.place": Place = Place::Append, Placement, "{ after = \"other\" }";
        /// Whether a handler is called only once.
        oneshot "module.oneshot": bool = false, Switch, "true";
        /// What a policy that fails counts as.
        on_failure "module.on_failure": OnFailure = OnFailure::Deny, Words, "\"pass\"";
        /// The log channels that it is.
        channels "module.channels": Vec<Key> = Vec::new(), List(Channel), "[\"stdout\", \"site.log.board\"]";
        /// The capabilities that it may import.
        grants "module.grants": Vec<String> = Vec::new(), List(Capability), "[\"logging\"]";
        /// Where it may write, with the capability `sink`.
        sinks "module.sinks": Vec<SinkName> = Vec::new(), List(Words), "[\"stderr\"]";
        /// The directories that it may use, with the capability `files`: what it calls each, where that is, whether it may
        /// write there, and if so how many bytes all files there may take.
        files "module.files": Vec<Files> = Vec::new(), List(FilesGrant),
            "[{ name = \"spool\", path = \"/var/spool/peal\", mode = \"read-write\", max_bytes = 1048576 }]";
        /// Who shares the memory of an instance: all calls, those that procs of the same job have caused, or nobody.
        isolation "module.isolation": Option<Isolation> = None,
            Unset("\"module\" for the site's, \"namespace\" for those of users and jobs", Words), "\"call\"";
        /// How much it may keep, with the capability `state`, in bytes.
        state_quota "module.state_quota": u64 = MIB as u64, Number(0, TIB), "65536";
        /// Settings of its own, handed to its `init`.
        config "module.config": Vec<Info> = Vec::new(), OwnSettings, "{ greeting = \"hello\", times = 3 }";
    }

    /// What a module may use.
    "module.limits" limits: Limits {
        /// Bytes of all memories and tables of one instance.
        memory "module.limits.memory": usize = 64 * MIB, Number(64 * KIB as u64, 1 << 34), "16777216";
        /// The same of all its instances together.
        memory_total "module.limits.memory_total": usize = 512 * MIB, Number(64 * KIB as u64, TIB), "67108864";
        /// How long one call may run, host calls not counted. The start and the init of an instance have as long each.
        call_time "module.limits.call_time_ms": Duration = Duration::from_millis(100), Millis(1, 600_000), "20";
        /// How long one call may spend in host calls.
        host_time "module.limits.host_time_ms": Duration = Duration::from_secs(1), Millis(1, 600_000), "500";
        /// Fuel of one call: about one for each instruction. A module with such a limit is somewhat slower.
        fuel "module.limits.fuel": Option<u64> = None, Unset("not limited", Number(1, 1 << 62)), "100000000";
        /// Bytes that one call may push.
        output "module.limits.output": usize = MIB, Number(0, 1 << 30), "65536";
        /// Events that one call may raise.
        notifications "module.limits.notifications": usize = 16, Number(0, 10_000), "4";
        /// Host calls of one call.
        host_calls "module.limits.host_calls": u32 = 5000, Number(1, 1000 * MILLION), "500";
        /// Calls after which an instance is replaced.
        max_calls "module.limits.max_calls": u64 = 10_000, Number(1, MILLION * MILLION), "100";
        /// Warm instances kept for the next calls.
        instances "module.limits.instances": usize = 8, Number(0, 1000), "2";
        /// Lines that it may write to the trace in a second, reports of its failures among them; at once twice as many.
        log_lines "module.limits.log_lines": u32 = 50, Number(1, MILLION), "5";
        /// Failures within the window after which it is not called any more, until it is reset; 0 for never.
        failures "module.limits.failures": u32 = 10, Number(0, 100_000), "3";
        /// The window.
        failure_window "module.limits.failure_window_ms": Duration = Duration::from_secs(60), Millis(1, DAY), "10000";
    }
}

impl Policy {
    /// What holds where all policies of a hook pass.
    pub fn default_of(&self, hook: Hook) -> PolicyDefault {
        match hook {
            Hook::Connection => self.connection,
            Hook::Event => self.event,
            Hook::JobControl => self.job_control,
            Hook::Monitor => self.monitor,
            Hook::Log => self.log,
            Hook::Group => self.group,
            Hook::Spawn => self.spawn,
            Hook::Publish => self.publish,
            Hook::Lookup => self.lookup,
            Hook::Query => self.query,
        }
    }
}
