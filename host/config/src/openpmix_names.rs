//! Correspondence of Peal's settings to those of OpenPMIx.

/// Name of a setting that sites know from OpenPMIx or the RFCs.
#[derive(Debug)]
pub struct OpenPmixName {
    /// Name of an MCA parameter, an attribute, or an environment variable.
    pub c: &'static str,
    /// Key of Peal's setting, if there is one.
    pub setting: Option<&'static str>,
    /// Difference between the two, or the reason why there is none.
    pub note: &'static str,
}

const fn same(c: &'static str, setting: &'static str, note: &'static str) -> OpenPmixName {
    OpenPmixName {
        c,
        setting: Some(setting),
        note,
    }
}

const fn none(c: &'static str, note: &'static str) -> OpenPmixName {
    OpenPmixName {
        c,
        setting: None,
        note,
    }
}

/// All such names. Those of MCA parameters are listed by `pmix_info --all` of OpenPMIx 4.2, here
/// without `PMIX_MCA_`.
pub const C_NAMES: &[OpenPmixName] = &[
    same(
        "PMIx_server_cache_size",
        "events.ring_size",
        "RFC 0002's name; no release of OpenPMIx has it",
    ),
    same("pmix_max_events", "events.ring_size", "512 in both"),
    none(
        "pmix_event_eviction_time",
        "events stay in the ring regardless of age, until it is full",
    ),
    none(
        "pmix_event_caching_window",
        "events are reported immediately",
    ),
    same(
        "ptl_base_max_msg_size",
        "server.max_message_bytes",
        "in bytes; the C parameter is in megabytes",
    ),
    same(
        "ptl_base_handshake_wait_time",
        "server.handshake_timeout_ms",
        "a limit of the server; in OpenPMIx of the client",
    ),
    none("ptl_base_connection_wait_time", "a setting of clients"),
    none("ptl_base_max_retries", "a setting of clients"),
    none("ptl_base_handshake_max_retries", "a setting of clients"),
    none(
        "ptl_base_if_include",
        "Peal listens on the loopback address only",
    ),
    none(
        "ptl_base_if_exclude",
        "Peal listens on the loopback address only",
    ),
    none("ptl_base_ipv4_port", "the system chooses the port"),
    none("ptl_base_ipv6_port", "clients are served by IPv4"),
    none("ptl_base_disable_ipv4_family", "clients are served by IPv4"),
    none("ptl_base_disable_ipv6_family", "clients are served by IPv4"),
    none(
        "ptl_base_report_uri",
        "see the rendezvous files in `tools.session_dir`",
    ),
    same("plog_base_order", "log.order", "the same text"),
    same(
        "plog_base_log_once",
        "log.once",
        "the RFC's name; no release of OpenPMIx has it",
    ),
    none(
        "plog_syslog_level",
        "a request gives `PMIX_LOG_SYSLOG_PRI`; otherwise it is informational",
    ),
    none(
        "plog_syslog_facility",
        "see the setting `facility` of the channel `syslog`",
    ),
    none(
        "plog_smtp_server",
        "a mail sink (`sink.mail.server`) and the channel `email`",
    ),
    none(
        "psec",
        "not configurable; `identity.check` selects how strictly identities are checked",
    ),
    none("gds", "not configurable; data are sent over the connection"),
    none(
        "pmix_server_fence_localonly_opt",
        "a fence of procs of one node never leaves it",
    ),
    none("pmix_max_iof_cache", "PLACEHOLD"),
    same("PMIX_SERVER_GATEWAY", "server.gateway", ""),
    same("PMIX_SERVER_ENABLE_MONITORING", "server.monitoring", ""),
    same(
        "PMIX_SERVER_TOOL_SUPPORT",
        "tools.enable",
        "true by default; false in OpenPMIx",
    ),
    same("PMIX_SERVER_SYSTEM_SUPPORT", "tools.system_server", ""),
    none(
        "PMIX_SERVER_SESSION_SUPPORT",
        "follows from the command: `peal run` serves its own job",
    ),
    same(
        "PMIX_SERVER_TMPDIR",
        "tools.session_dir",
        "without the setting, the environment variable of this name is used",
    ),
    same(
        "PMIX_SYSTEM_TMPDIR",
        "tools.system_dir",
        "without the setting, the environment variable of this name is used",
    ),
    none(
        "PMIX_SERVER_REMOTE_CONNECTIONS",
        "tools on other nodes are not served",
    ),
    none(
        "PMIX_SERVER_ALLOW_FOREIGN_TOOLS",
        "`policy.connection.default` and connection policies decide",
    ),
    none(
        "PMIX_SERVER_NSPACE",
        "`peal` chooses the name of its server",
    ),
    none("PMIX_SERVER_RANK", "`peal` chooses the name of its server"),
    none("PMIX_SERVER_SCHEDULER", "Peal is no scheduler"),
    none("PMIX_SERVER_SYS_CONTROLLER", "Peal is no system controller"),
    none("PMIX_SERVER_SHARE_TOPOLOGY", "topologies are not served"),
];
