//! Attributes that the embedded host environment honours, by call.
use super::{pulls, spawn};
use peal_core::supported::Supported;
use peal_model::key;

/// Attributes honoured in addition to those of the server, where this host environment starts jobs.
/// The first four calls are not served where it only serves jobs of other launchers.
pub(super) const LAUNCHER: &[Supported] = &[
    ("PMIx_IOF_deregister", &[]),
    ("PMIx_IOF_pull", &pulls::SERVED),
    ("PMIx_IOF_push", &[key::PMIX_IOF_COMPLETE]),
    ("PMIx_Spawn", &spawn::SERVED),
    (
        "PMIx_Job_control",
        &[
            key::PMIX_CLEANUP_EMPTY,
            key::PMIX_CLEANUP_IGNORE,
            key::PMIX_CLEANUP_LEAVE_TOPDIR,
            key::PMIX_CLEANUP_RECURSIVE,
            key::PMIX_JOB_CTRL_KILL,
            key::PMIX_JOB_CTRL_PAUSE,
            key::PMIX_JOB_CTRL_RESTART,
            key::PMIX_JOB_CTRL_RESUME,
            key::PMIX_JOB_CTRL_SIGNAL,
            key::PMIX_JOB_CTRL_TERMINATE,
            key::PMIX_REGISTER_CLEANUP,
            key::PMIX_REGISTER_CLEANUP_DIR,
        ],
    ),
    ("PMIx_Log", &[key::PMIX_LOG_STDERR, key::PMIX_LOG_STDOUT]),
    (
        "PMIx_Lookup",
        &[
            key::PMIX_EVENT_CUSTOM_RANGE,
            key::PMIX_RANGE,
            key::PMIX_TIMEOUT,
            key::PMIX_WAIT,
        ],
    ),
    (
        "PMIx_Publish",
        &[
            key::PMIX_EVENT_CUSTOM_RANGE,
            key::PMIX_PERSISTENCE,
            key::PMIX_RANGE,
        ],
    ),
    (
        "PMIx_Query_info",
        &[
            key::PMIX_NSPACE,
            key::PMIX_PROCID,
            key::PMIX_QUERY_JOB_STATUS,
            key::PMIX_QUERY_LOCAL_ONLY,
            key::PMIX_QUERY_LOCAL_PROC_TABLE,
            key::PMIX_QUERY_LOG_CHANNELS,
            key::PMIX_QUERY_MEMORY_USAGE,
            key::PMIX_QUERY_NAMESPACES,
            key::PMIX_QUERY_NAMESPACE_INFO,
            key::PMIX_QUERY_NODE_RESOURCE_USAGE,
            key::PMIX_QUERY_PROC_RESOURCE_USAGE,
            key::PMIX_QUERY_PROC_TABLE,
            key::PMIX_QUERY_REPORT_AVG,
            key::PMIX_QUERY_REPORT_MINMAX,
            key::PMIX_RANK,
        ],
    ),
    ("PMIx_Unpublish", &[]),
];

/// Attributes honoured where other launchers start the jobs.
pub(super) const SERVER: &[Supported] = LAUNCHER.split_at(4).1;
