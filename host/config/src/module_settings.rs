//! The table of settings of modules: what each is, what it may reach, and its limits.
use crate::{
    file_kinds::FilesGrant,
    kinds::{FilePath, KeywordKind, Millis, Number, Required, Switch, Unset},
    module_kinds::{
        CapabilityKind, Channel, List, ModuleNameKind, ModuleScope, OwnSettings, Placement,
        ProcName, Sha256, StatusCodeKind,
    },
    sink_kinds::NameOfSink,
    table::settings,
    values::{ConfiguredScope, DirectoryGrant, EventLevels, Isolation, Mode, OnFailure, SinkName},
};
use peal_core::registration::ChainPlacement;
use peal_model::{Info, Key, Proc, Status};
use std::{path::PathBuf, time::Duration};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// A day, in milliseconds.
const DAY: u64 = 86_400_000;
const MILLION: u64 = 1_000_000;
const TIB: u64 = 1 << 40;

settings! {
    /// A module: a component that the site deploys.
    "module" Module {
        /// What it is called; its results appear under this name. No two modules have the same.
        name "module.name": String = String::new(), Required(ModuleNameKind), "\"same-user\"";
        /// Its file.
        path "module.path": PathBuf = PathBuf::new(), Required(FilePath), "\"same-user.wasm\"";
        /// The digest that the file must have.
        sha256 "module.sha256": Option<[u8; 32]> = None, Unset("any", Sha256),
            "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"";
        /// Whose it is: a handler of a user or a job sees what concerns their procs, in a chain of its own behind the site's.
        scope "module.scope": ConfiguredScope = ConfiguredScope::Site, ModuleScope, "\"namespace:solver\"";
        /// Whether it takes part or, as a shadow, is only asked what it would do: `peal module diff` shows where that differs.
        mode "module.mode": Mode = Mode::Active, KeywordKind, "\"shadow\"";
        /// The events that a handler is for; an empty array means all.
        codes "module.codes": Vec<Status> = Vec::new(), List(StatusCodeKind), "[\"PMIX_ERR_PROC_ABORTED_BY_SIG\", -3001]";
        /// The classes of events that a handler is for: those about jobs, those about the environment, or both.
        levels "module.levels": EventLevels = EventLevels::Job, KeywordKind, "\"both\"";
        /// If any procs are named, a handler is called only for events that affect one of them, or that do not say whom they affect.
        affected "module.affected": Vec<Proc> = Vec::new(), List(ProcName), "[\"solver:0\", \"viewer:*\"]";
        /// Where it stands in its chain.
        place "module.place": ChainPlacement = ChainPlacement::Append, Placement, "{ after = \"other\" }";
        /// Whether a handler is called only once.
        oneshot "module.oneshot": bool = false, Switch, "true";
        /// What a policy that fails counts as.
        on_failure "module.on_failure": OnFailure = OnFailure::Deny, KeywordKind, "\"pass\"";
        /// The log channels that it is.
        channels "module.channels": Vec<Key> = Vec::new(), List(Channel), "[\"stdout\", \"site.log.board\"]";
        /// The capabilities that it may import.
        grants "module.grants": Vec<String> = Vec::new(), List(CapabilityKind), "[\"logging\"]";
        /// Where it may write, with the capability `sink`: to the output of the job that logs, to its record in the store, and to what
        /// a [[sink]] opens.
        sinks "module.sinks": Vec<SinkName> = Vec::new(), List(NameOfSink), "[\"stderr\"]";
        /// The directories that it may use, with the capability `files`: what it calls each, where that is, whether it may
        /// write there, and if so how many bytes all files there may take, of which each counts for 4096 at least.
        files "module.files": Vec<DirectoryGrant> = Vec::new(), List(FilesGrant),
            "[{ name = \"spool\", path = \"/var/spool/peal\", mode = \"read-write\", max_bytes = 1048576 }]";
        /// Who shares the memory of an instance: all calls, those that procs of the same job have caused, or nobody.
        isolation "module.isolation": Option<Isolation> = None,
            Unset("\"module\" for the site's, \"namespace\" for those of users and jobs", KeywordKind), "\"call\"";
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
