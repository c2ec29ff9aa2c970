//! Table of settings of modules: identity, registration, grants and limits.
use crate::{
    artifact::{ComponentSource, ComponentSourceKind},
    file_kinds::FilesGrant,
    kinds::{KeywordKind, Millis, Number, Required, Switch, Unset},
    module_kinds::{
        CapabilityKind, Channel, List, ModuleNameKind, ModuleScope, OwnSettings, Placement,
        ProcName, Sha256, StatusCodeKind, VersionKind,
    },
    sink_kinds::NameOfSink,
    table::settings,
    values::{ConfiguredScope, DirectoryGrant, Isolation, Mode, OnFailure, SinkName},
};
use peal_core::class::ClassFilter;
use peal_core::registration::{ChainPlacement, HandlerLocation};
use peal_model::{Info, Key, Proc, Status};
use semver::Version;
use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// A day, in milliseconds.
const DAY: u64 = 86_400_000;
const MILLION: u64 = 1_000_000;
const TIB: u64 = 1 << 40;

settings! {
    /// A component that the site deploys.
    "module" Module {
        /// Unique name of the module. Its results appear under this name.
        name "module.name": String = String::new(), Required(ModuleNameKind), "\"same-user\"";
        /// File of the component, or artefact in a registry with the digest of its manifest, as
        /// `peal module push` prints it. The server takes an artefact from registry.store_dir, and
        /// fetches it once if it is not there.
        path "module.path": ComponentSource = ComponentSource::default(), Required(ComponentSourceKind), "\"same-user.wasm\"";
        /// Required SHA-256 digest of the file.
        sha256 "module.sha256": Option<[u8; 32]> = None, Unset("any", Sha256),
            "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"";
        /// Oldest version of the module that runs, in a signature that a trusted key made. Without it,
        /// no version runs that is older than the one that ran last.
        min_version "module.min_version": Option<Version> = None, Unset("the version that ran last", VersionKind), "\"1.2.0\"";
        /// Owner of the module: the site, a user or the jobs of a namespace. A handler of a user or
        /// job receives events that concern their procs, in a separate chain after the site's.
        scope "module.scope": ConfiguredScope = ConfiguredScope::Site, ModuleScope, "\"namespace:solver\"";
        /// Mode of the module: active, or shadow, in which its outcome is ignored. `peal module
        /// diff` shows differing outcomes.
        mode "module.mode": Mode = Mode::Active, KeywordKind, "\"shadow\"";
        /// Servers at which the handler is called for an event that several servers get: the one at
        /// which it was raised, or each. The events that a handler raises in response to an event of
        /// another server stay at its own.
        location "module.where": HandlerLocation = HandlerLocation::Origin, KeywordKind, "\"each-node\"";
        /// Codes of the events that the handler receives. An empty array means all.
        codes "module.codes": Vec<Status> = Vec::new(), List(StatusCodeKind), "[\"PMIX_ERR_PROC_ABORTED_BY_SIG\", -3001]";
        /// Classes of the events that the handler receives: job-specific events, environment
        /// events, or both.
        event_classes "module.event_classes": ClassFilter = ClassFilter::JobSpecific, KeywordKind, "\"both\"";
        /// Affected procs that select events: the handler receives only events that affect one of
        /// them or name no affected proc. An empty array selects all events.
        affected "module.affected": Vec<Proc> = Vec::new(), List(ProcName), "[\"solver:0\", \"viewer:*\"]";
        /// Placement of the module in its chain.
        placement "module.placement": ChainPlacement = ChainPlacement::Append, Placement, "{ after = \"other\" }";
        /// Limits the handler to one call.
        oneshot "module.oneshot": bool = false, Switch, "true";
        /// Outcome that replaces a failed call of a policy.
        on_failure "module.on_failure": OnFailure = OnFailure::Deny, KeywordKind, "\"pass\"";
        /// Log channels that the module implements.
        channels "module.channels": Vec<Key> = Vec::new(), List(Channel), "[\"stdout\", \"site.log.board\"]";
        /// Capabilities that the module may import.
        grants "module.grants": Vec<String> = Vec::new(), List(CapabilityKind), "[\"logging\"]";
        /// Sinks to which the module may write with the capability `sink`: the output of the job
        /// that logs, its record in the store, and sinks opened by a [[sink]].
        sinks "module.sinks": Vec<SinkName> = Vec::new(), List(NameOfSink), "[\"stderr\"]";
        /// Directories that the module may use with the capability `files`: name in the module,
        /// path, access mode, and for write access the maximum size of all files in bytes. Each
        /// file counts 4096 bytes at least.
        files "module.files": Vec<DirectoryGrant> = Vec::new(), List(FilesGrant),
            "[{ name = \"spool\", path = \"/var/spool/peal\", mode = \"read-write\", max_bytes = 1048576 }]";
        /// Calls that share the memory of an instance: all calls, the calls caused by procs of one
        /// job, or none.
        isolation "module.isolation": Option<Isolation> = None,
            Unset("\"module\" for modules of the site, \"namespace\" for others", KeywordKind), "\"call\"";
        /// Maximum size of the module's state (capability `state`), in bytes.
        max_state_bytes "module.max_state_bytes": u64 = MIB as u64, Number(0, TIB), "65536";
        /// Settings of the module, passed to its `init`.
        config "module.config": Vec<Info> = Vec::new(), OwnSettings, "{ greeting = \"hello\", times = 3 }";
    }

    /// Limits of one module.
    "module.limits" limits: Limits {
        /// Memories and tables of one instance, in bytes.
        memory_bytes "module.limits.memory_bytes": usize = 64 * MIB, Number(64 * KIB as u64, 1 << 34), "16777216";
        /// Memories and tables of all instances of the module, in bytes.
        total_memory_bytes "module.limits.total_memory_bytes": usize = 512 * MIB, Number(64 * KIB as u64, TIB), "67108864";
        /// Processor time of one call outside of host calls, in milliseconds. The start and the
        /// `init` of an instance each have the same limit.
        call_time "module.limits.call_time_ms": Duration = Duration::from_millis(100), Millis(1, 600_000), "20";
        /// Time that one call spends in host calls, in milliseconds.
        host_call_time "module.limits.host_call_time_ms": Duration = Duration::from_secs(1), Millis(1, 600_000), "500";
        /// Fuel of one call: about one unit for each instruction. Counting makes the module
        /// slightly slower.
        fuel "module.limits.fuel": Option<u64> = None, Unset("not limited", Number(1, 1 << 62)), "100000000";
        /// Data that one call pushes, in bytes.
        output_bytes "module.limits.output_bytes": usize = MIB, Number(0, 1 << 30), "65536";
        /// Events that one call raises.
        raised_events "module.limits.raised_events": usize = 16, Number(0, 10_000), "4";
        /// Host calls of one call.
        host_calls "module.limits.host_calls": u32 = 5000, Number(1, 1000 * MILLION), "500";
        /// Calls after which an instance is replaced.
        calls_per_instance "module.limits.calls_per_instance": u64 = 10_000, Number(1, MILLION * MILLION), "100";
        /// Idle instances that are kept for later calls.
        idle_instances "module.limits.idle_instances": usize = 8, Number(0, 1000), "2";
        /// Lines that the module writes to the trace per second, reports of its failures included.
        /// A burst has twice as many.
        log_lines_per_second "module.limits.log_lines_per_second": u32 = 50, Number(1, MILLION), "5";
        /// Failures within failure_window_ms after which the module is quarantined until it is
        /// reset. 0 turns quarantine off.
        failures "module.limits.failures": u32 = 10, Number(0, 100_000), "3";
        /// Time window in which failures are counted, in milliseconds.
        failure_window "module.limits.failure_window_ms": Duration = Duration::from_secs(60), Millis(1, DAY), "10000";
    }
}
