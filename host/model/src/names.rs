//! Names and numbers of the PMIx Standard. Generated from `data/pmix-registry.toml` by `cargo xtask codegen`; do not
//! edit.

use crate::{DataType, KeyName, Rank, Status};

/// Attribute of the Standard.
#[derive(Debug)]
pub struct Attribute {
    /// Name, as in `PMIX_EVENT_HDLR_NAME`.
    pub name: &'static str,
    /// Key string on the wire.
    pub key: &'static str,
    /// C type of the value.
    pub c_type: &'static str,
}

/// All attributes, by name, and then the older names of some.
pub static ATTRIBUTES: &[Attribute] = &[
    Attribute { name: "PMIX_ABORT_NON_ZERO_TERM", key: "pmix.abnz", c_type: "bool" },
    Attribute { name: "PMIX_ACCESS_GRPIDS", key: "pmix.agids", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ACCESS_PERMISSIONS", key: "pmix.aperms", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ACCESS_USERIDS", key: "pmix.auids", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ADD_ENVAR", key: "pmix.envar.add", c_type: "pmix_envar_t*" },
    Attribute { name: "PMIX_ADD_HOST", key: "pmix.addhost", c_type: "char*" },
    Attribute { name: "PMIX_ADD_HOSTFILE", key: "pmix.addhostfile", c_type: "char*" },
    Attribute { name: "PMIX_AGGREGATE_HELP", key: "pmix.agg.help", c_type: "bool" },
    Attribute { name: "PMIX_ALLOCATED_NODELIST", key: "pmix.alist", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_BANDWIDTH", key: "pmix.alloc.bw", c_type: "float" },
    Attribute { name: "PMIX_ALLOC_BEGIN", key: "pmix.alloc.begin", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_CHILD_SEP", key: "pmix.alloc.sep", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_CPU_LIST", key: "pmix.alloc.cpulist", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_DEPENDENCY", key: "pmix.alloc.depend", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_EXCLUDE", key: "pmix.alloc.exclude", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_FABRIC", key: "pmix.alloc.net", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ALLOC_FABRIC_ENDPTS", key: "pmix.alloc.endpts", c_type: "size_t" },
    Attribute { name: "PMIX_ALLOC_FABRIC_ENDPTS_NODE", key: "pmix.alloc.endpts.nd", c_type: "size_t" },
    Attribute { name: "PMIX_ALLOC_FABRIC_ID", key: "pmix.alloc.netid", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_FABRIC_PLANE", key: "pmix.alloc.netplane", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_FABRIC_QOS", key: "pmix.alloc.netqos", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_FABRIC_SEC_KEY", key: "pmix.alloc.nsec", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_ALLOC_FABRIC_TYPE", key: "pmix.alloc.nettype", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_ID", key: "pmix.alloc.id", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_IMAGE", key: "pmix.alloc.image", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_INHERITANCE", key: "pmix.alloc.inhrt", c_type: "pmix_alloc_inheritance_t" },
    Attribute { name: "PMIX_ALLOC_LEND", key: "pmix.alloc.lend", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_MAU", key: "pmix.alloc.mau", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ALLOC_MEM_SIZE", key: "pmix.alloc.msize", c_type: "float" },
    Attribute { name: "PMIX_ALLOC_NETWORK", key: "pmix.alloc.net", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_ALLOC_NETWORK_ENDPTS", key: "pmix.alloc.endpts", c_type: "size_t" },
    Attribute { name: "PMIX_ALLOC_NETWORK_ENDPTS_NODE", key: "pmix.alloc.endpts.nd", c_type: "size_t" },
    Attribute { name: "PMIX_ALLOC_NETWORK_ID", key: "pmix.alloc.netid", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NETWORK_PLANE", key: "pmix.alloc.netplane", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NETWORK_QOS", key: "pmix.alloc.netqos", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NETWORK_SEC_KEY", key: "pmix.alloc.nsec", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_ALLOC_NETWORK_TYPE", key: "pmix.alloc.nettype", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NODE_LIST", key: "pmix.alloc.nlist", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NOSHELL", key: "pmix.alloc.noshell", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_NOT_WAITING", key: "pmix.alloc.notwait", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_NUM_BLOCKS", key: "pmix.alloc.nblks", c_type: "uint64_t" },
    Attribute { name: "PMIX_ALLOC_NUM_CPUS", key: "pmix.alloc.ncpus", c_type: "uint64_t" },
    Attribute { name: "PMIX_ALLOC_NUM_CPU_LIST", key: "pmix.alloc.ncpulist", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_NUM_NODES", key: "pmix.alloc.nnodes", c_type: "uint64_t" },
    Attribute { name: "PMIX_ALLOC_PREEMPTIBLE", key: "pmix.alloc.preempt", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_PROPERTY", key: "pmix.alloc.property", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_QUEUE", key: "pmix.alloc.queue", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_RELEASABLE", key: "pmix.alloc.releasable", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_REQ_ID", key: "pmix.alloc.reqid", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_RES_BLOCK", key: "pmix.alloc.blk", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_SHARE", key: "pmix.alloc.share", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_STATUS", key: "pmix.alloc.status", c_type: "pmix_status_t" },
    Attribute { name: "PMIX_ALLOC_TARGET", key: "pmix.alloc.tgt", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_TIME", key: "pmix.alloc.time", c_type: "char*" },
    Attribute { name: "PMIX_ALLOC_WAIT_ALL_NODES", key: "pmix.alloc.waitall", c_type: "bool" },
    Attribute { name: "PMIX_ALLOC_WARN_TIMEOUT", key: "pmix.alloc.wtmo", c_type: "uint32_t" },
    Attribute { name: "PMIX_ALLOW_CLIENT_CLONES", key: "pmix.allow.clones", c_type: "bool" },
    Attribute { name: "PMIX_ALL_CLONES_PARTICIPATE", key: "pmix.clone.part", c_type: "bool" },
    Attribute { name: "PMIX_ANL_MAP", key: "pmix.anlmap", c_type: "char*" },
    Attribute { name: "PMIX_APPEND_ENVAR", key: "pmix.envar.appnd", c_type: "pmix_envar_t*" },
    Attribute { name: "PMIX_APPLDR", key: "pmix.aldr", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_APPNUM", key: "pmix.appnum", c_type: "uint32_t" },
    Attribute { name: "PMIX_APP_ARGV", key: "pmix.app.argv", c_type: "char*" },
    Attribute { name: "PMIX_APP_INFO", key: "pmix.app.info", c_type: "bool" },
    Attribute { name: "PMIX_APP_INFO_ARRAY", key: "pmix.app.arr", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_APP_MAP_REGEX", key: "pmix.apmap.regex", c_type: "char*" },
    Attribute { name: "PMIX_APP_MAP_TYPE", key: "pmix.apmap.type", c_type: "char*" },
    Attribute { name: "PMIX_APP_RANK", key: "pmix.apprank", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_APP_SIZE", key: "pmix.app.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_ARCH", key: "pmix.arch", c_type: "uint32_t" },
    Attribute { name: "PMIX_ATTR_UNDEF", key: "pmix.undef", c_type: "" },
    Attribute { name: "PMIX_AVAIL_PHYS_MEMORY", key: "pmix.pmem", c_type: "uint64_t" },
    Attribute { name: "PMIX_BFROPS_MODULE", key: "pmix.bfrops.mod", c_type: "char*" },
    Attribute { name: "PMIX_BINDTO", key: "pmix.bindto", c_type: "char*" },
    Attribute { name: "PMIX_BIND_PROGRESS_THREAD", key: "pmix.bind.pt", c_type: "char*" },
    Attribute { name: "PMIX_BIND_REQUIRED", key: "pmix.bind.reqd", c_type: "bool" },
    Attribute { name: "PMIX_BREAKPOINT", key: "pmix.brkpnt", c_type: "char*" },
    Attribute { name: "PMIX_CLEANUP_EMPTY", key: "pmix.clnup.empty", c_type: "bool" },
    Attribute { name: "PMIX_CLEANUP_IGNORE", key: "pmix.clnup.ignore", c_type: "char*" },
    Attribute { name: "PMIX_CLEANUP_LEAVE_TOPDIR", key: "pmix.clnup.lvtop", c_type: "bool" },
    Attribute { name: "PMIX_CLEANUP_RECURSIVE", key: "pmix.clnup.recurse", c_type: "bool" },
    Attribute { name: "PMIX_CLIENT_ATTRIBUTES", key: "pmix.client.attrs", c_type: "char*" },
    Attribute { name: "PMIX_CLIENT_AVG_MEMORY", key: "pmix.cl.mem.avg", c_type: "float" },
    Attribute { name: "PMIX_CLIENT_FUNCTIONS", key: "pmix.client.fns", c_type: "char*" },
    Attribute { name: "PMIX_CLUSTER_ID", key: "pmix.clid", c_type: "char*" },
    Attribute { name: "PMIX_CMD_LINE", key: "pmix.cmd.line", c_type: "char*" },
    Attribute { name: "PMIX_COLLECTIVE_ALGO", key: "pmix.calgo", c_type: "char*" },
    Attribute { name: "PMIX_COLLECTIVE_ALGO_REQD", key: "pmix.calreqd", c_type: "bool" },
    Attribute { name: "PMIX_COLLECT_DATA", key: "pmix.collect", c_type: "bool" },
    Attribute { name: "PMIX_COLLECT_GENERATED_JOB_INFO", key: "pmix.collect.gen", c_type: "bool" },
    Attribute { name: "PMIX_COLOCATE_NPERNODE", key: "pmix.colnum.node", c_type: "uint16_t" },
    Attribute { name: "PMIX_COLOCATE_NPERPROC", key: "pmix.colnum.proc", c_type: "uint16_t" },
    Attribute { name: "PMIX_COLOCATE_PROCS", key: "pmix.colproc", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_CONNECTION_ORDER", key: "pmix.cnct.ord", c_type: "char*" },
    Attribute { name: "PMIX_CONNECT_MAX_RETRIES", key: "pmix.tool.mretries", c_type: "uint32_t" },
    Attribute { name: "PMIX_CONNECT_RETRY_DELAY", key: "pmix.tool.retry", c_type: "uint32_t" },
    Attribute { name: "PMIX_CONNECT_SYSTEM_FIRST", key: "pmix.cnct.sys.first", c_type: "bool" },
    Attribute { name: "PMIX_CONNECT_TO_SCHEDULER", key: "pmix.cnct.sched", c_type: "bool" },
    Attribute { name: "PMIX_CONNECT_TO_SYSTEM", key: "pmix.cnct.sys", c_type: "bool" },
    Attribute { name: "PMIX_CONNECT_TO_SYS_CONTROLLER", key: "pmix.cnct.ctrlr", c_type: "bool" },
    Attribute { name: "PMIX_COSPAWN_APP", key: "pmix.cospawn", c_type: "bool" },
    Attribute { name: "PMIX_CPUSET", key: "pmix.cpuset", c_type: "char*" },
    Attribute { name: "PMIX_CPUSET_BITMAP", key: "pmix.bitmap", c_type: "pmix_cpuset_t*" },
    Attribute { name: "PMIX_CPUS_PER_PROC", key: "pmix.cpuperproc", c_type: "uint32_t" },
    Attribute { name: "PMIX_CPU_LIST", key: "pmix.cpulist", c_type: "char*" },
    Attribute { name: "PMIX_CREDENTIAL", key: "pmix.cred", c_type: "char*" },
    Attribute { name: "PMIX_CRED_TYPE", key: "pmix.sec.ctype", c_type: "char*" },
    Attribute { name: "PMIX_CRYPTO_KEY", key: "pmix.sec.key", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_DAEMON_MEMORY", key: "pmix.dmn.mem", c_type: "float" },
    Attribute { name: "PMIX_DATA_SCOPE", key: "pmix.scope", c_type: "pmix_scope_t" },
    Attribute { name: "PMIX_DEBUGGER_DAEMONS", key: "pmix.debugger", c_type: "bool" },
    Attribute { name: "PMIX_DEBUG_APP_DIRECTIVES", key: "pmix.dbg.adirs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_DEBUG_DAEMONS_PER_NODE", key: "pmix.dbg.dpnd", c_type: "uint16_t" },
    Attribute { name: "PMIX_DEBUG_DAEMONS_PER_PROC", key: "pmix.dbg.dpproc", c_type: "uint16_t" },
    Attribute { name: "PMIX_DEBUG_JOB", key: "pmix.dbg.job", c_type: "char*" },
    Attribute { name: "PMIX_DEBUG_JOB_DIRECTIVES", key: "pmix.dbg.jdirs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_DEBUG_STOP_IN_APP", key: "pmix.dbg.notify", c_type: "varies" },
    Attribute { name: "PMIX_DEBUG_STOP_IN_INIT", key: "pmix.dbg.init", c_type: "varies" },
    Attribute { name: "PMIX_DEBUG_STOP_ON_EXEC", key: "pmix.dbg.exec", c_type: "varies" },
    Attribute { name: "PMIX_DEBUG_TARGET", key: "pmix.dbg.tgt", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_DEVICE_DISTANCES", key: "pmix.dev.dist", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_DEVICE_ID", key: "pmix.dev.id", c_type: "char*" },
    Attribute { name: "PMIX_DEVICE_TYPE", key: "pmix.dev.type", c_type: "pmix_device_type_t" },
    Attribute { name: "PMIX_DISK_ID", key: "pmix.disk.id", c_type: "char*" },
    Attribute { name: "PMIX_DISK_IO_IN_PROGRESS", key: "pmix.disk.ios", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_IO_MILLISEC", key: "pmix.disk.ioms", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_IO_WEIGHTED", key: "pmix.disk.iowght", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_READ_COMPLETED", key: "pmix.disk.rdscomp", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_READ_MERGED", key: "pmix.disk.rdsmrgd", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_READ_MILLISEC", key: "pmix.disk.rdms", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_READ_SECTORS", key: "pmix.disk.rdsct", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_RESOURCE_USAGE", key: "pmix.disk.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_DISK_SAMPLE_TIME", key: "pmix.disk.samptime", c_type: "time_t" },
    Attribute { name: "PMIX_DISK_WRITE_COMPLETED", key: "pmix.disk.wtscomp", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_WRITE_MERGED", key: "pmix.disk.wtsmrgd", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_WRITE_MILLISEC", key: "pmix.disk.wtms", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISK_WRITE_SECTORS", key: "pmix.disk.wtsct", c_type: "uint64_t" },
    Attribute { name: "PMIX_DISPLAY_ALLOCATION", key: "pmix.dispalloc", c_type: "bool" },
    Attribute { name: "PMIX_DISPLAY_MAP", key: "pmix.dispmap", c_type: "bool" },
    Attribute { name: "PMIX_DISPLAY_MAP_DETAILED", key: "pmix.dispmapdet", c_type: "bool" },
    Attribute { name: "PMIX_DISPLAY_PARSEABLE_OUTPUT", key: "pmix.dispparse", c_type: "bool" },
    Attribute { name: "PMIX_DISPLAY_PROCESSORS", key: "pmix.dispcpus", c_type: "char*" },
    Attribute { name: "PMIX_DISPLAY_TOPOLOGY", key: "pmix.disptopo", c_type: "char*" },
    Attribute { name: "PMIX_DO_NOT_LAUNCH", key: "pmix.dnl", c_type: "bool" },
    Attribute { name: "PMIX_DSTPATH", key: "pmix.dstpath", c_type: "char*" },
    Attribute { name: "PMIX_EMBED_BARRIER", key: "pmix.embed.barrier", c_type: "bool" },
    Attribute { name: "PMIX_ENUM_VALUE", key: "pmix.descr.enum", c_type: "char*" },
    Attribute { name: "PMIX_ENVARS_HARVESTED", key: "pmix.evar.hvstd", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_ACTION_TIMEOUT", key: "pmix.evtimeout", c_type: "int" },
    Attribute { name: "PMIX_EVENT_AFFECTED_PROC", key: "pmix.evproc", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_EVENT_AFFECTED_PROCS", key: "pmix.evaffected", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_EVENT_BASE", key: "pmix.evbase", c_type: "struct event_base *" },
    Attribute { name: "PMIX_EVENT_CUSTOM_RANGE", key: "pmix.evrange", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_EVENT_DO_NOT_CACHE", key: "pmix.evnocache", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_ENVIRO_LEVEL", key: "pmix.evenv", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_AFTER", key: "pmix.evafter", c_type: "char*" },
    Attribute { name: "PMIX_EVENT_HDLR_APPEND", key: "pmix.evappend", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_BEFORE", key: "pmix.evbefore", c_type: "char*" },
    Attribute { name: "PMIX_EVENT_HDLR_FIRST", key: "pmix.evfirst", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_FIRST_IN_CATEGORY", key: "pmix.evfirstcat", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_LAST", key: "pmix.evlast", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_LAST_IN_CATEGORY", key: "pmix.evlastcat", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_HDLR_NAME", key: "pmix.evname", c_type: "char*" },
    Attribute { name: "PMIX_EVENT_HDLR_PREPEND", key: "pmix.evprepend", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_JOB_LEVEL", key: "pmix.evjob", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_NON_DEFAULT", key: "pmix.evnondef", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_NO_TERMINATION", key: "pmix.evnoterm", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_ONESHOT", key: "pmix.evone", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_PROXY", key: "pmix.evproxy", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_EVENT_RETURN_OBJECT", key: "pmix.evobject", c_type: "void*" },
    Attribute { name: "PMIX_EVENT_SILENT_TERMINATION", key: "pmix.evsilentterm", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_STAYS_LOCAL", key: "pmix.evlocal", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_TERMINATE_JOB", key: "pmix.evterm.job", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_TERMINATE_NODE", key: "pmix.evterm.node", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_TERMINATE_PROC", key: "pmix.evterm.proc", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_TERMINATE_SESSION", key: "pmix.evterm.sess", c_type: "bool" },
    Attribute { name: "PMIX_EVENT_TEXT_MESSAGE", key: "pmix.evtext", c_type: "char*" },
    Attribute { name: "PMIX_EVENT_TIMESTAMP", key: "pmix.evtstamp", c_type: "time_t" },
    Attribute { name: "PMIX_EVENT_WANT_TERMINATION", key: "pmix.evterm", c_type: "bool" },
    Attribute { name: "PMIX_EXEC_AGENT", key: "pmix.exec.agnt", c_type: "char*" },
    Attribute { name: "PMIX_EXIT_CODE", key: "pmix.exit.code", c_type: "int" },
    Attribute { name: "PMIX_EXTERNAL_AUX_EVENT_BASE", key: "pmix.evaux", c_type: "void*" },
    Attribute { name: "PMIX_EXTERNAL_PROGRESS", key: "pmix.evext", c_type: "bool" },
    Attribute { name: "PMIX_FABRIC_COORDINATES", key: "pmix.fab.coord", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_FABRIC_COST_MATRIX", key: "pmix.fab.cm", c_type: "pointer" },
    Attribute { name: "PMIX_FABRIC_DEVICE", key: "pmix.fabdev", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_FABRIC_DEVICES", key: "pmix.fab.devs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_ADDRESS", key: "pmix.fabdev.addr", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_BUS_TYPE", key: "pmix.fabdev.btyp", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_COORDINATES", key: "pmix.fab.coord", c_type: "pmix_geometry_t" },
    Attribute { name: "PMIX_FABRIC_DEVICE_DRIVER", key: "pmix.fabdev.driver", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_FIRMWARE", key: "pmix.fabdev.fmwr", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_INDEX", key: "pmix.fabdev.idx", c_type: "uint32_t" },
    Attribute { name: "PMIX_FABRIC_DEVICE_MTU", key: "pmix.fabdev.mtu", c_type: "size_t" },
    Attribute { name: "PMIX_FABRIC_DEVICE_NAME", key: "pmix.fabdev.nm", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_PCI_DEVID", key: "pmix.fabdev.pcidevid", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_SPEED", key: "pmix.fabdev.speed", c_type: "size_t" },
    Attribute { name: "PMIX_FABRIC_DEVICE_STATE", key: "pmix.fabdev.state", c_type: "pmix_link_state_t" },
    Attribute { name: "PMIX_FABRIC_DEVICE_TYPE", key: "pmix.fabdev.type", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_VENDOR", key: "pmix.fabdev.vndr", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DEVICE_VENDORID", key: "pmix.fabdev.vendid", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_DIMS", key: "pmix.fab.dims", c_type: "uint32_t" },
    Attribute { name: "PMIX_FABRIC_ENDPT", key: "pmix.fab.endpt", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_FABRIC_GROUPS", key: "pmix.fab.grps", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_IDENTIFIER", key: "pmix.fab.id", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_INDEX", key: "pmix.fab.idx", c_type: "size_t" },
    Attribute { name: "PMIX_FABRIC_NUM_DEVICES", key: "pmix.fab.nverts", c_type: "size_t" },
    Attribute { name: "PMIX_FABRIC_PLANE", key: "pmix.fab.plane", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_SHAPE", key: "pmix.fab.shape", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_FABRIC_SHAPE_STRING", key: "pmix.fab.shapestr", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_SWITCH", key: "pmix.fab.switch", c_type: "char*" },
    Attribute { name: "PMIX_FABRIC_VENDOR", key: "pmix.fab.vndr", c_type: "char*" },
    Attribute { name: "PMIX_FIRST_ENVAR", key: "pmix.envar.first", c_type: "pmix_envar_t*" },
    Attribute { name: "PMIX_FORKEXEC_AGENT", key: "pmix.fe.agnt", c_type: "char*" },
    Attribute { name: "PMIX_FWD_ENVIRONMENT", key: "pmix.fwdenv", c_type: "bool" },
    Attribute { name: "PMIX_FWD_STDDIAG", key: "pmix.fwd.stddiag", c_type: "bool" },
    Attribute { name: "PMIX_FWD_STDERR", key: "pmix.fwd.stderr", c_type: "bool" },
    Attribute { name: "PMIX_FWD_STDIN", key: "pmix.fwd.stdin", c_type: "bool" },
    Attribute { name: "PMIX_FWD_STDOUT", key: "pmix.fwd.stdout", c_type: "bool" },
    Attribute { name: "PMIX_GDS_MODULE", key: "pmix.gds.mod", c_type: "char*" },
    Attribute { name: "PMIX_GET_POINTER_VALUES", key: "pmix.get.pntrs", c_type: "bool" },
    Attribute { name: "PMIX_GET_REFRESH_CACHE", key: "pmix.get.refresh", c_type: "bool" },
    Attribute { name: "PMIX_GET_STATIC_VALUES", key: "pmix.get.static", c_type: "bool" },
    Attribute { name: "PMIX_GLOBAL_RANK", key: "pmix.grank", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_GPU_SUPPORT", key: "pmix.gpu.support", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_ADD_MEMBERS", key: "pmix.grp.add", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_ASSIGN_CONTEXT_ID", key: "pmix.grp.actxid", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_BOOTSTRAP", key: "pmix.grp.btstrp", c_type: "size_t" },
    Attribute { name: "PMIX_GROUP_CONTEXT_ID", key: "pmix.grp.ctxid", c_type: "size_t" },
    Attribute { name: "PMIX_GROUP_ENDPT_DATA", key: "pmix.grp.endpt", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_FINAL_MEMBERSHIP_ORDER", key: "pmix.grp.finord", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_FT_COLLECTIVE", key: "pmix.grp.ftcoll", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_ID", key: "pmix.grp.id", c_type: "char*" },
    Attribute { name: "PMIX_GROUP_INFO", key: "pmix.grp.info", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_INFO_ARRAY", key: "pmix.grp.infoarray", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_JOB_INFO", key: "pmix.grp.jinfo", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_GROUP_LEADER", key: "pmix.grp.ldr", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_LOCAL_CID", key: "pmix.grp.lclid", c_type: "size_t" },
    Attribute { name: "PMIX_GROUP_LOCAL_ONLY", key: "pmix.grp.lcl", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_MEMBERSHIP", key: "pmix.grp.mbrs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_NAMES", key: "pmix.pgrp.nm", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_GROUP_NOTIFY_TERMINATION", key: "pmix.grp.notterm", c_type: "bool" },
    Attribute { name: "PMIX_GROUP_OPTIONAL", key: "pmix.grp.opt", c_type: "bool" },
    Attribute { name: "PMIX_GRPID", key: "pmix.egid", c_type: "uint32_t" },
    Attribute { name: "PMIX_HOMOGENEOUS_SYSTEM", key: "pmix.homo", c_type: "bool" },
    Attribute { name: "PMIX_HOST", key: "pmix.host", c_type: "char*" },
    Attribute { name: "PMIX_HOSTFILE", key: "pmix.hostfile", c_type: "char*" },
    Attribute { name: "PMIX_HOSTNAME", key: "pmix.hname", c_type: "char*" },
    Attribute { name: "PMIX_HOSTNAME_ALIASES", key: "pmix.alias", c_type: "char*" },
    Attribute { name: "PMIX_HOSTNAME_KEEP_FQDN", key: "pmix.fqdn", c_type: "bool" },
    Attribute { name: "PMIX_HOST_ATTRIBUTES", key: "pmix.host.attrs", c_type: "char*" },
    Attribute { name: "PMIX_HOST_FUNCTIONS", key: "pmix.host.fns", c_type: "char*" },
    Attribute { name: "PMIX_HWLOC_HOLE_KIND", key: "pmix.hwlocholek", c_type: "char*" },
    Attribute { name: "PMIX_HWLOC_SHARE_TOPO", key: "pmix.hwlocsh", c_type: "bool" },
    Attribute { name: "PMIX_HWLOC_SHMEM_ADDR", key: "pmix.hwlocaddr", c_type: "size_t" },
    Attribute { name: "PMIX_HWLOC_SHMEM_FILE", key: "pmix.hwlocfile", c_type: "char*" },
    Attribute { name: "PMIX_HWLOC_SHMEM_SIZE", key: "pmix.hwlocsize", c_type: "size_t" },
    Attribute { name: "PMIX_HWLOC_XML_V1", key: "pmix.hwlocxml1", c_type: "char*" },
    Attribute { name: "PMIX_HWLOC_XML_V2", key: "pmix.hwlocxml2", c_type: "char*" },
    Attribute { name: "PMIX_IMMEDIATE", key: "pmix.immediate", c_type: "bool" },
    Attribute { name: "PMIX_INDEX_ARGV", key: "pmix.indxargv", c_type: "bool" },
    Attribute { name: "PMIX_IOF_BUFFERING_SIZE", key: "pmix.iof.bsize", c_type: "uint32_t" },
    Attribute { name: "PMIX_IOF_BUFFERING_TIME", key: "pmix.iof.btime", c_type: "uint32_t" },
    Attribute { name: "PMIX_IOF_CACHE_SIZE", key: "pmix.iof.csize", c_type: "uint32_t" },
    Attribute { name: "PMIX_IOF_COMPLETE", key: "pmix.iof.cmp", c_type: "bool" },
    Attribute { name: "PMIX_IOF_COPY", key: "pmix.iof.cpy", c_type: "bool" },
    Attribute { name: "PMIX_IOF_DROP_NEWEST", key: "pmix.iof.new", c_type: "bool" },
    Attribute { name: "PMIX_IOF_DROP_OLDEST", key: "pmix.iof.old", c_type: "bool" },
    Attribute { name: "PMIX_IOF_FILE_ONLY", key: "pmix.iof.fonly", c_type: "bool" },
    Attribute { name: "PMIX_IOF_FILE_PATTERN", key: "pmix.iof.fpt", c_type: "bool" },
    Attribute { name: "PMIX_IOF_INHERIT", key: "pmix.iof.inhrt", c_type: "bool" },
    Attribute { name: "PMIX_IOF_LOCAL_OUTPUT", key: "pmix.iof.local", c_type: "bool" },
    Attribute { name: "PMIX_IOF_MERGE_STDERR_STDOUT", key: "pmix.iof.mrg", c_type: "bool" },
    Attribute { name: "PMIX_IOF_OUTPUT_RAW", key: "pmix.iof.raw", c_type: "bool" },
    Attribute { name: "PMIX_IOF_OUTPUT_TO_DIRECTORY", key: "pmix.iof.dir", c_type: "char*" },
    Attribute { name: "PMIX_IOF_OUTPUT_TO_FILE", key: "pmix.iof.file", c_type: "char*" },
    Attribute { name: "PMIX_IOF_PUSH_STDIN", key: "pmix.iof.stdin", c_type: "bool" },
    Attribute { name: "PMIX_IOF_RANK_OUTPUT", key: "pmix.iof.rank", c_type: "bool" },
    Attribute { name: "PMIX_IOF_REDIRECT", key: "pmix.iof.redir", c_type: "bool" },
    Attribute { name: "PMIX_IOF_STOP", key: "pmix.iof.stop", c_type: "bool" },
    Attribute { name: "PMIX_IOF_TAG_DETAILED_OUTPUT", key: "pmix.iof.tagdet", c_type: "bool" },
    Attribute { name: "PMIX_IOF_TAG_FULLNAME_OUTPUT", key: "pmix.iof.tagfull", c_type: "bool" },
    Attribute { name: "PMIX_IOF_TAG_OUTPUT", key: "pmix.iof.tag", c_type: "bool" },
    Attribute { name: "PMIX_IOF_TIMESTAMP_OUTPUT", key: "pmix.iof.ts", c_type: "bool" },
    Attribute { name: "PMIX_IOF_XML_OUTPUT", key: "pmix.iof.xml", c_type: "bool" },
    Attribute { name: "PMIX_JOBID", key: "pmix.jobid", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CONTINUOUS", key: "pmix.continuous", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_CANCEL", key: "pmix.jctrl.cancel", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_CHECKPOINT", key: "pmix.jctrl.ckpt", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_CHECKPOINT_EVENT", key: "pmix.jctrl.ckptev", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_CHECKPOINT_METHOD", key: "pmix.jctrl.ckmethod", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_JOB_CTRL_CHECKPOINT_SIGNAL", key: "pmix.jctrl.ckptsig", c_type: "int" },
    Attribute { name: "PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT", key: "pmix.jctrl.ckptsig", c_type: "int" },
    Attribute { name: "PMIX_JOB_CTRL_DEFINE_PSET", key: "pmix.jctrl.defpset", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_ID", key: "pmix.jctrl.id", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_KILL", key: "pmix.jctrl.kill", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_PAUSE", key: "pmix.jctrl.pause", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_PREEMPTIBLE", key: "pmix.jctrl.preempt", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_PROVISION", key: "pmix.jctrl.pvn", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_PROVISION_IMAGE", key: "pmix.jctrl.pvnimg", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_RESTART", key: "pmix.jctrl.restart", c_type: "char*" },
    Attribute { name: "PMIX_JOB_CTRL_RESUME", key: "pmix.jctrl.resume", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_SEP", key: "pmix.jctrl.sep", c_type: "bool" },
    Attribute { name: "PMIX_JOB_CTRL_SIGNAL", key: "pmix.jctrl.sig", c_type: "int" },
    Attribute { name: "PMIX_JOB_CTRL_TERMINATE", key: "pmix.jctrl.term", c_type: "bool" },
    Attribute { name: "PMIX_JOB_INFO", key: "pmix.job.info", c_type: "bool" },
    Attribute { name: "PMIX_JOB_INFO_ARRAY", key: "pmix.job.arr", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_JOB_NUM_APPS", key: "pmix.job.napps", c_type: "uint32_t" },
    Attribute { name: "PMIX_JOB_RECOVERABLE", key: "pmix.recover", c_type: "bool" },
    Attribute { name: "PMIX_JOB_SIZE", key: "pmix.job.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_JOB_TERM_STATUS", key: "pmix.job.term.status", c_type: "pmix_status_t" },
    Attribute { name: "PMIX_JOB_TIMEOUT", key: "pmix.job.time", c_type: "int" },
    Attribute { name: "PMIX_KEEPALIVE_PIPE", key: "PMIX_KEEPALIVE_PIPE", c_type: "" },
    Attribute { name: "PMIX_LAUNCHER", key: "pmix.tool.launcher", c_type: "bool" },
    Attribute { name: "PMIX_LAUNCHER_DAEMON", key: "pmix.lnch.dmn", c_type: "char*" },
    Attribute { name: "PMIX_LAUNCHER_RENDEZVOUS_FILE", key: "pmix.tool.lncrnd", c_type: "char*" },
    Attribute { name: "PMIX_LAUNCHER_RNDZ_FILE", key: "PMIX_LAUNCHER_RNDZ_FILE", c_type: "" },
    Attribute { name: "PMIX_LAUNCHER_RNDZ_URI", key: "PMIX_LAUNCHER_RNDZ_URI", c_type: "" },
    Attribute { name: "PMIX_LAUNCH_DIRECTIVES", key: "pmix.lnch.dirs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_LOCALITY", key: "pmix.loc", c_type: "uint16_t" },
    Attribute { name: "PMIX_LOCALITY_STRING", key: "pmix.locstr", c_type: "char*" },
    Attribute { name: "PMIX_LOCALLDR", key: "pmix.lldr", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_LOCAL_COLLECTIVE_STATUS", key: "pmix.loc.col.st", c_type: "pmix_status_t" },
    Attribute { name: "PMIX_LOCAL_CPUSETS", key: "pmix.lcpus", c_type: "char*" },
    Attribute { name: "PMIX_LOCAL_PARTICIPANTS", key: "pmix.lcl.part", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_LOCAL_PEERS", key: "pmix.lpeers", c_type: "char*" },
    Attribute { name: "PMIX_LOCAL_PROCS", key: "pmix.lprocs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_LOCAL_RANK", key: "pmix.lrank", c_type: "uint16_t" },
    Attribute { name: "PMIX_LOCAL_SIZE", key: "pmix.local.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_LOCAL_TOPO", key: "pmix.ltopo", c_type: "char*" },
    Attribute { name: "PMIX_LOG_AGG", key: "pmix.log.agg", c_type: "bool" },
    Attribute { name: "PMIX_LOG_COMPLETION", key: "pmix.logcomp", c_type: "bool" },
    Attribute { name: "PMIX_LOG_EMAIL", key: "pmix.log.email", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_LOG_EMAIL_ADDR", key: "pmix.log.emaddr", c_type: "char*" },
    Attribute { name: "PMIX_LOG_EMAIL_MSG", key: "pmix.log.emmsg", c_type: "char*" },
    Attribute { name: "PMIX_LOG_EMAIL_SENDER_ADDR", key: "pmix.log.emfaddr", c_type: "char*" },
    Attribute { name: "PMIX_LOG_EMAIL_SERVER", key: "pmix.log.esrvr", c_type: "char*" },
    Attribute { name: "PMIX_LOG_EMAIL_SRVR_PORT", key: "pmix.log.esrvrprt", c_type: "int32_t" },
    Attribute { name: "PMIX_LOG_EMAIL_SUBJECT", key: "pmix.log.emsub", c_type: "char*" },
    Attribute { name: "PMIX_LOG_GENERATE_TIMESTAMP", key: "pmix.log.gtstmp", c_type: "bool" },
    Attribute { name: "PMIX_LOG_GLOBAL_DATASTORE", key: "pmix.log.gstore", c_type: "bool" },
    Attribute { name: "PMIX_LOG_GLOBAL_SYSLOG", key: "pmix.log.gsys", c_type: "char*" },
    Attribute { name: "PMIX_LOG_JOB_EVENTS", key: "pmix.log.jev", c_type: "bool" },
    Attribute { name: "PMIX_LOG_JOB_RECORD", key: "pmix.log.jrec", c_type: "bool" },
    Attribute { name: "PMIX_LOG_KEY", key: "pmix.log.key", c_type: "char*" },
    Attribute { name: "PMIX_LOG_LOCAL_SYSLOG", key: "pmix.log.lsys", c_type: "char*" },
    Attribute { name: "PMIX_LOG_MSG", key: "pmix.log.msg", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_LOG_ONCE", key: "pmix.log.once", c_type: "bool" },
    Attribute { name: "PMIX_LOG_PROC_ABNORMAL_TERMINATION", key: "pmix.logabproc", c_type: "bool" },
    Attribute { name: "PMIX_LOG_PROC_TERMINATION", key: "pmix.logproc", c_type: "bool" },
    Attribute { name: "PMIX_LOG_SOURCE", key: "pmix.log.source", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_LOG_STDERR", key: "pmix.log.stderr", c_type: "char*" },
    Attribute { name: "PMIX_LOG_STDOUT", key: "pmix.log.stdout", c_type: "char*" },
    Attribute { name: "PMIX_LOG_SYSLOG", key: "pmix.log.syslog", c_type: "char*" },
    Attribute { name: "PMIX_LOG_SYSLOG_PRI", key: "pmix.log.syspri", c_type: "int" },
    Attribute { name: "PMIX_LOG_TAG_OUTPUT", key: "pmix.log.tag", c_type: "bool" },
    Attribute { name: "PMIX_LOG_TIMESTAMP", key: "pmix.log.tstmp", c_type: "time_t" },
    Attribute { name: "PMIX_LOG_TIMESTAMP_OUTPUT", key: "pmix.log.tsout", c_type: "bool" },
    Attribute { name: "PMIX_LOG_VAL", key: "pmix.log.val", c_type: "char*" },
    Attribute { name: "PMIX_LOG_XML_OUTPUT", key: "pmix.log.xml", c_type: "bool" },
    Attribute { name: "PMIX_MAPBY", key: "pmix.mapby", c_type: "char*" },
    Attribute { name: "PMIX_MAPPER", key: "pmix.mapper", c_type: "char*" },
    Attribute { name: "PMIX_MAP_BLOB", key: "pmix.mblob", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_MAX_PROCS", key: "pmix.max.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_MAX_RESTARTS", key: "pmix.maxrestarts", c_type: "uint32_t" },
    Attribute { name: "PMIX_MAX_VALUE", key: "pmix.descr.maxval", c_type: "varies" },
    Attribute { name: "PMIX_MEM_ALLOC_KIND", key: "pmix.alloc.mkind", c_type: "char*" },
    Attribute { name: "PMIX_MERGE_STDERR_STDOUT", key: "pmix.mergeerrout", c_type: "bool" },
    Attribute { name: "PMIX_MIN_VALUE", key: "pmix.descr.minval", c_type: "varies" },
    Attribute { name: "PMIX_MODEL_AFFINITY_POLICY", key: "pmix.mdl.tap", c_type: "char*" },
    Attribute { name: "PMIX_MODEL_CPU_TYPE", key: "pmix.mdl.cputype", c_type: "char*" },
    Attribute { name: "PMIX_MODEL_LIBRARY_NAME", key: "pmix.mdl.name", c_type: "char*" },
    Attribute { name: "PMIX_MODEL_LIBRARY_VERSION", key: "pmix.mld.vrs", c_type: "char*" },
    Attribute { name: "PMIX_MODEL_NUM_CPUS", key: "pmix.mdl.ncpu", c_type: "uint64_t" },
    Attribute { name: "PMIX_MODEL_NUM_THREADS", key: "pmix.mdl.nthrds", c_type: "uint64_t" },
    Attribute { name: "PMIX_MODEL_PHASE_NAME", key: "pmix.mdl.phase", c_type: "char*" },
    Attribute { name: "PMIX_MODEL_PHASE_TYPE", key: "pmix.mdl.ptype", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_APP_CONTROL", key: "pmix.monitor.appctrl", c_type: "bool" },
    Attribute { name: "PMIX_MONITOR_CANCEL", key: "pmix.monitor.cancel", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_DISK_RESOURCE_USAGE", key: "pmix.monitor.dkresuse", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_FILE", key: "pmix.monitor.fmon", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_FILE_ACCESS", key: "pmix.monitor.faccess", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_FILE_CHECK_TIME", key: "pmix.monitor.ftime", c_type: "uint32_t" },
    Attribute { name: "PMIX_MONITOR_FILE_DROPS", key: "pmix.monitor.fdrop", c_type: "uint32_t" },
    Attribute { name: "PMIX_MONITOR_FILE_MODIFY", key: "pmix.monitor.fmod", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_FILE_SIZE", key: "pmix.monitor.fsize", c_type: "bool" },
    Attribute { name: "PMIX_MONITOR_HEARTBEAT", key: "pmix.monitor.mbeat", c_type: "bool" },
    Attribute { name: "PMIX_MONITOR_HEARTBEAT_DROPS", key: "pmix.monitor.bdrop", c_type: "uint32_t" },
    Attribute { name: "PMIX_MONITOR_HEARTBEAT_TIME", key: "pmix.monitor.btime", c_type: "uint32_t" },
    Attribute { name: "PMIX_MONITOR_ID", key: "pmix.monitor.id", c_type: "char*" },
    Attribute { name: "PMIX_MONITOR_LOCAL_ONLY", key: "pmix.monitor.local", c_type: "bool" },
    Attribute { name: "PMIX_MONITOR_NET_RESOURCE_USAGE", key: "pmix.monitor.netresuse", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_NODE_RESOURCE_USAGE", key: "pmix.monitor.ndresuse", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_PROC_RESOURCE_USAGE", key: "pmix.monitor.presuse", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_PROXY", key: "pmix.monitor.proxy", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_MONITOR_RESOURCE_RATE", key: "pmix.monitor.resrate", c_type: "uint32_t" },
    Attribute { name: "PMIX_MONITOR_TARGET_DISKS", key: "pmix.monitor.tgtdks", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_TARGET_NETS", key: "pmix.monitor.tgtnets", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_TARGET_NODEIDS", key: "pmix.monitor.tgtndids", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_TARGET_NODES", key: "pmix.monitor.tgtnode", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_TARGET_PIDS", key: "pmix.monitor.tgtpid", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MONITOR_TARGET_PROCS", key: "pmix.monitor.tgtproc", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_MYSERVER_URI", key: "pmix.mysrvr.uri", c_type: "char*" },
    Attribute { name: "PMIX_NETWORK_ID", key: "pmix.net.id", c_type: "char*" },
    Attribute { name: "PMIX_NETWORK_RESOURCE_USAGE", key: "pmix.net.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_NET_RECVD_BYTES", key: "pmix.net.rcb", c_type: "uint64_t" },
    Attribute { name: "PMIX_NET_RECVD_ERRS", key: "pmix.net.rcerr", c_type: "uint64_t" },
    Attribute { name: "PMIX_NET_RECVD_PCKTS", key: "pmix.net.rcp", c_type: "uint64_t" },
    Attribute { name: "PMIX_NET_SAMPLE_TIME", key: "pmix.net.samptime", c_type: "time_t" },
    Attribute { name: "PMIX_NET_SENT_BYTES", key: "pmix.net.sntb", c_type: "uint64_t" },
    Attribute { name: "PMIX_NET_SENT_ERRS", key: "pmix.net.snterr", c_type: "uint64_t" },
    Attribute { name: "PMIX_NET_SENT_PCKTS", key: "pmix.net.sntp", c_type: "uint64_t" },
    Attribute { name: "PMIX_NODEID", key: "pmix.nodeid", c_type: "uint32_t" },
    Attribute { name: "PMIX_NODE_INFO", key: "pmix.node.info", c_type: "bool" },
    Attribute { name: "PMIX_NODE_INFO_ARRAY", key: "pmix.node.arr", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_NODE_LIST", key: "pmix.nlist", c_type: "char*" },
    Attribute { name: "PMIX_NODE_LOAD_AVG", key: "pmix.node.la", c_type: "float" },
    Attribute { name: "PMIX_NODE_LOAD_AVG15", key: "pmix.node.la15", c_type: "float" },
    Attribute { name: "PMIX_NODE_LOAD_AVG5", key: "pmix.node.la5", c_type: "float" },
    Attribute { name: "PMIX_NODE_MAP", key: "pmix.nmap", c_type: "char*" },
    Attribute { name: "PMIX_NODE_MAP_RAW", key: "pmix.nmap.raw", c_type: "char*" },
    Attribute { name: "PMIX_NODE_MEM_BUFFERS", key: "pmix.node.mbuf", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_CACHED", key: "pmix.node.mcache", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_FREE", key: "pmix.node.mfree", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_MAPPED", key: "pmix.node.mmap", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_SWAP_CACHED", key: "pmix.node.mswpc", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_SWAP_FREE", key: "pmix.node.mswpfree", c_type: "float" },
    Attribute { name: "PMIX_NODE_MEM_TOTAL", key: "pmix.node.mtot", c_type: "float" },
    Attribute { name: "PMIX_NODE_OVERSUBSCRIBED", key: "pmix.ndosub", c_type: "bool" },
    Attribute { name: "PMIX_NODE_RANK", key: "pmix.nrank", c_type: "uint16_t" },
    Attribute { name: "PMIX_NODE_RESOURCE_USAGE", key: "pmix.node.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_NODE_SAMPLE_TIME", key: "pmix.node.samptime", c_type: "time_t" },
    Attribute { name: "PMIX_NODE_SIZE", key: "pmix.node.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_NODE_SWAP_TOTAL", key: "pmix.node.mswpt", c_type: "float" },
    Attribute { name: "PMIX_NOHUP", key: "pmix.nohup", c_type: "bool" },
    Attribute { name: "PMIX_NON_PMI", key: "pmix.nonpmi", c_type: "bool" },
    Attribute { name: "PMIX_NOTIFY_COMPLETION", key: "pmix.notecomp", c_type: "bool" },
    Attribute { name: "PMIX_NOTIFY_JOB_EVENTS", key: "pmix.note.jev", c_type: "bool" },
    Attribute { name: "PMIX_NOTIFY_LAUNCH", key: "pmix.note.lnch", c_type: "bool" },
    Attribute { name: "PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION", key: "pmix.noteabproc", c_type: "bool" },
    Attribute { name: "PMIX_NOTIFY_PROC_TERMINATION", key: "pmix.noteproc", c_type: "bool" },
    Attribute { name: "PMIX_NO_OVERSUBSCRIBE", key: "pmix.noover", c_type: "bool" },
    Attribute { name: "PMIX_NO_PROCS_ON_HEAD", key: "pmix.nolocal", c_type: "bool" },
    Attribute { name: "PMIX_NPROC_OFFSET", key: "pmix.offset", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_NSDIR", key: "pmix.nsdir", c_type: "char*" },
    Attribute { name: "PMIX_NSPACE", key: "pmix.nspace", c_type: "char*" },
    Attribute { name: "PMIX_NUM_ALLOCATED_NODES", key: "pmix.num.anodes", c_type: "uint32_t" },
    Attribute { name: "PMIX_NUM_NODES", key: "pmix.num.nodes", c_type: "uint32_t" },
    Attribute { name: "PMIX_NUM_SLOTS", key: "pmix.num.slots", c_type: "uint32_t" },
    Attribute { name: "PMIX_OPTIONAL", key: "pmix.optional", c_type: "bool" },
    Attribute { name: "PMIX_OUTPUT_NOCOPY", key: "pmix.nocopy", c_type: "bool" },
    Attribute { name: "PMIX_OUTPUT_TO_DIRECTORY", key: "pmix.outdir", c_type: "char*" },
    Attribute { name: "PMIX_OUTPUT_TO_FILE", key: "pmix.outfile", c_type: "char*" },
    Attribute { name: "PMIX_PACKAGE_RANK", key: "pmix.pkgrank", c_type: "uint16_t" },
    Attribute { name: "PMIX_PARENT_ID", key: "pmix.parent", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_PERSISTENCE", key: "pmix.persist", c_type: "pmix_persistence_t" },
    Attribute { name: "PMIX_PERSONALITY", key: "pmix.pers", c_type: "char*" },
    Attribute { name: "PMIX_PNET_SETUP_APP", key: "pmix.pnet.setapp", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_PPR", key: "pmix.ppr", c_type: "char*" },
    Attribute { name: "PMIX_PREFIX", key: "pmix.prefix", c_type: "char*" },
    Attribute { name: "PMIX_PRELOAD_BIN", key: "pmix.preloadbin", c_type: "bool" },
    Attribute { name: "PMIX_PRELOAD_FILES", key: "pmix.preloadfiles", c_type: "char*" },
    Attribute { name: "PMIX_PREPEND_ENVAR", key: "pmix.envar.prepnd", c_type: "pmix_envar_t*" },
    Attribute { name: "PMIX_PRIMARY_SERVER", key: "pmix.pri.srvr", c_type: "bool" },
    Attribute { name: "PMIX_PROCDIR", key: "pmix.pdir", c_type: "char*" },
    Attribute { name: "PMIX_PROCID", key: "pmix.procid", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_PROC_BLOB", key: "pmix.pblob", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_PROC_CPU", key: "pmix.proc.cpu", c_type: "uint16_t" },
    Attribute { name: "PMIX_PROC_DATA", key: "pmix.pdata", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_PROC_INFO_ARRAY", key: "pmix.pdata", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_PROC_MAP", key: "pmix.pmap", c_type: "char*" },
    Attribute { name: "PMIX_PROC_MAP_RAW", key: "pmix.pmap.raw", c_type: "char*" },
    Attribute { name: "PMIX_PROC_NUM_THREADS", key: "pmix.proc.nthr", c_type: "uint16_t" },
    Attribute { name: "PMIX_PROC_OS_STATE", key: "pmix.proc.osstate", c_type: "char*" },
    Attribute { name: "PMIX_PROC_PEAK_VSIZE", key: "pmix.proc.pkvsize", c_type: "float" },
    Attribute { name: "PMIX_PROC_PERCENT_CPU", key: "pmix.proc.pcpu", c_type: "float" },
    Attribute { name: "PMIX_PROC_PID", key: "pmix.ppid", c_type: "pid_t" },
    Attribute { name: "PMIX_PROC_PRIORITY", key: "pmix.proc.pri", c_type: "int32_t" },
    Attribute { name: "PMIX_PROC_PSS", key: "pmix.proc.pss", c_type: "float" },
    Attribute { name: "PMIX_PROC_RESOURCE_USAGE", key: "pmix.proc.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_PROC_RSS", key: "pmix.proc.rss", c_type: "float" },
    Attribute { name: "PMIX_PROC_SAMPLE_TIME", key: "pmix.proc.samptime", c_type: "time_t" },
    Attribute { name: "PMIX_PROC_STATE_STATUS", key: "pmix.proc.state", c_type: "pmix_proc_state_t" },
    Attribute { name: "PMIX_PROC_TERM_STATUS", key: "pmix.proc.term.status", c_type: "pmix_status_t" },
    Attribute { name: "PMIX_PROC_TIME", key: "pmix.proc.time", c_type: "struct timeval" },
    Attribute { name: "PMIX_PROC_URI", key: "pmix.puri", c_type: "char*" },
    Attribute { name: "PMIX_PROC_VSIZE", key: "pmix.proc.vsize", c_type: "float" },
    Attribute { name: "PMIX_PROGRAMMING_MODEL", key: "pmix.pgm.model", c_type: "char*" },
    Attribute { name: "PMIX_PROGRESS_THREAD_FLUSH", key: "pmix.evflush", c_type: "bool" },
    Attribute { name: "PMIX_PROGRESS_THREAD_NAME", key: "pmix.evname", c_type: "char*" },
    Attribute { name: "PMIX_PSET_MEMBERS", key: "pmix.pset.mems", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_PSET_NAME", key: "pmix.pset.nm", c_type: "char*" },
    Attribute { name: "PMIX_PSET_NAMES", key: "pmix.pset.nms", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_PTY_TERMIO", key: "pmix.pty.termio", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_PTY_WSIZE", key: "pmix.pty.wsize", c_type: "pmix_byte_object_t" },
    Attribute { name: "PMIX_QUALIFIED_VALUE", key: "pmix.qual.val", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_ALLOCATION", key: "pmix.query.allc", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_ALLOC_IDS", key: "pmix.query.alloc.ids", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_ALLOC_PROPERTIES", key: "pmix.query.alloc.prop", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_ALLOC_STATUS", key: "pmix.query.alloc", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_ATTRIBUTE_SUPPORT", key: "pmix.qry.attrs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_AUTHORIZATIONS", key: "pmix.qry.auths", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_AVAILABLE_SLOTS", key: "pmix.qry.aslots", c_type: "uint32_t" },
    Attribute { name: "PMIX_QUERY_AVAIL_SERVERS", key: "pmix.qry.asrvrs", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_DEBUG_SUPPORT", key: "pmix.qry.debug", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_DEVICES", key: "pmix.qry.dev", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_GROUP_MEMBERSHIP", key: "pmix.qry.pgrpmems", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_GROUP_NAMES", key: "pmix.qry.pgrp", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_JOB_STATUS", key: "pmix.qry.jst", c_type: "pmix_status_t" },
    Attribute { name: "PMIX_QUERY_LOCAL_ONLY", key: "pmix.qry.local", c_type: "bool" },
    Attribute { name: "PMIX_QUERY_LOCAL_PROC_TABLE", key: "pmix.qry.lptable", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_LOG_CHANNELS", key: "pmix.qry.lchans", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_MEMORY_USAGE", key: "pmix.qry.mem", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_MIN_ALLOC_UNIT", key: "pmix.qry.minau", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_NAMESPACES", key: "pmix.qry.ns", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_NAMESPACE_INFO", key: "pmix.qry.nsinfo", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_NODE_RESOURCE_USAGE", key: "pmix.qry.nres", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_NUM_GROUPS", key: "pmix.qry.pgrpnum", c_type: "size_t" },
    Attribute { name: "PMIX_QUERY_NUM_PSETS", key: "pmix.qry.psetnum", c_type: "size_t" },
    Attribute { name: "PMIX_QUERY_PROC_RESOURCE_USAGE", key: "pmix.qry.pres", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_QUERY_PROC_TABLE", key: "pmix.qry.ptable", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_PROVISIONAL_ABI_VERSION", key: "pmix.qry.prabiver", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_PSET_MEMBERSHIP", key: "pmix.qry.pmems", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_PSET_NAMES", key: "pmix.qry.psets", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_QUALIFIERS", key: "pmix.qry.quals", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_QUEUE_LIST", key: "pmix.qry.qlst", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_QUEUE_STATUS", key: "pmix.qry.qst", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_REFRESH_CACHE", key: "pmix.qry.rfsh", c_type: "bool" },
    Attribute { name: "PMIX_QUERY_REPORT_AVG", key: "pmix.qry.avg", c_type: "bool" },
    Attribute { name: "PMIX_QUERY_REPORT_MINMAX", key: "pmix.qry.minmax", c_type: "bool" },
    Attribute { name: "PMIX_QUERY_RESOLVE_NODE", key: "pmix.qry.node", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_RESOLVE_PEERS", key: "pmix.qry.peers", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_RESULTS", key: "pmix.qry.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_RES_BLOCKS", key: "pmix.qry.resblks", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_RES_BLOCK_DEF", key: "pmix.qry.resdef", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_QUERY_SPAWN_SUPPORT", key: "pmix.qry.spawn", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_STABLE_ABI_VERSION", key: "pmix.qry.stabiver", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_STORAGE_LIST", key: "pmix.strg.list", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_SUPPORTED_KEYS", key: "pmix.qry.keys", c_type: "char*" },
    Attribute { name: "PMIX_QUERY_SUPPORTED_QUALIFIERS", key: "pmix.qry.quals", c_type: "bool" },
    Attribute { name: "PMIX_RANGE", key: "pmix.range", c_type: "pmix_data_range_t" },
    Attribute { name: "PMIX_RANK", key: "pmix.rank", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_RANKBY", key: "pmix.rankby", c_type: "char*" },
    Attribute { name: "PMIX_REALGID", key: "pmix.rgid", c_type: "uint32_t" },
    Attribute { name: "PMIX_REALUID", key: "pmix.ruid", c_type: "uint32_t" },
    Attribute { name: "PMIX_RECONNECT_SERVER", key: "pmix.cnct.recon", c_type: "bool" },
    Attribute { name: "PMIX_REGISTER_CLEANUP", key: "pmix.reg.cleanup", c_type: "char*" },
    Attribute { name: "PMIX_REGISTER_CLEANUP_DIR", key: "pmix.reg.cleanupdir", c_type: "char*" },
    Attribute { name: "PMIX_REGISTER_NODATA", key: "pmix.reg.nodata", c_type: "bool" },
    Attribute { name: "PMIX_REINCARNATION", key: "pmix.reinc", c_type: "uint32_t" },
    Attribute { name: "PMIX_REPORT_BINDINGS", key: "pmix.repbind", c_type: "bool" },
    Attribute { name: "PMIX_REPORT_CHILD_SEP", key: "pmix.rptchildsep", c_type: "bool" },
    Attribute { name: "PMIX_REPORT_PHYSICAL_CPUS", key: "pmix.repphys.cpus", c_type: "bool" },
    Attribute { name: "PMIX_REQUESTOR", key: "pmix.requestor", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_REQUESTOR_IS_CLIENT", key: "pmix.req.client", c_type: "bool" },
    Attribute { name: "PMIX_REQUESTOR_IS_TOOL", key: "pmix.req.tool", c_type: "bool" },
    Attribute { name: "PMIX_REQUIRED_KEY", key: "pmix.req.key", c_type: "char*" },
    Attribute { name: "PMIX_RESOURCE_BLOCK_NAME", key: "pmix.resblkname", c_type: "char*" },
    Attribute { name: "PMIX_RM_NAME", key: "pmix.rm.name", c_type: "char*" },
    Attribute { name: "PMIX_RM_VERSION", key: "pmix.rm.version", c_type: "char*" },
    Attribute { name: "PMIX_RUNTIME_OPTIONS", key: "pmix.runopt", c_type: "char*" },
    Attribute { name: "PMIX_SEND_HEARTBEAT", key: "pmix.monitor.beat", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_ALLOW_FOREIGN_TOOLS", key: "pmix.srvr.ftools", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_ATTRIBUTES", key: "pmix.srvr.attrs", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_ENABLE_MONITORING", key: "pmix.srv.monitor", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_FUNCTIONS", key: "pmix.srvr.fns", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_GATEWAY", key: "pmix.srv.gway", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_HOSTNAME", key: "pmix.srvr.host", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_INFO_ARRAY", key: "pmix.srv.arr", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SERVER_NSPACE", key: "pmix.srv.nspace", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_PIDINFO", key: "pmix.srvr.pidinfo", c_type: "pid_t" },
    Attribute { name: "PMIX_SERVER_RANK", key: "pmix.srv.rank", c_type: "pmix_rank_t" },
    Attribute { name: "PMIX_SERVER_REMOTE_CONNECTIONS", key: "pmix.srvr.remote", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_SCHEDULER", key: "pmix.srv.sched", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_SESSION_SUPPORT", key: "pmix.srvr.sess", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_SHARE_TOPOLOGY", key: "pmix.srvr.share", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_START_TIME", key: "pmix.srv.strtime", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_SYSTEM_SUPPORT", key: "pmix.srvr.sys", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_SYS_CONTROLLER", key: "pmix.srv.ctrlr", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_TMPDIR", key: "pmix.srvr.tmpdir", c_type: "char*" },
    Attribute { name: "PMIX_SERVER_TOOL_SUPPORT", key: "pmix.srvr.tool", c_type: "bool" },
    Attribute { name: "PMIX_SERVER_URI", key: "pmix.srvr.uri", c_type: "char*" },
    Attribute { name: "PMIX_SESSION_APP", key: "pmix.ssn.app", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SESSION_COMPLETE", key: "pmix.ssn.complete", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_CTRL_ID", key: "pmix.ssnctrl.id", c_type: "char*" },
    Attribute { name: "PMIX_SESSION_EXTEND", key: "pmix.ssn.xtend", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_ID", key: "pmix.session.id", c_type: "uint32_t" },
    Attribute { name: "PMIX_SESSION_INFO", key: "pmix.ssn.info", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_INFO_ARRAY", key: "pmix.ssn.arr", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SESSION_INSTANTIATE", key: "pmix.ssn.inst", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_JOB", key: "pmix.ssn.job", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SESSION_PAUSE", key: "pmix.ssn.pause", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_PREEMPT", key: "pmix.ssn.preempt", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_PROVISION", key: "pmix.ssn.pvn", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SESSION_PROVISION_IMAGE", key: "pmix.ssn.pvnimg", c_type: "char*" },
    Attribute { name: "PMIX_SESSION_PROVISION_NODES", key: "pmix.ssn.pvnnds", c_type: "char*" },
    Attribute { name: "PMIX_SESSION_RESOURCES", key: "pmix.ssn.res", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SESSION_RESTORE", key: "pmix.ssn.restore", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_RESUME", key: "pmix.ssn.resume", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_SEP", key: "pmix.ssn.sep", c_type: "bool" },
    Attribute { name: "PMIX_SESSION_SIGNAL", key: "pmix.ssn.sig", c_type: "int" },
    Attribute { name: "PMIX_SESSION_TERMINATE", key: "pmix.ssn.terminate", c_type: "bool" },
    Attribute { name: "PMIX_SETUP_APP_ALL", key: "pmix.setup.all", c_type: "bool" },
    Attribute { name: "PMIX_SETUP_APP_ENVARS", key: "pmix.setup.env", c_type: "bool" },
    Attribute { name: "PMIX_SETUP_APP_NONENVARS", key: "pmix.setup.nenv", c_type: "bool" },
    Attribute { name: "PMIX_SET_ENVAR", key: "pmix.envar.set", c_type: "pmix_envar_t*" },
    Attribute { name: "PMIX_SET_SESSION_CWD", key: "pmix.ssncwd", c_type: "bool" },
    Attribute { name: "PMIX_SHOW_LAUNCH_PROGRESS", key: "pmix.showprog", c_type: "bool" },
    Attribute { name: "PMIX_SINGLETON", key: "pmix.singleton", c_type: "char*" },
    Attribute { name: "PMIX_SINGLE_LISTENER", key: "pmix.sing.listnr", c_type: "bool" },
    Attribute { name: "PMIX_SOCKET_MODE", key: "pmix.sockmode", c_type: "uint32_t" },
    Attribute { name: "PMIX_SORTED_PROC_ARRAY", key: "pmix.sorted.parr", c_type: "bool" },
    Attribute { name: "PMIX_SPAWNED", key: "pmix.spawned", c_type: "bool" },
    Attribute { name: "PMIX_SPAWN_CHILD_SEP", key: "pmix.spchildsep", c_type: "bool" },
    Attribute { name: "PMIX_SPAWN_PTY", key: "pmix.spawn.pty", c_type: "bool" },
    Attribute { name: "PMIX_SPAWN_TARGET", key: "pmix.spwn.tgt", c_type: "varies" },
    Attribute { name: "PMIX_SPAWN_TIMEOUT", key: "pmix.sp.time", c_type: "int" },
    Attribute { name: "PMIX_SPAWN_TOOL", key: "pmix.spwn.tool", c_type: "bool" },
    Attribute { name: "PMIX_SPAWN_TREE_ACTIVE", key: "pmix.spwn.actv", c_type: "uint32_t" },
    Attribute { name: "PMIX_SPAWN_TREE_ROOT", key: "pmix.spwn.root", c_type: "char*" },
    Attribute { name: "PMIX_STDIN_TGT", key: "pmix.stdin", c_type: "pmix_proc_t*" },
    Attribute { name: "PMIX_STORAGE_ACCESSIBILITY", key: "pmix.strg.access", c_type: "pmix_storage_accessibility_t" },
    Attribute { name: "PMIX_STORAGE_ACCESS_TYPE", key: "pmix.strg.atype", c_type: "pmix_storage_access_type_t" },
    Attribute { name: "PMIX_STORAGE_BW_CUR", key: "pmix.strg.bwcur", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_BW_MAX", key: "pmix.strg.bwmax", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_CAPACITY_LIMIT", key: "pmix.strg.cap", c_type: "uint64_t" },
    Attribute { name: "PMIX_STORAGE_CAPACITY_USED", key: "pmix.strg.capuse", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_ID", key: "pmix.strg.id", c_type: "char*" },
    Attribute { name: "PMIX_STORAGE_IOPS_CUR", key: "pmix.strg.iopscur", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_IOPS_MAX", key: "pmix.strg.iopsmax", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_MEDIUM", key: "pmix.strg.medium", c_type: "pmix_storage_medium_t" },
    Attribute { name: "PMIX_STORAGE_MINIMAL_XFER_SIZE", key: "pmix.strg.minxfer", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_OBJECTS_USED", key: "pmix.strg.objuse", c_type: "uint64_t" },
    Attribute { name: "PMIX_STORAGE_OBJECT_LIMIT", key: "pmix.strg.obj", c_type: "uint64_t" },
    Attribute { name: "PMIX_STORAGE_PATH", key: "pmix.strg.path", c_type: "char*" },
    Attribute { name: "PMIX_STORAGE_PERSISTENCE", key: "pmix.strg.persist", c_type: "pmix_storage_persistence_t" },
    Attribute { name: "PMIX_STORAGE_SUGGESTED_XFER_SIZE", key: "pmix.strg.sxfer", c_type: "double" },
    Attribute { name: "PMIX_STORAGE_TYPE", key: "pmix.strg.type", c_type: "char*" },
    Attribute { name: "PMIX_STORAGE_VERSION", key: "pmix.strg.ver", c_type: "char*" },
    Attribute { name: "PMIX_SWITCH_PEERS", key: "pmix.speers", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_SYSTEM_TMPDIR", key: "pmix.sys.tmpdir", c_type: "char*" },
    Attribute { name: "PMIX_TAG_OUTPUT", key: "pmix.tagout", c_type: "bool" },
    Attribute { name: "PMIX_TCP_DISABLE_IPV4", key: "pmix.tcp.disipv4", c_type: "bool" },
    Attribute { name: "PMIX_TCP_DISABLE_IPV6", key: "pmix.tcp.disipv6", c_type: "bool" },
    Attribute { name: "PMIX_TCP_IF_EXCLUDE", key: "pmix.tcp.ifexclude", c_type: "char*" },
    Attribute { name: "PMIX_TCP_IF_INCLUDE", key: "pmix.tcp.ifinclude", c_type: "char*" },
    Attribute { name: "PMIX_TCP_IPV4_PORT", key: "pmix.tcp.ipv4", c_type: "int" },
    Attribute { name: "PMIX_TCP_IPV6_PORT", key: "pmix.tcp.ipv6", c_type: "int" },
    Attribute { name: "PMIX_TCP_REPORT_URI", key: "pmix.tcp.repuri", c_type: "char*" },
    Attribute { name: "PMIX_TCP_URI", key: "pmix.tcp.uri", c_type: "char*" },
    Attribute { name: "PMIX_TDIR_RMCLEAN", key: "pmix.tdir.rmclean", c_type: "bool" },
    Attribute { name: "PMIX_THREADING_MODEL", key: "pmix.threads", c_type: "char*" },
    Attribute { name: "PMIX_TIMEOUT", key: "pmix.timeout", c_type: "int" },
    Attribute { name: "PMIX_TIMEOUT_REPORT_STATE", key: "pmix.tim.state", c_type: "bool" },
    Attribute { name: "PMIX_TIMEOUT_STACKTRACES", key: "pmix.tim.stack", c_type: "bool" },
    Attribute { name: "PMIX_TIMESTAMP_OUTPUT", key: "pmix.tsout", c_type: "bool" },
    Attribute { name: "PMIX_TIME_REMAINING", key: "pmix.time.remaining", c_type: "uint32_t" },
    Attribute { name: "PMIX_TMPDIR", key: "pmix.tmpdir", c_type: "char*" },
    Attribute { name: "PMIX_TOOL_ATTACHMENT_FILE", key: "pmix.tool.attach", c_type: "char*" },
    Attribute { name: "PMIX_TOOL_ATTRIBUTES", key: "pmix.tool.attrs", c_type: "char*" },
    Attribute { name: "PMIX_TOOL_CONNECT_OPTIONAL", key: "pmix.tool.conopt", c_type: "bool" },
    Attribute { name: "PMIX_TOOL_DO_NOT_CONNECT", key: "pmix.tool.nocon", c_type: "bool" },
    Attribute { name: "PMIX_TOOL_FUNCTIONS", key: "pmix.tool.fns", c_type: "char*" },
    Attribute { name: "PMIX_TOOL_NSPACE", key: "pmix.tool.nspace", c_type: "char*" },
    Attribute { name: "PMIX_TOOL_RANK", key: "pmix.tool.rank", c_type: "uint32_t" },
    Attribute { name: "PMIX_TOPOLOGY", key: "pmix.topo", c_type: "hwloc_topology_t" },
    Attribute { name: "PMIX_TOPOLOGY2", key: "pmix.topo2", c_type: "pmix_topology_t*" },
    Attribute { name: "PMIX_TOPOLOGY_FILE", key: "pmix.topo.file", c_type: "char*" },
    Attribute { name: "PMIX_TOPOLOGY_INDEX", key: "pmix.topo.index", c_type: "int" },
    Attribute { name: "PMIX_TOPOLOGY_SIGNATURE", key: "pmix.toposig", c_type: "char*" },
    Attribute { name: "PMIX_TOPOLOGY_XML", key: "pmix.topo.xml", c_type: "char*" },
    Attribute { name: "PMIX_UNIV_SIZE", key: "pmix.univ.size", c_type: "uint32_t" },
    Attribute { name: "PMIX_UNSET_ENVAR", key: "pmix.envar.unset", c_type: "char*" },
    Attribute { name: "PMIX_USERID", key: "pmix.euid", c_type: "uint32_t" },
    Attribute { name: "PMIX_USOCK_DISABLE", key: "pmix.usock.disable", c_type: "bool" },
    Attribute { name: "PMIX_VERSION_INFO", key: "pmix.version", c_type: "char*" },
    Attribute { name: "PMIX_VERSION_NUMERIC", key: "pmix.vers.num", c_type: "uint32_t" },
    Attribute { name: "PMIX_WAIT", key: "pmix.wait", c_type: "int" },
    Attribute { name: "PMIX_WAIT_FOR_CONNECTION", key: "pmix.wait.conn", c_type: "bool" },
    Attribute { name: "PMIX_WDIR", key: "pmix.wdir", c_type: "char*" },
    Attribute { name: "PMIX_WDIR_USER_SPECIFIED", key: "pmix.wdir.user", c_type: "bool" },
    Attribute { name: "PMIX_ADD_MEMBERS", key: "pmix.grp.add", c_type: "pmix_data_array_t*" },
    Attribute { name: "PMIX_EVENT_ORDER_PREPEND", key: "pmix.evprepend", c_type: "bool" },
];

/// Key strings by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod key {
    use super::KeyName;
    pub const PMIX_ABORT_NON_ZERO_TERM: KeyName = KeyName("pmix.abnz");
    pub const PMIX_ACCESS_GRPIDS: KeyName = KeyName("pmix.agids");
    pub const PMIX_ACCESS_PERMISSIONS: KeyName = KeyName("pmix.aperms");
    pub const PMIX_ACCESS_USERIDS: KeyName = KeyName("pmix.auids");
    pub const PMIX_ADD_ENVAR: KeyName = KeyName("pmix.envar.add");
    pub const PMIX_ADD_HOST: KeyName = KeyName("pmix.addhost");
    pub const PMIX_ADD_HOSTFILE: KeyName = KeyName("pmix.addhostfile");
    pub const PMIX_ADD_MEMBERS: KeyName = KeyName("pmix.grp.add");
    pub const PMIX_AGGREGATE_HELP: KeyName = KeyName("pmix.agg.help");
    pub const PMIX_ALLOCATED_NODELIST: KeyName = KeyName("pmix.alist");
    pub const PMIX_ALLOC_BANDWIDTH: KeyName = KeyName("pmix.alloc.bw");
    pub const PMIX_ALLOC_BEGIN: KeyName = KeyName("pmix.alloc.begin");
    pub const PMIX_ALLOC_CHILD_SEP: KeyName = KeyName("pmix.alloc.sep");
    pub const PMIX_ALLOC_CPU_LIST: KeyName = KeyName("pmix.alloc.cpulist");
    pub const PMIX_ALLOC_DEPENDENCY: KeyName = KeyName("pmix.alloc.depend");
    pub const PMIX_ALLOC_EXCLUDE: KeyName = KeyName("pmix.alloc.exclude");
    pub const PMIX_ALLOC_FABRIC: KeyName = KeyName("pmix.alloc.net");
    pub const PMIX_ALLOC_FABRIC_ENDPTS: KeyName = KeyName("pmix.alloc.endpts");
    pub const PMIX_ALLOC_FABRIC_ENDPTS_NODE: KeyName = KeyName("pmix.alloc.endpts.nd");
    pub const PMIX_ALLOC_FABRIC_ID: KeyName = KeyName("pmix.alloc.netid");
    pub const PMIX_ALLOC_FABRIC_PLANE: KeyName = KeyName("pmix.alloc.netplane");
    pub const PMIX_ALLOC_FABRIC_QOS: KeyName = KeyName("pmix.alloc.netqos");
    pub const PMIX_ALLOC_FABRIC_SEC_KEY: KeyName = KeyName("pmix.alloc.nsec");
    pub const PMIX_ALLOC_FABRIC_TYPE: KeyName = KeyName("pmix.alloc.nettype");
    pub const PMIX_ALLOC_ID: KeyName = KeyName("pmix.alloc.id");
    pub const PMIX_ALLOC_IMAGE: KeyName = KeyName("pmix.alloc.image");
    pub const PMIX_ALLOC_INHERITANCE: KeyName = KeyName("pmix.alloc.inhrt");
    pub const PMIX_ALLOC_LEND: KeyName = KeyName("pmix.alloc.lend");
    pub const PMIX_ALLOC_MAU: KeyName = KeyName("pmix.alloc.mau");
    pub const PMIX_ALLOC_MEM_SIZE: KeyName = KeyName("pmix.alloc.msize");
    pub const PMIX_ALLOC_NETWORK: KeyName = KeyName("pmix.alloc.net");
    pub const PMIX_ALLOC_NETWORK_ENDPTS: KeyName = KeyName("pmix.alloc.endpts");
    pub const PMIX_ALLOC_NETWORK_ENDPTS_NODE: KeyName = KeyName("pmix.alloc.endpts.nd");
    pub const PMIX_ALLOC_NETWORK_ID: KeyName = KeyName("pmix.alloc.netid");
    pub const PMIX_ALLOC_NETWORK_PLANE: KeyName = KeyName("pmix.alloc.netplane");
    pub const PMIX_ALLOC_NETWORK_QOS: KeyName = KeyName("pmix.alloc.netqos");
    pub const PMIX_ALLOC_NETWORK_SEC_KEY: KeyName = KeyName("pmix.alloc.nsec");
    pub const PMIX_ALLOC_NETWORK_TYPE: KeyName = KeyName("pmix.alloc.nettype");
    pub const PMIX_ALLOC_NODE_LIST: KeyName = KeyName("pmix.alloc.nlist");
    pub const PMIX_ALLOC_NOSHELL: KeyName = KeyName("pmix.alloc.noshell");
    pub const PMIX_ALLOC_NOT_WAITING: KeyName = KeyName("pmix.alloc.notwait");
    pub const PMIX_ALLOC_NUM_BLOCKS: KeyName = KeyName("pmix.alloc.nblks");
    pub const PMIX_ALLOC_NUM_CPUS: KeyName = KeyName("pmix.alloc.ncpus");
    pub const PMIX_ALLOC_NUM_CPU_LIST: KeyName = KeyName("pmix.alloc.ncpulist");
    pub const PMIX_ALLOC_NUM_NODES: KeyName = KeyName("pmix.alloc.nnodes");
    pub const PMIX_ALLOC_PREEMPTIBLE: KeyName = KeyName("pmix.alloc.preempt");
    pub const PMIX_ALLOC_PROPERTY: KeyName = KeyName("pmix.alloc.property");
    pub const PMIX_ALLOC_QUEUE: KeyName = KeyName("pmix.alloc.queue");
    pub const PMIX_ALLOC_RELEASABLE: KeyName = KeyName("pmix.alloc.releasable");
    pub const PMIX_ALLOC_REQ_ID: KeyName = KeyName("pmix.alloc.reqid");
    pub const PMIX_ALLOC_RES_BLOCK: KeyName = KeyName("pmix.alloc.blk");
    pub const PMIX_ALLOC_SHARE: KeyName = KeyName("pmix.alloc.share");
    pub const PMIX_ALLOC_STATUS: KeyName = KeyName("pmix.alloc.status");
    pub const PMIX_ALLOC_TARGET: KeyName = KeyName("pmix.alloc.tgt");
    pub const PMIX_ALLOC_TIME: KeyName = KeyName("pmix.alloc.time");
    pub const PMIX_ALLOC_WAIT_ALL_NODES: KeyName = KeyName("pmix.alloc.waitall");
    pub const PMIX_ALLOC_WARN_TIMEOUT: KeyName = KeyName("pmix.alloc.wtmo");
    pub const PMIX_ALLOW_CLIENT_CLONES: KeyName = KeyName("pmix.allow.clones");
    pub const PMIX_ALL_CLONES_PARTICIPATE: KeyName = KeyName("pmix.clone.part");
    pub const PMIX_ANL_MAP: KeyName = KeyName("pmix.anlmap");
    pub const PMIX_APPEND_ENVAR: KeyName = KeyName("pmix.envar.appnd");
    pub const PMIX_APPLDR: KeyName = KeyName("pmix.aldr");
    pub const PMIX_APPNUM: KeyName = KeyName("pmix.appnum");
    pub const PMIX_APP_ARGV: KeyName = KeyName("pmix.app.argv");
    pub const PMIX_APP_INFO: KeyName = KeyName("pmix.app.info");
    pub const PMIX_APP_INFO_ARRAY: KeyName = KeyName("pmix.app.arr");
    pub const PMIX_APP_MAP_REGEX: KeyName = KeyName("pmix.apmap.regex");
    pub const PMIX_APP_MAP_TYPE: KeyName = KeyName("pmix.apmap.type");
    pub const PMIX_APP_RANK: KeyName = KeyName("pmix.apprank");
    pub const PMIX_APP_SIZE: KeyName = KeyName("pmix.app.size");
    pub const PMIX_ARCH: KeyName = KeyName("pmix.arch");
    pub const PMIX_ATTR_UNDEF: KeyName = KeyName("pmix.undef");
    pub const PMIX_AVAIL_PHYS_MEMORY: KeyName = KeyName("pmix.pmem");
    pub const PMIX_BFROPS_MODULE: KeyName = KeyName("pmix.bfrops.mod");
    pub const PMIX_BINDTO: KeyName = KeyName("pmix.bindto");
    pub const PMIX_BIND_PROGRESS_THREAD: KeyName = KeyName("pmix.bind.pt");
    pub const PMIX_BIND_REQUIRED: KeyName = KeyName("pmix.bind.reqd");
    pub const PMIX_BREAKPOINT: KeyName = KeyName("pmix.brkpnt");
    pub const PMIX_CLEANUP_EMPTY: KeyName = KeyName("pmix.clnup.empty");
    pub const PMIX_CLEANUP_IGNORE: KeyName = KeyName("pmix.clnup.ignore");
    pub const PMIX_CLEANUP_LEAVE_TOPDIR: KeyName = KeyName("pmix.clnup.lvtop");
    pub const PMIX_CLEANUP_RECURSIVE: KeyName = KeyName("pmix.clnup.recurse");
    pub const PMIX_CLIENT_ATTRIBUTES: KeyName = KeyName("pmix.client.attrs");
    pub const PMIX_CLIENT_AVG_MEMORY: KeyName = KeyName("pmix.cl.mem.avg");
    pub const PMIX_CLIENT_FUNCTIONS: KeyName = KeyName("pmix.client.fns");
    pub const PMIX_CLUSTER_ID: KeyName = KeyName("pmix.clid");
    pub const PMIX_CMD_LINE: KeyName = KeyName("pmix.cmd.line");
    pub const PMIX_COLLECTIVE_ALGO: KeyName = KeyName("pmix.calgo");
    pub const PMIX_COLLECTIVE_ALGO_REQD: KeyName = KeyName("pmix.calreqd");
    pub const PMIX_COLLECT_DATA: KeyName = KeyName("pmix.collect");
    pub const PMIX_COLLECT_GENERATED_JOB_INFO: KeyName = KeyName("pmix.collect.gen");
    pub const PMIX_COLOCATE_NPERNODE: KeyName = KeyName("pmix.colnum.node");
    pub const PMIX_COLOCATE_NPERPROC: KeyName = KeyName("pmix.colnum.proc");
    pub const PMIX_COLOCATE_PROCS: KeyName = KeyName("pmix.colproc");
    pub const PMIX_CONNECTION_ORDER: KeyName = KeyName("pmix.cnct.ord");
    pub const PMIX_CONNECT_MAX_RETRIES: KeyName = KeyName("pmix.tool.mretries");
    pub const PMIX_CONNECT_RETRY_DELAY: KeyName = KeyName("pmix.tool.retry");
    pub const PMIX_CONNECT_SYSTEM_FIRST: KeyName = KeyName("pmix.cnct.sys.first");
    pub const PMIX_CONNECT_TO_SCHEDULER: KeyName = KeyName("pmix.cnct.sched");
    pub const PMIX_CONNECT_TO_SYSTEM: KeyName = KeyName("pmix.cnct.sys");
    pub const PMIX_CONNECT_TO_SYS_CONTROLLER: KeyName = KeyName("pmix.cnct.ctrlr");
    pub const PMIX_COSPAWN_APP: KeyName = KeyName("pmix.cospawn");
    pub const PMIX_CPUSET: KeyName = KeyName("pmix.cpuset");
    pub const PMIX_CPUSET_BITMAP: KeyName = KeyName("pmix.bitmap");
    pub const PMIX_CPUS_PER_PROC: KeyName = KeyName("pmix.cpuperproc");
    pub const PMIX_CPU_LIST: KeyName = KeyName("pmix.cpulist");
    pub const PMIX_CREDENTIAL: KeyName = KeyName("pmix.cred");
    pub const PMIX_CRED_TYPE: KeyName = KeyName("pmix.sec.ctype");
    pub const PMIX_CRYPTO_KEY: KeyName = KeyName("pmix.sec.key");
    pub const PMIX_DAEMON_MEMORY: KeyName = KeyName("pmix.dmn.mem");
    pub const PMIX_DATA_SCOPE: KeyName = KeyName("pmix.scope");
    pub const PMIX_DEBUGGER_DAEMONS: KeyName = KeyName("pmix.debugger");
    pub const PMIX_DEBUG_APP_DIRECTIVES: KeyName = KeyName("pmix.dbg.adirs");
    pub const PMIX_DEBUG_DAEMONS_PER_NODE: KeyName = KeyName("pmix.dbg.dpnd");
    pub const PMIX_DEBUG_DAEMONS_PER_PROC: KeyName = KeyName("pmix.dbg.dpproc");
    pub const PMIX_DEBUG_JOB: KeyName = KeyName("pmix.dbg.job");
    pub const PMIX_DEBUG_JOB_DIRECTIVES: KeyName = KeyName("pmix.dbg.jdirs");
    pub const PMIX_DEBUG_STOP_IN_APP: KeyName = KeyName("pmix.dbg.notify");
    pub const PMIX_DEBUG_STOP_IN_INIT: KeyName = KeyName("pmix.dbg.init");
    pub const PMIX_DEBUG_STOP_ON_EXEC: KeyName = KeyName("pmix.dbg.exec");
    pub const PMIX_DEBUG_TARGET: KeyName = KeyName("pmix.dbg.tgt");
    pub const PMIX_DEVICE_DISTANCES: KeyName = KeyName("pmix.dev.dist");
    pub const PMIX_DEVICE_ID: KeyName = KeyName("pmix.dev.id");
    pub const PMIX_DEVICE_TYPE: KeyName = KeyName("pmix.dev.type");
    pub const PMIX_DISK_ID: KeyName = KeyName("pmix.disk.id");
    pub const PMIX_DISK_IO_IN_PROGRESS: KeyName = KeyName("pmix.disk.ios");
    pub const PMIX_DISK_IO_MILLISEC: KeyName = KeyName("pmix.disk.ioms");
    pub const PMIX_DISK_IO_WEIGHTED: KeyName = KeyName("pmix.disk.iowght");
    pub const PMIX_DISK_READ_COMPLETED: KeyName = KeyName("pmix.disk.rdscomp");
    pub const PMIX_DISK_READ_MERGED: KeyName = KeyName("pmix.disk.rdsmrgd");
    pub const PMIX_DISK_READ_MILLISEC: KeyName = KeyName("pmix.disk.rdms");
    pub const PMIX_DISK_READ_SECTORS: KeyName = KeyName("pmix.disk.rdsct");
    pub const PMIX_DISK_RESOURCE_USAGE: KeyName = KeyName("pmix.disk.res");
    pub const PMIX_DISK_SAMPLE_TIME: KeyName = KeyName("pmix.disk.samptime");
    pub const PMIX_DISK_WRITE_COMPLETED: KeyName = KeyName("pmix.disk.wtscomp");
    pub const PMIX_DISK_WRITE_MERGED: KeyName = KeyName("pmix.disk.wtsmrgd");
    pub const PMIX_DISK_WRITE_MILLISEC: KeyName = KeyName("pmix.disk.wtms");
    pub const PMIX_DISK_WRITE_SECTORS: KeyName = KeyName("pmix.disk.wtsct");
    pub const PMIX_DISPLAY_ALLOCATION: KeyName = KeyName("pmix.dispalloc");
    pub const PMIX_DISPLAY_MAP: KeyName = KeyName("pmix.dispmap");
    pub const PMIX_DISPLAY_MAP_DETAILED: KeyName = KeyName("pmix.dispmapdet");
    pub const PMIX_DISPLAY_PARSEABLE_OUTPUT: KeyName = KeyName("pmix.dispparse");
    pub const PMIX_DISPLAY_PROCESSORS: KeyName = KeyName("pmix.dispcpus");
    pub const PMIX_DISPLAY_TOPOLOGY: KeyName = KeyName("pmix.disptopo");
    pub const PMIX_DO_NOT_LAUNCH: KeyName = KeyName("pmix.dnl");
    pub const PMIX_DSTPATH: KeyName = KeyName("pmix.dstpath");
    pub const PMIX_EMBED_BARRIER: KeyName = KeyName("pmix.embed.barrier");
    pub const PMIX_ENUM_VALUE: KeyName = KeyName("pmix.descr.enum");
    pub const PMIX_ENVARS_HARVESTED: KeyName = KeyName("pmix.evar.hvstd");
    pub const PMIX_EVENT_ACTION_TIMEOUT: KeyName = KeyName("pmix.evtimeout");
    pub const PMIX_EVENT_AFFECTED_PROC: KeyName = KeyName("pmix.evproc");
    pub const PMIX_EVENT_AFFECTED_PROCS: KeyName = KeyName("pmix.evaffected");
    pub const PMIX_EVENT_BASE: KeyName = KeyName("pmix.evbase");
    pub const PMIX_EVENT_CUSTOM_RANGE: KeyName = KeyName("pmix.evrange");
    pub const PMIX_EVENT_DO_NOT_CACHE: KeyName = KeyName("pmix.evnocache");
    pub const PMIX_EVENT_ENVIRO_LEVEL: KeyName = KeyName("pmix.evenv");
    pub const PMIX_EVENT_HDLR_AFTER: KeyName = KeyName("pmix.evafter");
    pub const PMIX_EVENT_HDLR_APPEND: KeyName = KeyName("pmix.evappend");
    pub const PMIX_EVENT_HDLR_BEFORE: KeyName = KeyName("pmix.evbefore");
    pub const PMIX_EVENT_HDLR_FIRST: KeyName = KeyName("pmix.evfirst");
    pub const PMIX_EVENT_HDLR_FIRST_IN_CATEGORY: KeyName = KeyName("pmix.evfirstcat");
    pub const PMIX_EVENT_HDLR_LAST: KeyName = KeyName("pmix.evlast");
    pub const PMIX_EVENT_HDLR_LAST_IN_CATEGORY: KeyName = KeyName("pmix.evlastcat");
    pub const PMIX_EVENT_HDLR_NAME: KeyName = KeyName("pmix.evname");
    pub const PMIX_EVENT_HDLR_PREPEND: KeyName = KeyName("pmix.evprepend");
    pub const PMIX_EVENT_JOB_LEVEL: KeyName = KeyName("pmix.evjob");
    pub const PMIX_EVENT_NON_DEFAULT: KeyName = KeyName("pmix.evnondef");
    pub const PMIX_EVENT_NO_TERMINATION: KeyName = KeyName("pmix.evnoterm");
    pub const PMIX_EVENT_ONESHOT: KeyName = KeyName("pmix.evone");
    pub const PMIX_EVENT_ORDER_PREPEND: KeyName = KeyName("pmix.evprepend");
    pub const PMIX_EVENT_PROXY: KeyName = KeyName("pmix.evproxy");
    pub const PMIX_EVENT_RETURN_OBJECT: KeyName = KeyName("pmix.evobject");
    pub const PMIX_EVENT_SILENT_TERMINATION: KeyName = KeyName("pmix.evsilentterm");
    pub const PMIX_EVENT_STAYS_LOCAL: KeyName = KeyName("pmix.evlocal");
    pub const PMIX_EVENT_TERMINATE_JOB: KeyName = KeyName("pmix.evterm.job");
    pub const PMIX_EVENT_TERMINATE_NODE: KeyName = KeyName("pmix.evterm.node");
    pub const PMIX_EVENT_TERMINATE_PROC: KeyName = KeyName("pmix.evterm.proc");
    pub const PMIX_EVENT_TERMINATE_SESSION: KeyName = KeyName("pmix.evterm.sess");
    pub const PMIX_EVENT_TEXT_MESSAGE: KeyName = KeyName("pmix.evtext");
    pub const PMIX_EVENT_TIMESTAMP: KeyName = KeyName("pmix.evtstamp");
    pub const PMIX_EVENT_WANT_TERMINATION: KeyName = KeyName("pmix.evterm");
    pub const PMIX_EXEC_AGENT: KeyName = KeyName("pmix.exec.agnt");
    pub const PMIX_EXIT_CODE: KeyName = KeyName("pmix.exit.code");
    pub const PMIX_EXTERNAL_AUX_EVENT_BASE: KeyName = KeyName("pmix.evaux");
    pub const PMIX_EXTERNAL_PROGRESS: KeyName = KeyName("pmix.evext");
    pub const PMIX_FABRIC_COORDINATES: KeyName = KeyName("pmix.fab.coord");
    pub const PMIX_FABRIC_COST_MATRIX: KeyName = KeyName("pmix.fab.cm");
    pub const PMIX_FABRIC_DEVICE: KeyName = KeyName("pmix.fabdev");
    pub const PMIX_FABRIC_DEVICES: KeyName = KeyName("pmix.fab.devs");
    pub const PMIX_FABRIC_DEVICE_ADDRESS: KeyName = KeyName("pmix.fabdev.addr");
    pub const PMIX_FABRIC_DEVICE_BUS_TYPE: KeyName = KeyName("pmix.fabdev.btyp");
    pub const PMIX_FABRIC_DEVICE_COORDINATES: KeyName = KeyName("pmix.fab.coord");
    pub const PMIX_FABRIC_DEVICE_DRIVER: KeyName = KeyName("pmix.fabdev.driver");
    pub const PMIX_FABRIC_DEVICE_FIRMWARE: KeyName = KeyName("pmix.fabdev.fmwr");
    pub const PMIX_FABRIC_DEVICE_INDEX: KeyName = KeyName("pmix.fabdev.idx");
    pub const PMIX_FABRIC_DEVICE_MTU: KeyName = KeyName("pmix.fabdev.mtu");
    pub const PMIX_FABRIC_DEVICE_NAME: KeyName = KeyName("pmix.fabdev.nm");
    pub const PMIX_FABRIC_DEVICE_PCI_DEVID: KeyName = KeyName("pmix.fabdev.pcidevid");
    pub const PMIX_FABRIC_DEVICE_SPEED: KeyName = KeyName("pmix.fabdev.speed");
    pub const PMIX_FABRIC_DEVICE_STATE: KeyName = KeyName("pmix.fabdev.state");
    pub const PMIX_FABRIC_DEVICE_TYPE: KeyName = KeyName("pmix.fabdev.type");
    pub const PMIX_FABRIC_DEVICE_VENDOR: KeyName = KeyName("pmix.fabdev.vndr");
    pub const PMIX_FABRIC_DEVICE_VENDORID: KeyName = KeyName("pmix.fabdev.vendid");
    pub const PMIX_FABRIC_DIMS: KeyName = KeyName("pmix.fab.dims");
    pub const PMIX_FABRIC_ENDPT: KeyName = KeyName("pmix.fab.endpt");
    pub const PMIX_FABRIC_GROUPS: KeyName = KeyName("pmix.fab.grps");
    pub const PMIX_FABRIC_IDENTIFIER: KeyName = KeyName("pmix.fab.id");
    pub const PMIX_FABRIC_INDEX: KeyName = KeyName("pmix.fab.idx");
    pub const PMIX_FABRIC_NUM_DEVICES: KeyName = KeyName("pmix.fab.nverts");
    pub const PMIX_FABRIC_PLANE: KeyName = KeyName("pmix.fab.plane");
    pub const PMIX_FABRIC_SHAPE: KeyName = KeyName("pmix.fab.shape");
    pub const PMIX_FABRIC_SHAPE_STRING: KeyName = KeyName("pmix.fab.shapestr");
    pub const PMIX_FABRIC_SWITCH: KeyName = KeyName("pmix.fab.switch");
    pub const PMIX_FABRIC_VENDOR: KeyName = KeyName("pmix.fab.vndr");
    pub const PMIX_FIRST_ENVAR: KeyName = KeyName("pmix.envar.first");
    pub const PMIX_FORKEXEC_AGENT: KeyName = KeyName("pmix.fe.agnt");
    pub const PMIX_FWD_ENVIRONMENT: KeyName = KeyName("pmix.fwdenv");
    pub const PMIX_FWD_STDDIAG: KeyName = KeyName("pmix.fwd.stddiag");
    pub const PMIX_FWD_STDERR: KeyName = KeyName("pmix.fwd.stderr");
    pub const PMIX_FWD_STDIN: KeyName = KeyName("pmix.fwd.stdin");
    pub const PMIX_FWD_STDOUT: KeyName = KeyName("pmix.fwd.stdout");
    pub const PMIX_GDS_MODULE: KeyName = KeyName("pmix.gds.mod");
    pub const PMIX_GET_POINTER_VALUES: KeyName = KeyName("pmix.get.pntrs");
    pub const PMIX_GET_REFRESH_CACHE: KeyName = KeyName("pmix.get.refresh");
    pub const PMIX_GET_STATIC_VALUES: KeyName = KeyName("pmix.get.static");
    pub const PMIX_GLOBAL_RANK: KeyName = KeyName("pmix.grank");
    pub const PMIX_GPU_SUPPORT: KeyName = KeyName("pmix.gpu.support");
    pub const PMIX_GROUP_ADD_MEMBERS: KeyName = KeyName("pmix.grp.add");
    pub const PMIX_GROUP_ASSIGN_CONTEXT_ID: KeyName = KeyName("pmix.grp.actxid");
    pub const PMIX_GROUP_BOOTSTRAP: KeyName = KeyName("pmix.grp.btstrp");
    pub const PMIX_GROUP_CONTEXT_ID: KeyName = KeyName("pmix.grp.ctxid");
    pub const PMIX_GROUP_ENDPT_DATA: KeyName = KeyName("pmix.grp.endpt");
    pub const PMIX_GROUP_FINAL_MEMBERSHIP_ORDER: KeyName = KeyName("pmix.grp.finord");
    pub const PMIX_GROUP_FT_COLLECTIVE: KeyName = KeyName("pmix.grp.ftcoll");
    pub const PMIX_GROUP_ID: KeyName = KeyName("pmix.grp.id");
    pub const PMIX_GROUP_INFO: KeyName = KeyName("pmix.grp.info");
    pub const PMIX_GROUP_INFO_ARRAY: KeyName = KeyName("pmix.grp.infoarray");
    pub const PMIX_GROUP_JOB_INFO: KeyName = KeyName("pmix.grp.jinfo");
    pub const PMIX_GROUP_LEADER: KeyName = KeyName("pmix.grp.ldr");
    pub const PMIX_GROUP_LOCAL_CID: KeyName = KeyName("pmix.grp.lclid");
    pub const PMIX_GROUP_LOCAL_ONLY: KeyName = KeyName("pmix.grp.lcl");
    pub const PMIX_GROUP_MEMBERSHIP: KeyName = KeyName("pmix.grp.mbrs");
    pub const PMIX_GROUP_NAMES: KeyName = KeyName("pmix.pgrp.nm");
    pub const PMIX_GROUP_NOTIFY_TERMINATION: KeyName = KeyName("pmix.grp.notterm");
    pub const PMIX_GROUP_OPTIONAL: KeyName = KeyName("pmix.grp.opt");
    pub const PMIX_GRPID: KeyName = KeyName("pmix.egid");
    pub const PMIX_HOMOGENEOUS_SYSTEM: KeyName = KeyName("pmix.homo");
    pub const PMIX_HOST: KeyName = KeyName("pmix.host");
    pub const PMIX_HOSTFILE: KeyName = KeyName("pmix.hostfile");
    pub const PMIX_HOSTNAME: KeyName = KeyName("pmix.hname");
    pub const PMIX_HOSTNAME_ALIASES: KeyName = KeyName("pmix.alias");
    pub const PMIX_HOSTNAME_KEEP_FQDN: KeyName = KeyName("pmix.fqdn");
    pub const PMIX_HOST_ATTRIBUTES: KeyName = KeyName("pmix.host.attrs");
    pub const PMIX_HOST_FUNCTIONS: KeyName = KeyName("pmix.host.fns");
    pub const PMIX_HWLOC_HOLE_KIND: KeyName = KeyName("pmix.hwlocholek");
    pub const PMIX_HWLOC_SHARE_TOPO: KeyName = KeyName("pmix.hwlocsh");
    pub const PMIX_HWLOC_SHMEM_ADDR: KeyName = KeyName("pmix.hwlocaddr");
    pub const PMIX_HWLOC_SHMEM_FILE: KeyName = KeyName("pmix.hwlocfile");
    pub const PMIX_HWLOC_SHMEM_SIZE: KeyName = KeyName("pmix.hwlocsize");
    pub const PMIX_HWLOC_XML_V1: KeyName = KeyName("pmix.hwlocxml1");
    pub const PMIX_HWLOC_XML_V2: KeyName = KeyName("pmix.hwlocxml2");
    pub const PMIX_IMMEDIATE: KeyName = KeyName("pmix.immediate");
    pub const PMIX_INDEX_ARGV: KeyName = KeyName("pmix.indxargv");
    pub const PMIX_IOF_BUFFERING_SIZE: KeyName = KeyName("pmix.iof.bsize");
    pub const PMIX_IOF_BUFFERING_TIME: KeyName = KeyName("pmix.iof.btime");
    pub const PMIX_IOF_CACHE_SIZE: KeyName = KeyName("pmix.iof.csize");
    pub const PMIX_IOF_COMPLETE: KeyName = KeyName("pmix.iof.cmp");
    pub const PMIX_IOF_COPY: KeyName = KeyName("pmix.iof.cpy");
    pub const PMIX_IOF_DROP_NEWEST: KeyName = KeyName("pmix.iof.new");
    pub const PMIX_IOF_DROP_OLDEST: KeyName = KeyName("pmix.iof.old");
    pub const PMIX_IOF_FILE_ONLY: KeyName = KeyName("pmix.iof.fonly");
    pub const PMIX_IOF_FILE_PATTERN: KeyName = KeyName("pmix.iof.fpt");
    pub const PMIX_IOF_INHERIT: KeyName = KeyName("pmix.iof.inhrt");
    pub const PMIX_IOF_LOCAL_OUTPUT: KeyName = KeyName("pmix.iof.local");
    pub const PMIX_IOF_MERGE_STDERR_STDOUT: KeyName = KeyName("pmix.iof.mrg");
    pub const PMIX_IOF_OUTPUT_RAW: KeyName = KeyName("pmix.iof.raw");
    pub const PMIX_IOF_OUTPUT_TO_DIRECTORY: KeyName = KeyName("pmix.iof.dir");
    pub const PMIX_IOF_OUTPUT_TO_FILE: KeyName = KeyName("pmix.iof.file");
    pub const PMIX_IOF_PUSH_STDIN: KeyName = KeyName("pmix.iof.stdin");
    pub const PMIX_IOF_RANK_OUTPUT: KeyName = KeyName("pmix.iof.rank");
    pub const PMIX_IOF_REDIRECT: KeyName = KeyName("pmix.iof.redir");
    pub const PMIX_IOF_STOP: KeyName = KeyName("pmix.iof.stop");
    pub const PMIX_IOF_TAG_DETAILED_OUTPUT: KeyName = KeyName("pmix.iof.tagdet");
    pub const PMIX_IOF_TAG_FULLNAME_OUTPUT: KeyName = KeyName("pmix.iof.tagfull");
    pub const PMIX_IOF_TAG_OUTPUT: KeyName = KeyName("pmix.iof.tag");
    pub const PMIX_IOF_TIMESTAMP_OUTPUT: KeyName = KeyName("pmix.iof.ts");
    pub const PMIX_IOF_XML_OUTPUT: KeyName = KeyName("pmix.iof.xml");
    pub const PMIX_JOBID: KeyName = KeyName("pmix.jobid");
    pub const PMIX_JOB_CONTINUOUS: KeyName = KeyName("pmix.continuous");
    pub const PMIX_JOB_CTRL_CANCEL: KeyName = KeyName("pmix.jctrl.cancel");
    pub const PMIX_JOB_CTRL_CHECKPOINT: KeyName = KeyName("pmix.jctrl.ckpt");
    pub const PMIX_JOB_CTRL_CHECKPOINT_EVENT: KeyName = KeyName("pmix.jctrl.ckptev");
    pub const PMIX_JOB_CTRL_CHECKPOINT_METHOD: KeyName = KeyName("pmix.jctrl.ckmethod");
    pub const PMIX_JOB_CTRL_CHECKPOINT_SIGNAL: KeyName = KeyName("pmix.jctrl.ckptsig");
    pub const PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT: KeyName = KeyName("pmix.jctrl.ckptsig");
    pub const PMIX_JOB_CTRL_DEFINE_PSET: KeyName = KeyName("pmix.jctrl.defpset");
    pub const PMIX_JOB_CTRL_ID: KeyName = KeyName("pmix.jctrl.id");
    pub const PMIX_JOB_CTRL_KILL: KeyName = KeyName("pmix.jctrl.kill");
    pub const PMIX_JOB_CTRL_PAUSE: KeyName = KeyName("pmix.jctrl.pause");
    pub const PMIX_JOB_CTRL_PREEMPTIBLE: KeyName = KeyName("pmix.jctrl.preempt");
    pub const PMIX_JOB_CTRL_PROVISION: KeyName = KeyName("pmix.jctrl.pvn");
    pub const PMIX_JOB_CTRL_PROVISION_IMAGE: KeyName = KeyName("pmix.jctrl.pvnimg");
    pub const PMIX_JOB_CTRL_RESTART: KeyName = KeyName("pmix.jctrl.restart");
    pub const PMIX_JOB_CTRL_RESUME: KeyName = KeyName("pmix.jctrl.resume");
    pub const PMIX_JOB_CTRL_SEP: KeyName = KeyName("pmix.jctrl.sep");
    pub const PMIX_JOB_CTRL_SIGNAL: KeyName = KeyName("pmix.jctrl.sig");
    pub const PMIX_JOB_CTRL_TERMINATE: KeyName = KeyName("pmix.jctrl.term");
    pub const PMIX_JOB_INFO: KeyName = KeyName("pmix.job.info");
    pub const PMIX_JOB_INFO_ARRAY: KeyName = KeyName("pmix.job.arr");
    pub const PMIX_JOB_NUM_APPS: KeyName = KeyName("pmix.job.napps");
    pub const PMIX_JOB_RECOVERABLE: KeyName = KeyName("pmix.recover");
    pub const PMIX_JOB_SIZE: KeyName = KeyName("pmix.job.size");
    pub const PMIX_JOB_TERM_STATUS: KeyName = KeyName("pmix.job.term.status");
    pub const PMIX_JOB_TIMEOUT: KeyName = KeyName("pmix.job.time");
    pub const PMIX_KEEPALIVE_PIPE: KeyName = KeyName("PMIX_KEEPALIVE_PIPE");
    pub const PMIX_LAUNCHER: KeyName = KeyName("pmix.tool.launcher");
    pub const PMIX_LAUNCHER_DAEMON: KeyName = KeyName("pmix.lnch.dmn");
    pub const PMIX_LAUNCHER_RENDEZVOUS_FILE: KeyName = KeyName("pmix.tool.lncrnd");
    pub const PMIX_LAUNCHER_RNDZ_FILE: KeyName = KeyName("PMIX_LAUNCHER_RNDZ_FILE");
    pub const PMIX_LAUNCHER_RNDZ_URI: KeyName = KeyName("PMIX_LAUNCHER_RNDZ_URI");
    pub const PMIX_LAUNCH_DIRECTIVES: KeyName = KeyName("pmix.lnch.dirs");
    pub const PMIX_LOCALITY: KeyName = KeyName("pmix.loc");
    pub const PMIX_LOCALITY_STRING: KeyName = KeyName("pmix.locstr");
    pub const PMIX_LOCALLDR: KeyName = KeyName("pmix.lldr");
    pub const PMIX_LOCAL_COLLECTIVE_STATUS: KeyName = KeyName("pmix.loc.col.st");
    pub const PMIX_LOCAL_CPUSETS: KeyName = KeyName("pmix.lcpus");
    pub const PMIX_LOCAL_PARTICIPANTS: KeyName = KeyName("pmix.lcl.part");
    pub const PMIX_LOCAL_PEERS: KeyName = KeyName("pmix.lpeers");
    pub const PMIX_LOCAL_PROCS: KeyName = KeyName("pmix.lprocs");
    pub const PMIX_LOCAL_RANK: KeyName = KeyName("pmix.lrank");
    pub const PMIX_LOCAL_SIZE: KeyName = KeyName("pmix.local.size");
    pub const PMIX_LOCAL_TOPO: KeyName = KeyName("pmix.ltopo");
    pub const PMIX_LOG_AGG: KeyName = KeyName("pmix.log.agg");
    pub const PMIX_LOG_COMPLETION: KeyName = KeyName("pmix.logcomp");
    pub const PMIX_LOG_EMAIL: KeyName = KeyName("pmix.log.email");
    pub const PMIX_LOG_EMAIL_ADDR: KeyName = KeyName("pmix.log.emaddr");
    pub const PMIX_LOG_EMAIL_MSG: KeyName = KeyName("pmix.log.emmsg");
    pub const PMIX_LOG_EMAIL_SENDER_ADDR: KeyName = KeyName("pmix.log.emfaddr");
    pub const PMIX_LOG_EMAIL_SERVER: KeyName = KeyName("pmix.log.esrvr");
    pub const PMIX_LOG_EMAIL_SRVR_PORT: KeyName = KeyName("pmix.log.esrvrprt");
    pub const PMIX_LOG_EMAIL_SUBJECT: KeyName = KeyName("pmix.log.emsub");
    pub const PMIX_LOG_GENERATE_TIMESTAMP: KeyName = KeyName("pmix.log.gtstmp");
    pub const PMIX_LOG_GLOBAL_DATASTORE: KeyName = KeyName("pmix.log.gstore");
    pub const PMIX_LOG_GLOBAL_SYSLOG: KeyName = KeyName("pmix.log.gsys");
    pub const PMIX_LOG_JOB_EVENTS: KeyName = KeyName("pmix.log.jev");
    pub const PMIX_LOG_JOB_RECORD: KeyName = KeyName("pmix.log.jrec");
    pub const PMIX_LOG_KEY: KeyName = KeyName("pmix.log.key");
    pub const PMIX_LOG_LOCAL_SYSLOG: KeyName = KeyName("pmix.log.lsys");
    pub const PMIX_LOG_MSG: KeyName = KeyName("pmix.log.msg");
    pub const PMIX_LOG_ONCE: KeyName = KeyName("pmix.log.once");
    pub const PMIX_LOG_PROC_ABNORMAL_TERMINATION: KeyName = KeyName("pmix.logabproc");
    pub const PMIX_LOG_PROC_TERMINATION: KeyName = KeyName("pmix.logproc");
    pub const PMIX_LOG_SOURCE: KeyName = KeyName("pmix.log.source");
    pub const PMIX_LOG_STDERR: KeyName = KeyName("pmix.log.stderr");
    pub const PMIX_LOG_STDOUT: KeyName = KeyName("pmix.log.stdout");
    pub const PMIX_LOG_SYSLOG: KeyName = KeyName("pmix.log.syslog");
    pub const PMIX_LOG_SYSLOG_PRI: KeyName = KeyName("pmix.log.syspri");
    pub const PMIX_LOG_TAG_OUTPUT: KeyName = KeyName("pmix.log.tag");
    pub const PMIX_LOG_TIMESTAMP: KeyName = KeyName("pmix.log.tstmp");
    pub const PMIX_LOG_TIMESTAMP_OUTPUT: KeyName = KeyName("pmix.log.tsout");
    pub const PMIX_LOG_VAL: KeyName = KeyName("pmix.log.val");
    pub const PMIX_LOG_XML_OUTPUT: KeyName = KeyName("pmix.log.xml");
    pub const PMIX_MAPBY: KeyName = KeyName("pmix.mapby");
    pub const PMIX_MAPPER: KeyName = KeyName("pmix.mapper");
    pub const PMIX_MAP_BLOB: KeyName = KeyName("pmix.mblob");
    pub const PMIX_MAX_PROCS: KeyName = KeyName("pmix.max.size");
    pub const PMIX_MAX_RESTARTS: KeyName = KeyName("pmix.maxrestarts");
    pub const PMIX_MAX_VALUE: KeyName = KeyName("pmix.descr.maxval");
    pub const PMIX_MEM_ALLOC_KIND: KeyName = KeyName("pmix.alloc.mkind");
    pub const PMIX_MERGE_STDERR_STDOUT: KeyName = KeyName("pmix.mergeerrout");
    pub const PMIX_MIN_VALUE: KeyName = KeyName("pmix.descr.minval");
    pub const PMIX_MODEL_AFFINITY_POLICY: KeyName = KeyName("pmix.mdl.tap");
    pub const PMIX_MODEL_CPU_TYPE: KeyName = KeyName("pmix.mdl.cputype");
    pub const PMIX_MODEL_LIBRARY_NAME: KeyName = KeyName("pmix.mdl.name");
    pub const PMIX_MODEL_LIBRARY_VERSION: KeyName = KeyName("pmix.mld.vrs");
    pub const PMIX_MODEL_NUM_CPUS: KeyName = KeyName("pmix.mdl.ncpu");
    pub const PMIX_MODEL_NUM_THREADS: KeyName = KeyName("pmix.mdl.nthrds");
    pub const PMIX_MODEL_PHASE_NAME: KeyName = KeyName("pmix.mdl.phase");
    pub const PMIX_MODEL_PHASE_TYPE: KeyName = KeyName("pmix.mdl.ptype");
    pub const PMIX_MONITOR_APP_CONTROL: KeyName = KeyName("pmix.monitor.appctrl");
    pub const PMIX_MONITOR_CANCEL: KeyName = KeyName("pmix.monitor.cancel");
    pub const PMIX_MONITOR_DISK_RESOURCE_USAGE: KeyName = KeyName("pmix.monitor.dkresuse");
    pub const PMIX_MONITOR_FILE: KeyName = KeyName("pmix.monitor.fmon");
    pub const PMIX_MONITOR_FILE_ACCESS: KeyName = KeyName("pmix.monitor.faccess");
    pub const PMIX_MONITOR_FILE_CHECK_TIME: KeyName = KeyName("pmix.monitor.ftime");
    pub const PMIX_MONITOR_FILE_DROPS: KeyName = KeyName("pmix.monitor.fdrop");
    pub const PMIX_MONITOR_FILE_MODIFY: KeyName = KeyName("pmix.monitor.fmod");
    pub const PMIX_MONITOR_FILE_SIZE: KeyName = KeyName("pmix.monitor.fsize");
    pub const PMIX_MONITOR_HEARTBEAT: KeyName = KeyName("pmix.monitor.mbeat");
    pub const PMIX_MONITOR_HEARTBEAT_DROPS: KeyName = KeyName("pmix.monitor.bdrop");
    pub const PMIX_MONITOR_HEARTBEAT_TIME: KeyName = KeyName("pmix.monitor.btime");
    pub const PMIX_MONITOR_ID: KeyName = KeyName("pmix.monitor.id");
    pub const PMIX_MONITOR_LOCAL_ONLY: KeyName = KeyName("pmix.monitor.local");
    pub const PMIX_MONITOR_NET_RESOURCE_USAGE: KeyName = KeyName("pmix.monitor.netresuse");
    pub const PMIX_MONITOR_NODE_RESOURCE_USAGE: KeyName = KeyName("pmix.monitor.ndresuse");
    pub const PMIX_MONITOR_PROC_RESOURCE_USAGE: KeyName = KeyName("pmix.monitor.presuse");
    pub const PMIX_MONITOR_PROXY: KeyName = KeyName("pmix.monitor.proxy");
    pub const PMIX_MONITOR_RESOURCE_RATE: KeyName = KeyName("pmix.monitor.resrate");
    pub const PMIX_MONITOR_TARGET_DISKS: KeyName = KeyName("pmix.monitor.tgtdks");
    pub const PMIX_MONITOR_TARGET_NETS: KeyName = KeyName("pmix.monitor.tgtnets");
    pub const PMIX_MONITOR_TARGET_NODEIDS: KeyName = KeyName("pmix.monitor.tgtndids");
    pub const PMIX_MONITOR_TARGET_NODES: KeyName = KeyName("pmix.monitor.tgtnode");
    pub const PMIX_MONITOR_TARGET_PIDS: KeyName = KeyName("pmix.monitor.tgtpid");
    pub const PMIX_MONITOR_TARGET_PROCS: KeyName = KeyName("pmix.monitor.tgtproc");
    pub const PMIX_MYSERVER_URI: KeyName = KeyName("pmix.mysrvr.uri");
    pub const PMIX_NETWORK_ID: KeyName = KeyName("pmix.net.id");
    pub const PMIX_NETWORK_RESOURCE_USAGE: KeyName = KeyName("pmix.net.res");
    pub const PMIX_NET_RECVD_BYTES: KeyName = KeyName("pmix.net.rcb");
    pub const PMIX_NET_RECVD_ERRS: KeyName = KeyName("pmix.net.rcerr");
    pub const PMIX_NET_RECVD_PCKTS: KeyName = KeyName("pmix.net.rcp");
    pub const PMIX_NET_SAMPLE_TIME: KeyName = KeyName("pmix.net.samptime");
    pub const PMIX_NET_SENT_BYTES: KeyName = KeyName("pmix.net.sntb");
    pub const PMIX_NET_SENT_ERRS: KeyName = KeyName("pmix.net.snterr");
    pub const PMIX_NET_SENT_PCKTS: KeyName = KeyName("pmix.net.sntp");
    pub const PMIX_NODEID: KeyName = KeyName("pmix.nodeid");
    pub const PMIX_NODE_INFO: KeyName = KeyName("pmix.node.info");
    pub const PMIX_NODE_INFO_ARRAY: KeyName = KeyName("pmix.node.arr");
    pub const PMIX_NODE_LIST: KeyName = KeyName("pmix.nlist");
    pub const PMIX_NODE_LOAD_AVG: KeyName = KeyName("pmix.node.la");
    pub const PMIX_NODE_LOAD_AVG15: KeyName = KeyName("pmix.node.la15");
    pub const PMIX_NODE_LOAD_AVG5: KeyName = KeyName("pmix.node.la5");
    pub const PMIX_NODE_MAP: KeyName = KeyName("pmix.nmap");
    pub const PMIX_NODE_MAP_RAW: KeyName = KeyName("pmix.nmap.raw");
    pub const PMIX_NODE_MEM_BUFFERS: KeyName = KeyName("pmix.node.mbuf");
    pub const PMIX_NODE_MEM_CACHED: KeyName = KeyName("pmix.node.mcache");
    pub const PMIX_NODE_MEM_FREE: KeyName = KeyName("pmix.node.mfree");
    pub const PMIX_NODE_MEM_MAPPED: KeyName = KeyName("pmix.node.mmap");
    pub const PMIX_NODE_MEM_SWAP_CACHED: KeyName = KeyName("pmix.node.mswpc");
    pub const PMIX_NODE_MEM_SWAP_FREE: KeyName = KeyName("pmix.node.mswpfree");
    pub const PMIX_NODE_MEM_TOTAL: KeyName = KeyName("pmix.node.mtot");
    pub const PMIX_NODE_OVERSUBSCRIBED: KeyName = KeyName("pmix.ndosub");
    pub const PMIX_NODE_RANK: KeyName = KeyName("pmix.nrank");
    pub const PMIX_NODE_RESOURCE_USAGE: KeyName = KeyName("pmix.node.res");
    pub const PMIX_NODE_SAMPLE_TIME: KeyName = KeyName("pmix.node.samptime");
    pub const PMIX_NODE_SIZE: KeyName = KeyName("pmix.node.size");
    pub const PMIX_NODE_SWAP_TOTAL: KeyName = KeyName("pmix.node.mswpt");
    pub const PMIX_NOHUP: KeyName = KeyName("pmix.nohup");
    pub const PMIX_NON_PMI: KeyName = KeyName("pmix.nonpmi");
    pub const PMIX_NOTIFY_COMPLETION: KeyName = KeyName("pmix.notecomp");
    pub const PMIX_NOTIFY_JOB_EVENTS: KeyName = KeyName("pmix.note.jev");
    pub const PMIX_NOTIFY_LAUNCH: KeyName = KeyName("pmix.note.lnch");
    pub const PMIX_NOTIFY_PROC_ABNORMAL_TERMINATION: KeyName = KeyName("pmix.noteabproc");
    pub const PMIX_NOTIFY_PROC_TERMINATION: KeyName = KeyName("pmix.noteproc");
    pub const PMIX_NO_OVERSUBSCRIBE: KeyName = KeyName("pmix.noover");
    pub const PMIX_NO_PROCS_ON_HEAD: KeyName = KeyName("pmix.nolocal");
    pub const PMIX_NPROC_OFFSET: KeyName = KeyName("pmix.offset");
    pub const PMIX_NSDIR: KeyName = KeyName("pmix.nsdir");
    pub const PMIX_NSPACE: KeyName = KeyName("pmix.nspace");
    pub const PMIX_NUM_ALLOCATED_NODES: KeyName = KeyName("pmix.num.anodes");
    pub const PMIX_NUM_NODES: KeyName = KeyName("pmix.num.nodes");
    pub const PMIX_NUM_SLOTS: KeyName = KeyName("pmix.num.slots");
    pub const PMIX_OPTIONAL: KeyName = KeyName("pmix.optional");
    pub const PMIX_OUTPUT_NOCOPY: KeyName = KeyName("pmix.nocopy");
    pub const PMIX_OUTPUT_TO_DIRECTORY: KeyName = KeyName("pmix.outdir");
    pub const PMIX_OUTPUT_TO_FILE: KeyName = KeyName("pmix.outfile");
    pub const PMIX_PACKAGE_RANK: KeyName = KeyName("pmix.pkgrank");
    pub const PMIX_PARENT_ID: KeyName = KeyName("pmix.parent");
    pub const PMIX_PERSISTENCE: KeyName = KeyName("pmix.persist");
    pub const PMIX_PERSONALITY: KeyName = KeyName("pmix.pers");
    pub const PMIX_PNET_SETUP_APP: KeyName = KeyName("pmix.pnet.setapp");
    pub const PMIX_PPR: KeyName = KeyName("pmix.ppr");
    pub const PMIX_PREFIX: KeyName = KeyName("pmix.prefix");
    pub const PMIX_PRELOAD_BIN: KeyName = KeyName("pmix.preloadbin");
    pub const PMIX_PRELOAD_FILES: KeyName = KeyName("pmix.preloadfiles");
    pub const PMIX_PREPEND_ENVAR: KeyName = KeyName("pmix.envar.prepnd");
    pub const PMIX_PRIMARY_SERVER: KeyName = KeyName("pmix.pri.srvr");
    pub const PMIX_PROCDIR: KeyName = KeyName("pmix.pdir");
    pub const PMIX_PROCID: KeyName = KeyName("pmix.procid");
    pub const PMIX_PROC_BLOB: KeyName = KeyName("pmix.pblob");
    pub const PMIX_PROC_CPU: KeyName = KeyName("pmix.proc.cpu");
    pub const PMIX_PROC_DATA: KeyName = KeyName("pmix.pdata");
    pub const PMIX_PROC_INFO_ARRAY: KeyName = KeyName("pmix.pdata");
    pub const PMIX_PROC_MAP: KeyName = KeyName("pmix.pmap");
    pub const PMIX_PROC_MAP_RAW: KeyName = KeyName("pmix.pmap.raw");
    pub const PMIX_PROC_NUM_THREADS: KeyName = KeyName("pmix.proc.nthr");
    pub const PMIX_PROC_OS_STATE: KeyName = KeyName("pmix.proc.osstate");
    pub const PMIX_PROC_PEAK_VSIZE: KeyName = KeyName("pmix.proc.pkvsize");
    pub const PMIX_PROC_PERCENT_CPU: KeyName = KeyName("pmix.proc.pcpu");
    pub const PMIX_PROC_PID: KeyName = KeyName("pmix.ppid");
    pub const PMIX_PROC_PRIORITY: KeyName = KeyName("pmix.proc.pri");
    pub const PMIX_PROC_PSS: KeyName = KeyName("pmix.proc.pss");
    pub const PMIX_PROC_RESOURCE_USAGE: KeyName = KeyName("pmix.proc.res");
    pub const PMIX_PROC_RSS: KeyName = KeyName("pmix.proc.rss");
    pub const PMIX_PROC_SAMPLE_TIME: KeyName = KeyName("pmix.proc.samptime");
    pub const PMIX_PROC_STATE_STATUS: KeyName = KeyName("pmix.proc.state");
    pub const PMIX_PROC_TERM_STATUS: KeyName = KeyName("pmix.proc.term.status");
    pub const PMIX_PROC_TIME: KeyName = KeyName("pmix.proc.time");
    pub const PMIX_PROC_URI: KeyName = KeyName("pmix.puri");
    pub const PMIX_PROC_VSIZE: KeyName = KeyName("pmix.proc.vsize");
    pub const PMIX_PROGRAMMING_MODEL: KeyName = KeyName("pmix.pgm.model");
    pub const PMIX_PROGRESS_THREAD_FLUSH: KeyName = KeyName("pmix.evflush");
    pub const PMIX_PROGRESS_THREAD_NAME: KeyName = KeyName("pmix.evname");
    pub const PMIX_PSET_MEMBERS: KeyName = KeyName("pmix.pset.mems");
    pub const PMIX_PSET_NAME: KeyName = KeyName("pmix.pset.nm");
    pub const PMIX_PSET_NAMES: KeyName = KeyName("pmix.pset.nms");
    pub const PMIX_PTY_TERMIO: KeyName = KeyName("pmix.pty.termio");
    pub const PMIX_PTY_WSIZE: KeyName = KeyName("pmix.pty.wsize");
    pub const PMIX_QUALIFIED_VALUE: KeyName = KeyName("pmix.qual.val");
    pub const PMIX_QUERY_ALLOCATION: KeyName = KeyName("pmix.query.allc");
    pub const PMIX_QUERY_ALLOC_IDS: KeyName = KeyName("pmix.query.alloc.ids");
    pub const PMIX_QUERY_ALLOC_PROPERTIES: KeyName = KeyName("pmix.query.alloc.prop");
    pub const PMIX_QUERY_ALLOC_STATUS: KeyName = KeyName("pmix.query.alloc");
    pub const PMIX_QUERY_ATTRIBUTE_SUPPORT: KeyName = KeyName("pmix.qry.attrs");
    pub const PMIX_QUERY_AUTHORIZATIONS: KeyName = KeyName("pmix.qry.auths");
    pub const PMIX_QUERY_AVAILABLE_SLOTS: KeyName = KeyName("pmix.qry.aslots");
    pub const PMIX_QUERY_AVAIL_SERVERS: KeyName = KeyName("pmix.qry.asrvrs");
    pub const PMIX_QUERY_DEBUG_SUPPORT: KeyName = KeyName("pmix.qry.debug");
    pub const PMIX_QUERY_DEVICES: KeyName = KeyName("pmix.qry.dev");
    pub const PMIX_QUERY_GROUP_MEMBERSHIP: KeyName = KeyName("pmix.qry.pgrpmems");
    pub const PMIX_QUERY_GROUP_NAMES: KeyName = KeyName("pmix.qry.pgrp");
    pub const PMIX_QUERY_JOB_STATUS: KeyName = KeyName("pmix.qry.jst");
    pub const PMIX_QUERY_LOCAL_ONLY: KeyName = KeyName("pmix.qry.local");
    pub const PMIX_QUERY_LOCAL_PROC_TABLE: KeyName = KeyName("pmix.qry.lptable");
    pub const PMIX_QUERY_LOG_CHANNELS: KeyName = KeyName("pmix.qry.lchans");
    pub const PMIX_QUERY_MEMORY_USAGE: KeyName = KeyName("pmix.qry.mem");
    pub const PMIX_QUERY_MIN_ALLOC_UNIT: KeyName = KeyName("pmix.qry.minau");
    pub const PMIX_QUERY_NAMESPACES: KeyName = KeyName("pmix.qry.ns");
    pub const PMIX_QUERY_NAMESPACE_INFO: KeyName = KeyName("pmix.qry.nsinfo");
    pub const PMIX_QUERY_NODE_RESOURCE_USAGE: KeyName = KeyName("pmix.qry.nres");
    pub const PMIX_QUERY_NUM_GROUPS: KeyName = KeyName("pmix.qry.pgrpnum");
    pub const PMIX_QUERY_NUM_PSETS: KeyName = KeyName("pmix.qry.psetnum");
    pub const PMIX_QUERY_PROC_RESOURCE_USAGE: KeyName = KeyName("pmix.qry.pres");
    pub const PMIX_QUERY_PROC_TABLE: KeyName = KeyName("pmix.qry.ptable");
    pub const PMIX_QUERY_PROVISIONAL_ABI_VERSION: KeyName = KeyName("pmix.qry.prabiver");
    pub const PMIX_QUERY_PSET_MEMBERSHIP: KeyName = KeyName("pmix.qry.pmems");
    pub const PMIX_QUERY_PSET_NAMES: KeyName = KeyName("pmix.qry.psets");
    pub const PMIX_QUERY_QUALIFIERS: KeyName = KeyName("pmix.qry.quals");
    pub const PMIX_QUERY_QUEUE_LIST: KeyName = KeyName("pmix.qry.qlst");
    pub const PMIX_QUERY_QUEUE_STATUS: KeyName = KeyName("pmix.qry.qst");
    pub const PMIX_QUERY_REFRESH_CACHE: KeyName = KeyName("pmix.qry.rfsh");
    pub const PMIX_QUERY_REPORT_AVG: KeyName = KeyName("pmix.qry.avg");
    pub const PMIX_QUERY_REPORT_MINMAX: KeyName = KeyName("pmix.qry.minmax");
    pub const PMIX_QUERY_RESOLVE_NODE: KeyName = KeyName("pmix.qry.node");
    pub const PMIX_QUERY_RESOLVE_PEERS: KeyName = KeyName("pmix.qry.peers");
    pub const PMIX_QUERY_RESULTS: KeyName = KeyName("pmix.qry.res");
    pub const PMIX_QUERY_RES_BLOCKS: KeyName = KeyName("pmix.qry.resblks");
    pub const PMIX_QUERY_RES_BLOCK_DEF: KeyName = KeyName("pmix.qry.resdef");
    pub const PMIX_QUERY_SPAWN_SUPPORT: KeyName = KeyName("pmix.qry.spawn");
    pub const PMIX_QUERY_STABLE_ABI_VERSION: KeyName = KeyName("pmix.qry.stabiver");
    pub const PMIX_QUERY_STORAGE_LIST: KeyName = KeyName("pmix.strg.list");
    pub const PMIX_QUERY_SUPPORTED_KEYS: KeyName = KeyName("pmix.qry.keys");
    pub const PMIX_QUERY_SUPPORTED_QUALIFIERS: KeyName = KeyName("pmix.qry.quals");
    pub const PMIX_RANGE: KeyName = KeyName("pmix.range");
    pub const PMIX_RANK: KeyName = KeyName("pmix.rank");
    pub const PMIX_RANKBY: KeyName = KeyName("pmix.rankby");
    pub const PMIX_REALGID: KeyName = KeyName("pmix.rgid");
    pub const PMIX_REALUID: KeyName = KeyName("pmix.ruid");
    pub const PMIX_RECONNECT_SERVER: KeyName = KeyName("pmix.cnct.recon");
    pub const PMIX_REGISTER_CLEANUP: KeyName = KeyName("pmix.reg.cleanup");
    pub const PMIX_REGISTER_CLEANUP_DIR: KeyName = KeyName("pmix.reg.cleanupdir");
    pub const PMIX_REGISTER_NODATA: KeyName = KeyName("pmix.reg.nodata");
    pub const PMIX_REINCARNATION: KeyName = KeyName("pmix.reinc");
    pub const PMIX_REPORT_BINDINGS: KeyName = KeyName("pmix.repbind");
    pub const PMIX_REPORT_CHILD_SEP: KeyName = KeyName("pmix.rptchildsep");
    pub const PMIX_REPORT_PHYSICAL_CPUS: KeyName = KeyName("pmix.repphys.cpus");
    pub const PMIX_REQUESTOR: KeyName = KeyName("pmix.requestor");
    pub const PMIX_REQUESTOR_IS_CLIENT: KeyName = KeyName("pmix.req.client");
    pub const PMIX_REQUESTOR_IS_TOOL: KeyName = KeyName("pmix.req.tool");
    pub const PMIX_REQUIRED_KEY: KeyName = KeyName("pmix.req.key");
    pub const PMIX_RESOURCE_BLOCK_NAME: KeyName = KeyName("pmix.resblkname");
    pub const PMIX_RM_NAME: KeyName = KeyName("pmix.rm.name");
    pub const PMIX_RM_VERSION: KeyName = KeyName("pmix.rm.version");
    pub const PMIX_RUNTIME_OPTIONS: KeyName = KeyName("pmix.runopt");
    pub const PMIX_SEND_HEARTBEAT: KeyName = KeyName("pmix.monitor.beat");
    pub const PMIX_SERVER_ALLOW_FOREIGN_TOOLS: KeyName = KeyName("pmix.srvr.ftools");
    pub const PMIX_SERVER_ATTRIBUTES: KeyName = KeyName("pmix.srvr.attrs");
    pub const PMIX_SERVER_ENABLE_MONITORING: KeyName = KeyName("pmix.srv.monitor");
    pub const PMIX_SERVER_FUNCTIONS: KeyName = KeyName("pmix.srvr.fns");
    pub const PMIX_SERVER_GATEWAY: KeyName = KeyName("pmix.srv.gway");
    pub const PMIX_SERVER_HOSTNAME: KeyName = KeyName("pmix.srvr.host");
    pub const PMIX_SERVER_INFO_ARRAY: KeyName = KeyName("pmix.srv.arr");
    pub const PMIX_SERVER_NSPACE: KeyName = KeyName("pmix.srv.nspace");
    pub const PMIX_SERVER_PIDINFO: KeyName = KeyName("pmix.srvr.pidinfo");
    pub const PMIX_SERVER_RANK: KeyName = KeyName("pmix.srv.rank");
    pub const PMIX_SERVER_REMOTE_CONNECTIONS: KeyName = KeyName("pmix.srvr.remote");
    pub const PMIX_SERVER_SCHEDULER: KeyName = KeyName("pmix.srv.sched");
    pub const PMIX_SERVER_SESSION_SUPPORT: KeyName = KeyName("pmix.srvr.sess");
    pub const PMIX_SERVER_SHARE_TOPOLOGY: KeyName = KeyName("pmix.srvr.share");
    pub const PMIX_SERVER_START_TIME: KeyName = KeyName("pmix.srv.strtime");
    pub const PMIX_SERVER_SYSTEM_SUPPORT: KeyName = KeyName("pmix.srvr.sys");
    pub const PMIX_SERVER_SYS_CONTROLLER: KeyName = KeyName("pmix.srv.ctrlr");
    pub const PMIX_SERVER_TMPDIR: KeyName = KeyName("pmix.srvr.tmpdir");
    pub const PMIX_SERVER_TOOL_SUPPORT: KeyName = KeyName("pmix.srvr.tool");
    pub const PMIX_SERVER_URI: KeyName = KeyName("pmix.srvr.uri");
    pub const PMIX_SESSION_APP: KeyName = KeyName("pmix.ssn.app");
    pub const PMIX_SESSION_COMPLETE: KeyName = KeyName("pmix.ssn.complete");
    pub const PMIX_SESSION_CTRL_ID: KeyName = KeyName("pmix.ssnctrl.id");
    pub const PMIX_SESSION_EXTEND: KeyName = KeyName("pmix.ssn.xtend");
    pub const PMIX_SESSION_ID: KeyName = KeyName("pmix.session.id");
    pub const PMIX_SESSION_INFO: KeyName = KeyName("pmix.ssn.info");
    pub const PMIX_SESSION_INFO_ARRAY: KeyName = KeyName("pmix.ssn.arr");
    pub const PMIX_SESSION_INSTANTIATE: KeyName = KeyName("pmix.ssn.inst");
    pub const PMIX_SESSION_JOB: KeyName = KeyName("pmix.ssn.job");
    pub const PMIX_SESSION_PAUSE: KeyName = KeyName("pmix.ssn.pause");
    pub const PMIX_SESSION_PREEMPT: KeyName = KeyName("pmix.ssn.preempt");
    pub const PMIX_SESSION_PROVISION: KeyName = KeyName("pmix.ssn.pvn");
    pub const PMIX_SESSION_PROVISION_IMAGE: KeyName = KeyName("pmix.ssn.pvnimg");
    pub const PMIX_SESSION_PROVISION_NODES: KeyName = KeyName("pmix.ssn.pvnnds");
    pub const PMIX_SESSION_RESOURCES: KeyName = KeyName("pmix.ssn.res");
    pub const PMIX_SESSION_RESTORE: KeyName = KeyName("pmix.ssn.restore");
    pub const PMIX_SESSION_RESUME: KeyName = KeyName("pmix.ssn.resume");
    pub const PMIX_SESSION_SEP: KeyName = KeyName("pmix.ssn.sep");
    pub const PMIX_SESSION_SIGNAL: KeyName = KeyName("pmix.ssn.sig");
    pub const PMIX_SESSION_TERMINATE: KeyName = KeyName("pmix.ssn.terminate");
    pub const PMIX_SETUP_APP_ALL: KeyName = KeyName("pmix.setup.all");
    pub const PMIX_SETUP_APP_ENVARS: KeyName = KeyName("pmix.setup.env");
    pub const PMIX_SETUP_APP_NONENVARS: KeyName = KeyName("pmix.setup.nenv");
    pub const PMIX_SET_ENVAR: KeyName = KeyName("pmix.envar.set");
    pub const PMIX_SET_SESSION_CWD: KeyName = KeyName("pmix.ssncwd");
    pub const PMIX_SHOW_LAUNCH_PROGRESS: KeyName = KeyName("pmix.showprog");
    pub const PMIX_SINGLETON: KeyName = KeyName("pmix.singleton");
    pub const PMIX_SINGLE_LISTENER: KeyName = KeyName("pmix.sing.listnr");
    pub const PMIX_SOCKET_MODE: KeyName = KeyName("pmix.sockmode");
    pub const PMIX_SORTED_PROC_ARRAY: KeyName = KeyName("pmix.sorted.parr");
    pub const PMIX_SPAWNED: KeyName = KeyName("pmix.spawned");
    pub const PMIX_SPAWN_CHILD_SEP: KeyName = KeyName("pmix.spchildsep");
    pub const PMIX_SPAWN_PTY: KeyName = KeyName("pmix.spawn.pty");
    pub const PMIX_SPAWN_TARGET: KeyName = KeyName("pmix.spwn.tgt");
    pub const PMIX_SPAWN_TIMEOUT: KeyName = KeyName("pmix.sp.time");
    pub const PMIX_SPAWN_TOOL: KeyName = KeyName("pmix.spwn.tool");
    pub const PMIX_SPAWN_TREE_ACTIVE: KeyName = KeyName("pmix.spwn.actv");
    pub const PMIX_SPAWN_TREE_ROOT: KeyName = KeyName("pmix.spwn.root");
    pub const PMIX_STDIN_TGT: KeyName = KeyName("pmix.stdin");
    pub const PMIX_STORAGE_ACCESSIBILITY: KeyName = KeyName("pmix.strg.access");
    pub const PMIX_STORAGE_ACCESS_TYPE: KeyName = KeyName("pmix.strg.atype");
    pub const PMIX_STORAGE_BW_CUR: KeyName = KeyName("pmix.strg.bwcur");
    pub const PMIX_STORAGE_BW_MAX: KeyName = KeyName("pmix.strg.bwmax");
    pub const PMIX_STORAGE_CAPACITY_LIMIT: KeyName = KeyName("pmix.strg.cap");
    pub const PMIX_STORAGE_CAPACITY_USED: KeyName = KeyName("pmix.strg.capuse");
    pub const PMIX_STORAGE_ID: KeyName = KeyName("pmix.strg.id");
    pub const PMIX_STORAGE_IOPS_CUR: KeyName = KeyName("pmix.strg.iopscur");
    pub const PMIX_STORAGE_IOPS_MAX: KeyName = KeyName("pmix.strg.iopsmax");
    pub const PMIX_STORAGE_MEDIUM: KeyName = KeyName("pmix.strg.medium");
    pub const PMIX_STORAGE_MINIMAL_XFER_SIZE: KeyName = KeyName("pmix.strg.minxfer");
    pub const PMIX_STORAGE_OBJECTS_USED: KeyName = KeyName("pmix.strg.objuse");
    pub const PMIX_STORAGE_OBJECT_LIMIT: KeyName = KeyName("pmix.strg.obj");
    pub const PMIX_STORAGE_PATH: KeyName = KeyName("pmix.strg.path");
    pub const PMIX_STORAGE_PERSISTENCE: KeyName = KeyName("pmix.strg.persist");
    pub const PMIX_STORAGE_SUGGESTED_XFER_SIZE: KeyName = KeyName("pmix.strg.sxfer");
    pub const PMIX_STORAGE_TYPE: KeyName = KeyName("pmix.strg.type");
    pub const PMIX_STORAGE_VERSION: KeyName = KeyName("pmix.strg.ver");
    pub const PMIX_SWITCH_PEERS: KeyName = KeyName("pmix.speers");
    pub const PMIX_SYSTEM_TMPDIR: KeyName = KeyName("pmix.sys.tmpdir");
    pub const PMIX_TAG_OUTPUT: KeyName = KeyName("pmix.tagout");
    pub const PMIX_TCP_DISABLE_IPV4: KeyName = KeyName("pmix.tcp.disipv4");
    pub const PMIX_TCP_DISABLE_IPV6: KeyName = KeyName("pmix.tcp.disipv6");
    pub const PMIX_TCP_IF_EXCLUDE: KeyName = KeyName("pmix.tcp.ifexclude");
    pub const PMIX_TCP_IF_INCLUDE: KeyName = KeyName("pmix.tcp.ifinclude");
    pub const PMIX_TCP_IPV4_PORT: KeyName = KeyName("pmix.tcp.ipv4");
    pub const PMIX_TCP_IPV6_PORT: KeyName = KeyName("pmix.tcp.ipv6");
    pub const PMIX_TCP_REPORT_URI: KeyName = KeyName("pmix.tcp.repuri");
    pub const PMIX_TCP_URI: KeyName = KeyName("pmix.tcp.uri");
    pub const PMIX_TDIR_RMCLEAN: KeyName = KeyName("pmix.tdir.rmclean");
    pub const PMIX_THREADING_MODEL: KeyName = KeyName("pmix.threads");
    pub const PMIX_TIMEOUT: KeyName = KeyName("pmix.timeout");
    pub const PMIX_TIMEOUT_REPORT_STATE: KeyName = KeyName("pmix.tim.state");
    pub const PMIX_TIMEOUT_STACKTRACES: KeyName = KeyName("pmix.tim.stack");
    pub const PMIX_TIMESTAMP_OUTPUT: KeyName = KeyName("pmix.tsout");
    pub const PMIX_TIME_REMAINING: KeyName = KeyName("pmix.time.remaining");
    pub const PMIX_TMPDIR: KeyName = KeyName("pmix.tmpdir");
    pub const PMIX_TOOL_ATTACHMENT_FILE: KeyName = KeyName("pmix.tool.attach");
    pub const PMIX_TOOL_ATTRIBUTES: KeyName = KeyName("pmix.tool.attrs");
    pub const PMIX_TOOL_CONNECT_OPTIONAL: KeyName = KeyName("pmix.tool.conopt");
    pub const PMIX_TOOL_DO_NOT_CONNECT: KeyName = KeyName("pmix.tool.nocon");
    pub const PMIX_TOOL_FUNCTIONS: KeyName = KeyName("pmix.tool.fns");
    pub const PMIX_TOOL_NSPACE: KeyName = KeyName("pmix.tool.nspace");
    pub const PMIX_TOOL_RANK: KeyName = KeyName("pmix.tool.rank");
    pub const PMIX_TOPOLOGY: KeyName = KeyName("pmix.topo");
    pub const PMIX_TOPOLOGY2: KeyName = KeyName("pmix.topo2");
    pub const PMIX_TOPOLOGY_FILE: KeyName = KeyName("pmix.topo.file");
    pub const PMIX_TOPOLOGY_INDEX: KeyName = KeyName("pmix.topo.index");
    pub const PMIX_TOPOLOGY_SIGNATURE: KeyName = KeyName("pmix.toposig");
    pub const PMIX_TOPOLOGY_XML: KeyName = KeyName("pmix.topo.xml");
    pub const PMIX_UNIV_SIZE: KeyName = KeyName("pmix.univ.size");
    pub const PMIX_UNSET_ENVAR: KeyName = KeyName("pmix.envar.unset");
    pub const PMIX_USERID: KeyName = KeyName("pmix.euid");
    pub const PMIX_USOCK_DISABLE: KeyName = KeyName("pmix.usock.disable");
    pub const PMIX_VERSION_INFO: KeyName = KeyName("pmix.version");
    pub const PMIX_VERSION_NUMERIC: KeyName = KeyName("pmix.vers.num");
    pub const PMIX_WAIT: KeyName = KeyName("pmix.wait");
    pub const PMIX_WAIT_FOR_CONNECTION: KeyName = KeyName("pmix.wait.conn");
    pub const PMIX_WDIR: KeyName = KeyName("pmix.wdir");
    pub const PMIX_WDIR_USER_SPECIFIED: KeyName = KeyName("pmix.wdir.user");
}

/// Name to print for each status, by number.
pub static STATUS_NAMES: &[(i32, &str)] = &[
    (-3000, "PMIX_EXTERNAL_ERR_BASE"),
    (-405, "PMIX_ERR_IOF_XOFF"),
    (-404, "PMIX_ERR_EXIT_NONZERO_TERM"),
    (-403, "PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED"),
    (-402, "PMIX_ERR_PROC_ABORTED_BY_SIG"),
    (-401, "PMIX_ERR_PROC_FAILED_TO_START"),
    (-400, "PMIX_ERR_PROC_KILLED_BY_CMD"),
    (-334, "PMIX_EVENT_ACTION_COMPLETE"),
    (-333, "PMIX_EVENT_ACTION_DEFERRED"),
    (-332, "PMIX_EVENT_PARTIAL_ACTION_TAKEN"),
    (-331, "PMIX_EVENT_NO_ACTION_TAKEN"),
    (-330, "PMIX_EVENT_SYS_OTHER"),
    (-235, "PMIX_ERR_JOB_SYS_OP_FAILED"),
    (-234, "PMIX_ERR_JOB_INSUFFICIENT_RESOURCES"),
    (-233, "PMIX_ERR_JOB_WDIR_NOT_FOUND"),
    (-232, "PMIX_EVENT_NODE_OFFLINE"),
    (-231, "PMIX_EVENT_NODE_DOWN"),
    (-230, "PMIX_EVENT_SYS_BASE"),
    (-201, "PMIX_EVENT_PROC_TERMINATED"),
    (-200, "PMIX_ERR_PROC_TERM_WO_SYNC"),
    (-196, "PMIX_ERR_DVM_MOD"),
    (-195, "PMIX_DVM_IS_READY"),
    (-194, "PMIX_ALLOC_TIMEOUT_WARNING"),
    (-193, "PMIX_EVENT_SESSION_END"),
    (-192, "PMIX_EVENT_SESSION_START"),
    (-191, "PMIX_EVENT_JOB_START"),
    (-190, "PMIX_ERR_JOB_EXE_NOT_FOUND"),
    (-189, "PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT"),
    (-188, "PMIX_ERR_JOB_ALLOC_FAILED"),
    (-187, "PMIX_ERR_JOB_NON_ZERO_TERM"),
    (-186, "PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED"),
    (-185, "PMIX_ERR_JOB_TERM_WO_SYNC"),
    (-184, "PMIX_ERR_JOB_ABORTED_BY_SIG"),
    (-183, "PMIX_ERR_JOB_KILLED_BY_CMD"),
    (-182, "PMIX_ERR_JOB_ABORTED"),
    (-181, "PMIX_ERR_JOB_FAILED_TO_LAUNCH"),
    (-180, "PMIX_ERR_JOB_CANCELED"),
    (-179, "PMIX_ERR_JOB_FAILED_TO_MAP"),
    (-178, "PMIX_ERR_JOB_NO_EXE_SPECIFIED"),
    (-177, "PMIX_ERR_JOB_APP_NOT_EXECUTABLE"),
    (-176, "PMIX_FABRIC_UPDATE_PENDING"),
    (-175, "PMIX_FABRIC_UPDATED"),
    (-174, "PMIX_LAUNCH_COMPLETE"),
    (-173, "PMIX_ERR_IOF_COMPLETE"),
    (-172, "PMIX_ERR_IOF_FAILURE"),
    (-171, "PMIX_ERR_REPEAT_ATTR_REGISTRATION"),
    (-170, "PMIX_GROUP_MEMBER_FAILED"),
    (-169, "PMIX_GROUP_CONTEXT_ID_ASSIGNED"),
    (-168, "PMIX_GROUP_LEADER_FAILED"),
    (-167, "PMIX_GROUP_LEADER_SELECTED"),
    (-166, "PMIX_GROUP_CONSTRUCT_COMPLETE"),
    (-165, "PMIX_GROUP_CONSTRUCT_ABORT"),
    (-164, "PMIX_GROUP_MEMBERSHIP_UPDATE"),
    (-163, "PMIX_GROUP_INVITE_FAILED"),
    (-162, "PMIX_GROUP_INVITE_DECLINED"),
    (-161, "PMIX_GROUP_INVITE_ACCEPTED"),
    (-160, "PMIX_GROUP_LEFT"),
    (-159, "PMIX_GROUP_INVITED"),
    (-158, "PMIX_ERR_INVALID_OPERATION"),
    (-157, "PMIX_OPERATION_SUCCEEDED"),
    (-156, "PMIX_OPERATION_IN_PROGRESS"),
    (-155, "PMIX_LAUNCHER_READY"),
    (-153, "PMIX_OPENMP_PARALLEL_EXITED"),
    (-152, "PMIX_OPENMP_PARALLEL_ENTERED"),
    (-151, "PMIX_MODEL_RESOURCES"),
    (-150, "PMIX_CONNECT_REQUESTED"),
    (-149, "PMIX_PROC_HAS_CONNECTED"),
    (-148, "PMIX_GDS_ACTION_COMPLETE"),
    (-147, "PMIX_MODEL_DECLARED"),
    (-146, "PMIX_ERR_UPDATE_ENDPOINTS"),
    (-145, "PMIX_EVENT_JOB_END"),
    (-144, "PMIX_ERR_EVENT_REGISTRATION"),
    (-114, "PMIX_MONITOR_RESUSAGE_UPDATE"),
    (-113, "PMIX_FABRIC_UPDATE_ENDPOINTS"),
    (-112, "PMIX_ERR_INVALID_TERMINATION"),
    (-111, "PMIX_PROC_TERMINATED"),
    (-110, "PMIX_MONITOR_FILE_ALERT"),
    (-109, "PMIX_MONITOR_HEARTBEAT_ALERT"),
    (-108, "PMIX_JCTRL_PREEMPT_ALERT"),
    (-107, "PMIX_JCTRL_CHECKPOINT_COMPLETE"),
    (-106, "PMIX_JCTRL_CHECKPOINT"),
    (-105, "PMIX_NOTIFY_ALLOC_COMPLETE"),
    (-104, "PMIX_QUERY_PARTIAL_SUCCESS"),
    (-103, "PMIX_ERR_LOST_CONNECTION_TO_CLIENT"),
    (-102, "PMIX_ERR_LOST_PEER_CONNECTION"),
    (-101, "PMIX_ERR_LOST_CONNECTION_TO_SERVER"),
    (-75, "PMIX_ERR_SYS_LIMITS_FILES"),
    (-74, "PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE"),
    (-73, "PMIX_ERR_EXE_NOT_ACCESSIBLE"),
    (-72, "PMIX_ERR_PIPE_SETUP_FAILURE"),
    (-71, "PMIX_ERR_SYS_LIMITS_CHILDREN"),
    (-70, "PMIX_ERR_SYS_LIMITS_PIPES"),
    (-69, "PMIX_ERR_FILE_WRITE_FAILURE"),
    (-68, "PMIX_ERR_FILE_READ_FAILURE"),
    (-67, "PMIX_ERR_FILE_OPEN_FAILURE"),
    (-66, "PMIX_ERR_NOT_A_MEMBER"),
    (-65, "PMIX_ERR_VALUE_OUT_OF_BOUNDS"),
    (-64, "PMIX_ERR_NOT_AVAILABLE"),
    (-63, "PMIX_ERR_FATAL"),
    (-62, "PMIX_ERR_EXISTS_OUTSIDE_SCOPE"),
    (-61, "PMIX_ERR_LOST_CONNECTION"),
    (-60, "PMIX_ERR_EMPTY"),
    (-59, "PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED"),
    (-58, "PMIX_READY_FOR_DEBUG"),
    (-56, "PMIX_PROCESS_SET_DELETE"),
    (-55, "PMIX_PROCESS_SET_DEFINE"),
    (-53, "PMIX_ERR_DUPLICATE_KEY"),
    (-52, "PMIX_ERR_PARTIAL_SUCCESS"),
    (-51, "PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES"),
    (-50, "PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER"),
    (-49, "PMIX_ERR_COMM_FAILURE"),
    (-48, "PMIX_ERR_NOT_IMPLEMENTED"),
    (-47, "PMIX_ERR_NOT_SUPPORTED"),
    (-46, "PMIX_ERR_NOT_FOUND"),
    (-45, "PMIX_ERR_SERVER_NOT_AVAIL"),
    (-44, "PMIX_ERR_INVALID_NAMESPACE"),
    (-43, "PMIX_ERR_INVALID_SIZE"),
    (-42, "PMIX_ERR_INVALID_KEYVALP"),
    (-41, "PMIX_ERR_INVALID_NUM_PARSED"),
    (-40, "PMIX_ERR_INVALID_ARGS"),
    (-39, "PMIX_ERR_INVALID_NUM_ARGS"),
    (-38, "PMIX_ERR_INVALID_LENGTH"),
    (-37, "PMIX_ERR_INVALID_VAL_LENGTH"),
    (-36, "PMIX_ERR_INVALID_VAL"),
    (-35, "PMIX_ERR_INVALID_KEY_LENGTH"),
    (-34, "PMIX_ERR_INVALID_KEY"),
    (-33, "PMIX_ERR_INVALID_ARG"),
    (-32, "PMIX_ERR_NOMEM"),
    (-31, "PMIX_ERR_INIT"),
    (-30, "PMIX_ERR_DATA_VALUE_NOT_FOUND"),
    (-29, "PMIX_ERR_OUT_OF_RESOURCE"),
    (-28, "PMIX_ERR_RESOURCE_BUSY"),
    (-27, "PMIX_ERR_BAD_PARAM"),
    (-26, "PMIX_ERR_IN_ERRNO"),
    (-25, "PMIX_ERR_UNREACH"),
    (-24, "PMIX_ERR_TIMEOUT"),
    (-23, "PMIX_ERR_NO_PERMISSIONS"),
    (-22, "PMIX_ERR_PACK_MISMATCH"),
    (-21, "PMIX_ERR_PACK_FAILURE"),
    (-20, "PMIX_ERR_UNPACK_FAILURE"),
    (-19, "PMIX_ERR_UNPACK_INADEQUATE_SPACE"),
    (-18, "PMIX_ERR_TYPE_MISMATCH"),
    (-17, "PMIX_ERR_PROC_ENTRY_NOT_FOUND"),
    (-16, "PMIX_ERR_UNKNOWN_DATA_TYPE"),
    (-15, "PMIX_ERR_WOULD_BLOCK"),
    (-14, "PMIX_ERR_READY_FOR_HANDSHAKE"),
    (-13, "PMIX_ERR_HANDSHAKE_FAILED"),
    (-12, "PMIX_ERR_INVALID_CRED"),
    (-11, "PMIX_ERR_EXISTS"),
    (-10, "PMIX_ERR_SERVER_FAILED_REQUEST"),
    (-9, "PMIX_ERR_PROC_ABORTING"),
    (-8, "PMIX_ERR_PROC_REQUESTED_ABORT"),
    (-7, "PMIX_ERR_PROC_ABORTED"),
    (-6, "PMIX_ERR_PROC_MIGRATE"),
    (-5, "PMIX_ERR_PROC_CHECKPOINT"),
    (-4, "PMIX_ERR_PROC_RESTART"),
    (-3, "PMIX_DEBUGGER_RELEASE"),
    (-2, "PMIX_ERR_SILENT"),
    (-1, "PMIX_ERROR"),
    (0, "PMIX_SUCCESS"),
];

/// All names of statuses, including old ones.
pub static STATUS_ALIASES: &[(&str, i32)] = &[
    ("PMIX_ALLOC_TIMEOUT_WARNING", -194),
    ("PMIX_CONNECT_REQUESTED", -150),
    ("PMIX_DEBUGGER_RELEASE", -3),
    ("PMIX_DEBUG_WAITING_FOR_NOTIFY", -58),
    ("PMIX_DVM_IS_READY", -195),
    ("PMIX_ERROR", -1),
    ("PMIX_ERR_BAD_PARAM", -27),
    ("PMIX_ERR_CHANGE_SIGN", -401),
    ("PMIX_ERR_COMM_FAILURE", -49),
    ("PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES", -51),
    ("PMIX_ERR_DATA_VALUE_NOT_FOUND", -30),
    ("PMIX_ERR_DEBUGGER_RELEASE", -3),
    ("PMIX_ERR_DUPLICATE_KEY", -53),
    ("PMIX_ERR_DVM_MOD", -196),
    ("PMIX_ERR_EMPTY", -60),
    ("PMIX_ERR_EVENT_REGISTRATION", -144),
    ("PMIX_ERR_EXE_NOT_ACCESSIBLE", -73),
    ("PMIX_ERR_EXISTS", -11),
    ("PMIX_ERR_EXISTS_OUTSIDE_SCOPE", -62),
    ("PMIX_ERR_EXIT_NONZERO_TERM", -404),
    ("PMIX_ERR_FAILED_COMM", -49),
    ("PMIX_ERR_FATAL", -63),
    ("PMIX_ERR_FILE_OPEN_FAILURE", -67),
    ("PMIX_ERR_FILE_READ_FAILURE", -68),
    ("PMIX_ERR_FILE_WRITE_FAILURE", -69),
    ("PMIX_ERR_HANDSHAKE_FAILED", -13),
    ("PMIX_ERR_INIT", -31),
    ("PMIX_ERR_INVALID_ARG", -33),
    ("PMIX_ERR_INVALID_ARGS", -40),
    ("PMIX_ERR_INVALID_CRED", -12),
    ("PMIX_ERR_INVALID_KEY", -34),
    ("PMIX_ERR_INVALID_KEYVALP", -42),
    ("PMIX_ERR_INVALID_KEY_LENGTH", -35),
    ("PMIX_ERR_INVALID_LENGTH", -38),
    ("PMIX_ERR_INVALID_NAMESPACE", -44),
    ("PMIX_ERR_INVALID_NUM_ARGS", -39),
    ("PMIX_ERR_INVALID_NUM_PARSED", -41),
    ("PMIX_ERR_INVALID_OPERATION", -158),
    ("PMIX_ERR_INVALID_SIZE", -43),
    ("PMIX_ERR_INVALID_TERMINATION", -112),
    ("PMIX_ERR_INVALID_VAL", -36),
    ("PMIX_ERR_INVALID_VAL_LENGTH", -37),
    ("PMIX_ERR_IN_ERRNO", -26),
    ("PMIX_ERR_IOF_COMPLETE", -173),
    ("PMIX_ERR_IOF_FAILURE", -172),
    ("PMIX_ERR_IOF_XOFF", -405),
    ("PMIX_ERR_JOB_ABORTED", -182),
    ("PMIX_ERR_JOB_ABORTED_BY_SIG", -184),
    ("PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT", -189),
    ("PMIX_ERR_JOB_ALLOC_FAILED", -188),
    ("PMIX_ERR_JOB_APP_NOT_EXECUTABLE", -177),
    ("PMIX_ERR_JOB_CANCELED", -180),
    ("PMIX_ERR_JOB_EXE_NOT_FOUND", -190),
    ("PMIX_ERR_JOB_FAILED_TO_LAUNCH", -181),
    ("PMIX_ERR_JOB_FAILED_TO_MAP", -179),
    ("PMIX_ERR_JOB_INSUFFICIENT_RESOURCES", -234),
    ("PMIX_ERR_JOB_KILLED_BY_CMD", -183),
    ("PMIX_ERR_JOB_NON_ZERO_TERM", -187),
    ("PMIX_ERR_JOB_NO_EXE_SPECIFIED", -178),
    ("PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED", -186),
    ("PMIX_ERR_JOB_SYS_OP_FAILED", -235),
    ("PMIX_ERR_JOB_TERMINATED", -145),
    ("PMIX_ERR_JOB_TERM_WO_SYNC", -185),
    ("PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE", -74),
    ("PMIX_ERR_JOB_WDIR_NOT_FOUND", -233),
    ("PMIX_ERR_LOST_CONNECTION", -61),
    ("PMIX_ERR_LOST_CONNECTION_TO_CLIENT", -103),
    ("PMIX_ERR_LOST_CONNECTION_TO_SERVER", -101),
    ("PMIX_ERR_LOST_PEER_CONNECTION", -102),
    ("PMIX_ERR_LOST_PRECISION", -400),
    ("PMIX_ERR_LOST_SERVER_CONNECTION", -101),
    ("PMIX_ERR_NODE_DOWN", -231),
    ("PMIX_ERR_NODE_OFFLINE", -232),
    ("PMIX_ERR_NOMEM", -32),
    ("PMIX_ERR_NOT_AVAILABLE", -64),
    ("PMIX_ERR_NOT_A_MEMBER", -66),
    ("PMIX_ERR_NOT_FOUND", -46),
    ("PMIX_ERR_NOT_IMPLEMENTED", -48),
    ("PMIX_ERR_NOT_SUPPORTED", -47),
    ("PMIX_ERR_NO_PERMISSIONS", -23),
    ("PMIX_ERR_OPERATION_FAILED", -1),
    ("PMIX_ERR_OUT_OF_RESOURCE", -29),
    ("PMIX_ERR_PACK_FAILURE", -21),
    ("PMIX_ERR_PACK_MISMATCH", -22),
    ("PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED", -59),
    ("PMIX_ERR_PARTIAL_COMPLETION", -52),
    ("PMIX_ERR_PARTIAL_SUCCESS", -52),
    ("PMIX_ERR_PIPE_SETUP_FAILURE", -72),
    ("PMIX_ERR_PROC_ABORTED", -7),
    ("PMIX_ERR_PROC_ABORTED_BY_SIG", -402),
    ("PMIX_ERR_PROC_ABORTING", -9),
    ("PMIX_ERR_PROC_CHECKPOINT", -5),
    ("PMIX_ERR_PROC_ENTRY_NOT_FOUND", -17),
    ("PMIX_ERR_PROC_FAILED_TO_START", -401),
    ("PMIX_ERR_PROC_KILLED_BY_CMD", -400),
    ("PMIX_ERR_PROC_MIGRATE", -6),
    ("PMIX_ERR_PROC_REQUESTED_ABORT", -8),
    ("PMIX_ERR_PROC_RESTART", -4),
    ("PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED", -403),
    ("PMIX_ERR_PROC_TERM_WO_SYNC", -200),
    ("PMIX_ERR_READY_FOR_HANDSHAKE", -14),
    ("PMIX_ERR_REPEAT_ATTR_REGISTRATION", -171),
    ("PMIX_ERR_RESOURCE_BUSY", -28),
    ("PMIX_ERR_SERVER_FAILED_REQUEST", -10),
    ("PMIX_ERR_SERVER_NOT_AVAIL", -45),
    ("PMIX_ERR_SILENT", -2),
    ("PMIX_ERR_SYS_BASE", -230),
    ("PMIX_ERR_SYS_LIMITS_CHILDREN", -71),
    ("PMIX_ERR_SYS_LIMITS_FILES", -75),
    ("PMIX_ERR_SYS_LIMITS_PIPES", -70),
    ("PMIX_ERR_SYS_OTHER", -330),
    ("PMIX_ERR_TIMEOUT", -24),
    ("PMIX_ERR_TYPE_MISMATCH", -18),
    ("PMIX_ERR_UNKNOWN_DATA_TYPE", -16),
    ("PMIX_ERR_UNPACK_FAILURE", -20),
    ("PMIX_ERR_UNPACK_INADEQUATE_SPACE", -19),
    ("PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER", -50),
    ("PMIX_ERR_UNREACH", -25),
    ("PMIX_ERR_UPDATE_ENDPOINTS", -146),
    ("PMIX_ERR_VALUE_OUT_OF_BOUNDS", -65),
    ("PMIX_ERR_WOULD_BLOCK", -15),
    ("PMIX_EVENT_ACTION_COMPLETE", -334),
    ("PMIX_EVENT_ACTION_DEFERRED", -333),
    ("PMIX_EVENT_JOB_END", -145),
    ("PMIX_EVENT_JOB_START", -191),
    ("PMIX_EVENT_NODE_DOWN", -231),
    ("PMIX_EVENT_NODE_OFFLINE", -232),
    ("PMIX_EVENT_NO_ACTION_TAKEN", -331),
    ("PMIX_EVENT_PARTIAL_ACTION_TAKEN", -332),
    ("PMIX_EVENT_PROC_TERMINATED", -201),
    ("PMIX_EVENT_SESSION_END", -193),
    ("PMIX_EVENT_SESSION_START", -192),
    ("PMIX_EVENT_SYS_BASE", -230),
    ("PMIX_EVENT_SYS_OTHER", -330),
    ("PMIX_EXISTS", -11),
    ("PMIX_EXTERNAL_ERR_BASE", -3000),
    ("PMIX_FABRIC_UPDATED", -175),
    ("PMIX_FABRIC_UPDATE_ENDPOINTS", -113),
    ("PMIX_FABRIC_UPDATE_PENDING", -176),
    ("PMIX_GDS_ACTION_COMPLETE", -148),
    ("PMIX_GROUP_COMPLETE", -166),
    ("PMIX_GROUP_CONSTRUCT_ABORT", -165),
    ("PMIX_GROUP_CONSTRUCT_COMPLETE", -166),
    ("PMIX_GROUP_CONTEXT_ID_ASSIGNED", -169),
    ("PMIX_GROUP_INVITED", -159),
    ("PMIX_GROUP_INVITE_ACCEPTED", -161),
    ("PMIX_GROUP_INVITE_DECLINED", -162),
    ("PMIX_GROUP_INVITE_FAILED", -163),
    ("PMIX_GROUP_LEADER_FAILED", -168),
    ("PMIX_GROUP_LEADER_SELECTED", -167),
    ("PMIX_GROUP_LEFT", -160),
    ("PMIX_GROUP_MEMBERSHIP_UPDATE", -164),
    ("PMIX_GROUP_MEMBER_FAILED", -170),
    ("PMIX_JCTRL_CHECKPOINT", -106),
    ("PMIX_JCTRL_CHECKPOINT_COMPLETE", -107),
    ("PMIX_JCTRL_PREEMPT_ALERT", -108),
    ("PMIX_LAUNCHER_READY", -155),
    ("PMIX_LAUNCH_COMPLETE", -174),
    ("PMIX_MODEL_DECLARED", -147),
    ("PMIX_MODEL_RESOURCES", -151),
    ("PMIX_MONITOR_FILE_ALERT", -110),
    ("PMIX_MONITOR_HEARTBEAT_ALERT", -109),
    ("PMIX_MONITOR_RESUSAGE_UPDATE", -114),
    ("PMIX_NOTIFY_ALLOC_COMPLETE", -105),
    ("PMIX_OPENMP_PARALLEL_ENTERED", -152),
    ("PMIX_OPENMP_PARALLEL_EXITED", -153),
    ("PMIX_OPERATION_IN_PROGRESS", -156),
    ("PMIX_OPERATION_SUCCEEDED", -157),
    ("PMIX_PROCESS_SET_DEFINE", -55),
    ("PMIX_PROCESS_SET_DELETE", -56),
    ("PMIX_PROC_HAS_CONNECTED", -149),
    ("PMIX_PROC_TERMINATED", -111),
    ("PMIX_QUERY_PARTIAL_SUCCESS", -104),
    ("PMIX_READY_FOR_DEBUG", -58),
    ("PMIX_SUCCESS", 0),
];

/// Status and event codes by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod status {
    use super::Status;
    pub const PMIX_ALLOC_TIMEOUT_WARNING: Status = Status(-194);
    pub const PMIX_CONNECT_REQUESTED: Status = Status(-150);
    pub const PMIX_DEBUGGER_RELEASE: Status = Status(-3);
    pub const PMIX_DEBUG_WAITING_FOR_NOTIFY: Status = Status(-58);
    pub const PMIX_DVM_IS_READY: Status = Status(-195);
    pub const PMIX_ERROR: Status = Status(-1);
    pub const PMIX_ERR_BAD_PARAM: Status = Status(-27);
    pub const PMIX_ERR_CHANGE_SIGN: Status = Status(-401);
    pub const PMIX_ERR_COMM_FAILURE: Status = Status(-49);
    pub const PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES: Status = Status(-51);
    pub const PMIX_ERR_DATA_VALUE_NOT_FOUND: Status = Status(-30);
    pub const PMIX_ERR_DEBUGGER_RELEASE: Status = Status(-3);
    pub const PMIX_ERR_DUPLICATE_KEY: Status = Status(-53);
    pub const PMIX_ERR_DVM_MOD: Status = Status(-196);
    pub const PMIX_ERR_EMPTY: Status = Status(-60);
    pub const PMIX_ERR_EVENT_REGISTRATION: Status = Status(-144);
    pub const PMIX_ERR_EXE_NOT_ACCESSIBLE: Status = Status(-73);
    pub const PMIX_ERR_EXISTS: Status = Status(-11);
    pub const PMIX_ERR_EXISTS_OUTSIDE_SCOPE: Status = Status(-62);
    pub const PMIX_ERR_EXIT_NONZERO_TERM: Status = Status(-404);
    pub const PMIX_ERR_FAILED_COMM: Status = Status(-49);
    pub const PMIX_ERR_FATAL: Status = Status(-63);
    pub const PMIX_ERR_FILE_OPEN_FAILURE: Status = Status(-67);
    pub const PMIX_ERR_FILE_READ_FAILURE: Status = Status(-68);
    pub const PMIX_ERR_FILE_WRITE_FAILURE: Status = Status(-69);
    pub const PMIX_ERR_HANDSHAKE_FAILED: Status = Status(-13);
    pub const PMIX_ERR_INIT: Status = Status(-31);
    pub const PMIX_ERR_INVALID_ARG: Status = Status(-33);
    pub const PMIX_ERR_INVALID_ARGS: Status = Status(-40);
    pub const PMIX_ERR_INVALID_CRED: Status = Status(-12);
    pub const PMIX_ERR_INVALID_KEY: Status = Status(-34);
    pub const PMIX_ERR_INVALID_KEYVALP: Status = Status(-42);
    pub const PMIX_ERR_INVALID_KEY_LENGTH: Status = Status(-35);
    pub const PMIX_ERR_INVALID_LENGTH: Status = Status(-38);
    pub const PMIX_ERR_INVALID_NAMESPACE: Status = Status(-44);
    pub const PMIX_ERR_INVALID_NUM_ARGS: Status = Status(-39);
    pub const PMIX_ERR_INVALID_NUM_PARSED: Status = Status(-41);
    pub const PMIX_ERR_INVALID_OPERATION: Status = Status(-158);
    pub const PMIX_ERR_INVALID_SIZE: Status = Status(-43);
    pub const PMIX_ERR_INVALID_TERMINATION: Status = Status(-112);
    pub const PMIX_ERR_INVALID_VAL: Status = Status(-36);
    pub const PMIX_ERR_INVALID_VAL_LENGTH: Status = Status(-37);
    pub const PMIX_ERR_IN_ERRNO: Status = Status(-26);
    pub const PMIX_ERR_IOF_COMPLETE: Status = Status(-173);
    pub const PMIX_ERR_IOF_FAILURE: Status = Status(-172);
    pub const PMIX_ERR_IOF_XOFF: Status = Status(-405);
    pub const PMIX_ERR_JOB_ABORTED: Status = Status(-182);
    pub const PMIX_ERR_JOB_ABORTED_BY_SIG: Status = Status(-184);
    pub const PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT: Status = Status(-189);
    pub const PMIX_ERR_JOB_ALLOC_FAILED: Status = Status(-188);
    pub const PMIX_ERR_JOB_APP_NOT_EXECUTABLE: Status = Status(-177);
    pub const PMIX_ERR_JOB_CANCELED: Status = Status(-180);
    pub const PMIX_ERR_JOB_EXE_NOT_FOUND: Status = Status(-190);
    pub const PMIX_ERR_JOB_FAILED_TO_LAUNCH: Status = Status(-181);
    pub const PMIX_ERR_JOB_FAILED_TO_MAP: Status = Status(-179);
    pub const PMIX_ERR_JOB_INSUFFICIENT_RESOURCES: Status = Status(-234);
    pub const PMIX_ERR_JOB_KILLED_BY_CMD: Status = Status(-183);
    pub const PMIX_ERR_JOB_NON_ZERO_TERM: Status = Status(-187);
    pub const PMIX_ERR_JOB_NO_EXE_SPECIFIED: Status = Status(-178);
    pub const PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED: Status = Status(-186);
    pub const PMIX_ERR_JOB_SYS_OP_FAILED: Status = Status(-235);
    pub const PMIX_ERR_JOB_TERMINATED: Status = Status(-145);
    pub const PMIX_ERR_JOB_TERM_WO_SYNC: Status = Status(-185);
    pub const PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE: Status = Status(-74);
    pub const PMIX_ERR_JOB_WDIR_NOT_FOUND: Status = Status(-233);
    pub const PMIX_ERR_LOST_CONNECTION: Status = Status(-61);
    pub const PMIX_ERR_LOST_CONNECTION_TO_CLIENT: Status = Status(-103);
    pub const PMIX_ERR_LOST_CONNECTION_TO_SERVER: Status = Status(-101);
    pub const PMIX_ERR_LOST_PEER_CONNECTION: Status = Status(-102);
    pub const PMIX_ERR_LOST_PRECISION: Status = Status(-400);
    pub const PMIX_ERR_LOST_SERVER_CONNECTION: Status = Status(-101);
    pub const PMIX_ERR_NODE_DOWN: Status = Status(-231);
    pub const PMIX_ERR_NODE_OFFLINE: Status = Status(-232);
    pub const PMIX_ERR_NOMEM: Status = Status(-32);
    pub const PMIX_ERR_NOT_AVAILABLE: Status = Status(-64);
    pub const PMIX_ERR_NOT_A_MEMBER: Status = Status(-66);
    pub const PMIX_ERR_NOT_FOUND: Status = Status(-46);
    pub const PMIX_ERR_NOT_IMPLEMENTED: Status = Status(-48);
    pub const PMIX_ERR_NOT_SUPPORTED: Status = Status(-47);
    pub const PMIX_ERR_NO_PERMISSIONS: Status = Status(-23);
    pub const PMIX_ERR_OPERATION_FAILED: Status = Status(-1);
    pub const PMIX_ERR_OUT_OF_RESOURCE: Status = Status(-29);
    pub const PMIX_ERR_PACK_FAILURE: Status = Status(-21);
    pub const PMIX_ERR_PACK_MISMATCH: Status = Status(-22);
    pub const PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED: Status = Status(-59);
    pub const PMIX_ERR_PARTIAL_COMPLETION: Status = Status(-52);
    pub const PMIX_ERR_PARTIAL_SUCCESS: Status = Status(-52);
    pub const PMIX_ERR_PIPE_SETUP_FAILURE: Status = Status(-72);
    pub const PMIX_ERR_PROC_ABORTED: Status = Status(-7);
    pub const PMIX_ERR_PROC_ABORTED_BY_SIG: Status = Status(-402);
    pub const PMIX_ERR_PROC_ABORTING: Status = Status(-9);
    pub const PMIX_ERR_PROC_CHECKPOINT: Status = Status(-5);
    pub const PMIX_ERR_PROC_ENTRY_NOT_FOUND: Status = Status(-17);
    pub const PMIX_ERR_PROC_FAILED_TO_START: Status = Status(-401);
    pub const PMIX_ERR_PROC_KILLED_BY_CMD: Status = Status(-400);
    pub const PMIX_ERR_PROC_MIGRATE: Status = Status(-6);
    pub const PMIX_ERR_PROC_REQUESTED_ABORT: Status = Status(-8);
    pub const PMIX_ERR_PROC_RESTART: Status = Status(-4);
    pub const PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED: Status = Status(-403);
    pub const PMIX_ERR_PROC_TERM_WO_SYNC: Status = Status(-200);
    pub const PMIX_ERR_READY_FOR_HANDSHAKE: Status = Status(-14);
    pub const PMIX_ERR_REPEAT_ATTR_REGISTRATION: Status = Status(-171);
    pub const PMIX_ERR_RESOURCE_BUSY: Status = Status(-28);
    pub const PMIX_ERR_SERVER_FAILED_REQUEST: Status = Status(-10);
    pub const PMIX_ERR_SERVER_NOT_AVAIL: Status = Status(-45);
    pub const PMIX_ERR_SILENT: Status = Status(-2);
    pub const PMIX_ERR_SYS_BASE: Status = Status(-230);
    pub const PMIX_ERR_SYS_LIMITS_CHILDREN: Status = Status(-71);
    pub const PMIX_ERR_SYS_LIMITS_FILES: Status = Status(-75);
    pub const PMIX_ERR_SYS_LIMITS_PIPES: Status = Status(-70);
    pub const PMIX_ERR_SYS_OTHER: Status = Status(-330);
    pub const PMIX_ERR_TIMEOUT: Status = Status(-24);
    pub const PMIX_ERR_TYPE_MISMATCH: Status = Status(-18);
    pub const PMIX_ERR_UNKNOWN_DATA_TYPE: Status = Status(-16);
    pub const PMIX_ERR_UNPACK_FAILURE: Status = Status(-20);
    pub const PMIX_ERR_UNPACK_INADEQUATE_SPACE: Status = Status(-19);
    pub const PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER: Status = Status(-50);
    pub const PMIX_ERR_UNREACH: Status = Status(-25);
    pub const PMIX_ERR_UPDATE_ENDPOINTS: Status = Status(-146);
    pub const PMIX_ERR_VALUE_OUT_OF_BOUNDS: Status = Status(-65);
    pub const PMIX_ERR_WOULD_BLOCK: Status = Status(-15);
    pub const PMIX_EVENT_ACTION_COMPLETE: Status = Status(-334);
    pub const PMIX_EVENT_ACTION_DEFERRED: Status = Status(-333);
    pub const PMIX_EVENT_JOB_END: Status = Status(-145);
    pub const PMIX_EVENT_JOB_START: Status = Status(-191);
    pub const PMIX_EVENT_NODE_DOWN: Status = Status(-231);
    pub const PMIX_EVENT_NODE_OFFLINE: Status = Status(-232);
    pub const PMIX_EVENT_NO_ACTION_TAKEN: Status = Status(-331);
    pub const PMIX_EVENT_PARTIAL_ACTION_TAKEN: Status = Status(-332);
    pub const PMIX_EVENT_PROC_TERMINATED: Status = Status(-201);
    pub const PMIX_EVENT_SESSION_END: Status = Status(-193);
    pub const PMIX_EVENT_SESSION_START: Status = Status(-192);
    pub const PMIX_EVENT_SYS_BASE: Status = Status(-230);
    pub const PMIX_EVENT_SYS_OTHER: Status = Status(-330);
    pub const PMIX_EXISTS: Status = Status(-11);
    pub const PMIX_EXTERNAL_ERR_BASE: Status = Status(-3000);
    pub const PMIX_FABRIC_UPDATED: Status = Status(-175);
    pub const PMIX_FABRIC_UPDATE_ENDPOINTS: Status = Status(-113);
    pub const PMIX_FABRIC_UPDATE_PENDING: Status = Status(-176);
    pub const PMIX_GDS_ACTION_COMPLETE: Status = Status(-148);
    pub const PMIX_GROUP_COMPLETE: Status = Status(-166);
    pub const PMIX_GROUP_CONSTRUCT_ABORT: Status = Status(-165);
    pub const PMIX_GROUP_CONSTRUCT_COMPLETE: Status = Status(-166);
    pub const PMIX_GROUP_CONTEXT_ID_ASSIGNED: Status = Status(-169);
    pub const PMIX_GROUP_INVITED: Status = Status(-159);
    pub const PMIX_GROUP_INVITE_ACCEPTED: Status = Status(-161);
    pub const PMIX_GROUP_INVITE_DECLINED: Status = Status(-162);
    pub const PMIX_GROUP_INVITE_FAILED: Status = Status(-163);
    pub const PMIX_GROUP_LEADER_FAILED: Status = Status(-168);
    pub const PMIX_GROUP_LEADER_SELECTED: Status = Status(-167);
    pub const PMIX_GROUP_LEFT: Status = Status(-160);
    pub const PMIX_GROUP_MEMBERSHIP_UPDATE: Status = Status(-164);
    pub const PMIX_GROUP_MEMBER_FAILED: Status = Status(-170);
    pub const PMIX_JCTRL_CHECKPOINT: Status = Status(-106);
    pub const PMIX_JCTRL_CHECKPOINT_COMPLETE: Status = Status(-107);
    pub const PMIX_JCTRL_PREEMPT_ALERT: Status = Status(-108);
    pub const PMIX_LAUNCHER_READY: Status = Status(-155);
    pub const PMIX_LAUNCH_COMPLETE: Status = Status(-174);
    pub const PMIX_MODEL_DECLARED: Status = Status(-147);
    pub const PMIX_MODEL_RESOURCES: Status = Status(-151);
    pub const PMIX_MONITOR_FILE_ALERT: Status = Status(-110);
    pub const PMIX_MONITOR_HEARTBEAT_ALERT: Status = Status(-109);
    pub const PMIX_MONITOR_RESUSAGE_UPDATE: Status = Status(-114);
    pub const PMIX_NOTIFY_ALLOC_COMPLETE: Status = Status(-105);
    pub const PMIX_OPENMP_PARALLEL_ENTERED: Status = Status(-152);
    pub const PMIX_OPENMP_PARALLEL_EXITED: Status = Status(-153);
    pub const PMIX_OPERATION_IN_PROGRESS: Status = Status(-156);
    pub const PMIX_OPERATION_SUCCEEDED: Status = Status(-157);
    pub const PMIX_PROCESS_SET_DEFINE: Status = Status(-55);
    pub const PMIX_PROCESS_SET_DELETE: Status = Status(-56);
    pub const PMIX_PROC_HAS_CONNECTED: Status = Status(-149);
    pub const PMIX_PROC_TERMINATED: Status = Status(-111);
    pub const PMIX_QUERY_PARTIAL_SUCCESS: Status = Status(-104);
    pub const PMIX_READY_FOR_DEBUG: Status = Status(-58);
    pub const PMIX_SUCCESS: Status = Status(0);
}

/// Type numbers of values by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod data_type {
    use super::DataType;
    pub const PMIX_ALLOC_DIRECTIVE: DataType = DataType(43);
    pub const PMIX_ALLOC_INHERIT: DataType = DataType(75);
    pub const PMIX_APP: DataType = DataType(23);
    pub const PMIX_BOOL: DataType = DataType(1);
    pub const PMIX_BYTE: DataType = DataType(2);
    pub const PMIX_BYTE_OBJECT: DataType = DataType(27);
    pub const PMIX_COMMAND: DataType = DataType(34);
    pub const PMIX_COMPRESSED_BYTE_OBJECT: DataType = DataType(59);
    pub const PMIX_COORD: DataType = DataType(47);
    pub const PMIX_DATA_ARRAY: DataType = DataType(39);
    pub const PMIX_DATA_BUFFER: DataType = DataType(65);
    pub const PMIX_DATA_RANGE: DataType = DataType(33);
    pub const PMIX_DATA_TYPE: DataType = DataType(36);
    pub const PMIX_DATA_TYPE_MAX: DataType = DataType(500);
    pub const PMIX_DEVICE: DataType = DataType(70);
    pub const PMIX_DEVICE_DIST: DataType = DataType(54);
    pub const PMIX_DEVTYPE: DataType = DataType(57);
    pub const PMIX_DOUBLE: DataType = DataType(17);
    pub const PMIX_ENDPOINT: DataType = DataType(55);
    pub const PMIX_ENVAR: DataType = DataType(46);
    pub const PMIX_FLOAT: DataType = DataType(16);
    pub const PMIX_GEOMETRY: DataType = DataType(53);
    pub const PMIX_INFO: DataType = DataType(24);
    pub const PMIX_INFO_DIRECTIVES: DataType = DataType(35);
    pub const PMIX_INT: DataType = DataType(6);
    pub const PMIX_INT16: DataType = DataType(8);
    pub const PMIX_INT32: DataType = DataType(9);
    pub const PMIX_INT64: DataType = DataType(10);
    pub const PMIX_INT8: DataType = DataType(7);
    pub const PMIX_IOF_CHANNEL: DataType = DataType(45);
    pub const PMIX_JOB_STATE: DataType = DataType(50);
    pub const PMIX_KVAL: DataType = DataType(28);
    pub const PMIX_LINK_STATE: DataType = DataType(51);
    pub const PMIX_LOCTYPE: DataType = DataType(58);
    pub const PMIX_NODE_PID: DataType = DataType(73);
    pub const PMIX_PDATA: DataType = DataType(25);
    pub const PMIX_PERSIST: DataType = DataType(30);
    pub const PMIX_PID: DataType = DataType(5);
    pub const PMIX_POINTER: DataType = DataType(31);
    pub const PMIX_PROC: DataType = DataType(22);
    pub const PMIX_PROC_CPUSET: DataType = DataType(52);
    pub const PMIX_PROC_INFO: DataType = DataType(38);
    pub const PMIX_PROC_NSPACE: DataType = DataType(60);
    pub const PMIX_PROC_RANK: DataType = DataType(40);
    pub const PMIX_PROC_STATE: DataType = DataType(37);
    pub const PMIX_QUERY: DataType = DataType(41);
    pub const PMIX_REGATTR: DataType = DataType(48);
    pub const PMIX_REGEX2: DataType = DataType(74);
    pub const PMIX_RESBLOCK_DIRECTIVE: DataType = DataType(71);
    pub const PMIX_RESOURCE_UNIT: DataType = DataType(72);
    pub const PMIX_SCOPE: DataType = DataType(32);
    pub const PMIX_SIZE: DataType = DataType(4);
    pub const PMIX_STATUS: DataType = DataType(20);
    pub const PMIX_STOR_ACCESS: DataType = DataType(67);
    pub const PMIX_STOR_ACCESS_TYPE: DataType = DataType(69);
    pub const PMIX_STOR_MEDIUM: DataType = DataType(66);
    pub const PMIX_STOR_PERSIST: DataType = DataType(68);
    pub const PMIX_STRING: DataType = DataType(3);
    pub const PMIX_TIME: DataType = DataType(19);
    pub const PMIX_TIMEVAL: DataType = DataType(18);
    pub const PMIX_TOPO: DataType = DataType(56);
    pub const PMIX_UINT: DataType = DataType(11);
    pub const PMIX_UINT16: DataType = DataType(13);
    pub const PMIX_UINT32: DataType = DataType(14);
    pub const PMIX_UINT64: DataType = DataType(15);
    pub const PMIX_UINT8: DataType = DataType(12);
    pub const PMIX_UNDEF: DataType = DataType(0);
    pub const PMIX_VALUE: DataType = DataType(21);
}

/// Special ranks by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod rank {
    use super::Rank;
    pub const PMIX_RANK_INVALID: Rank = Rank(4294967292);
    pub const PMIX_RANK_LOCAL_NODE: Rank = Rank(4294967293);
    pub const PMIX_RANK_LOCAL_PEERS: Rank = Rank(4294967291);
    pub const PMIX_RANK_UNDEF: Rank = Rank(4294967295);
    pub const PMIX_RANK_VALID: Rank = Rank(4294967245);
    pub const PMIX_RANK_WILDCARD: Rank = Rank(4294967294);
}

/// Ranges of events by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod range {
    pub const PMIX_RANGE_CUSTOM: u8 = 6;
    pub const PMIX_RANGE_GLOBAL: u8 = 5;
    pub const PMIX_RANGE_LOCAL: u8 = 2;
    pub const PMIX_RANGE_NAMESPACE: u8 = 3;
    pub const PMIX_RANGE_PROC_LOCAL: u8 = 7;
    pub const PMIX_RANGE_RM: u8 = 1;
    pub const PMIX_RANGE_SESSION: u8 = 4;
    pub const PMIX_RANGE_UNDEF: u8 = 0;
}

/// Other numbers by the Standard's names.
#[allow(missing_docs, reason = "the name is the documentation")]
pub mod number {
    pub const PMIX_ALLOC_EXTEND: u64 = 2;
    pub const PMIX_ALLOC_EXTERNAL: u64 = 128;
    pub const PMIX_ALLOC_INHERIT_CHILD: u64 = 2;
    pub const PMIX_ALLOC_INHERIT_CHILD_DEFAULT: u64 = 4;
    pub const PMIX_ALLOC_INHERIT_DEFAULT: u64 = 3;
    pub const PMIX_ALLOC_INHERIT_NONE: u64 = 1;
    pub const PMIX_ALLOC_NEW: u64 = 1;
    pub const PMIX_ALLOC_REAQUIRE: u64 = 4;
    pub const PMIX_ALLOC_RELEASE: u64 = 3;
    pub const PMIX_ALLOC_REQ_CANCEL: u64 = 5;
    pub const PMIX_APP_WILDCARD: u64 = 4294967295;
    pub const PMIX_BUFFER: u64 = 26;
    pub const PMIX_COMPRESSED_STRING: u64 = 42;
    pub const PMIX_COORD_LOGICAL_VIEW: u64 = 1;
    pub const PMIX_COORD_PHYSICAL_VIEW: u64 = 2;
    pub const PMIX_COORD_VIEW_UNDEF: u64 = 0;
    pub const PMIX_CPUBIND_PROCESS: u64 = 0;
    pub const PMIX_CPUBIND_THREAD: u64 = 1;
    pub const PMIX_DEL_GLOBAL: u64 = 7;
    pub const PMIX_DEL_INTERNAL: u64 = 8;
    pub const PMIX_DEL_LOCAL: u64 = 5;
    pub const PMIX_DEL_REMOTE: u64 = 6;
    pub const PMIX_DEVTYPE_BLOCK: u64 = 1;
    pub const PMIX_DEVTYPE_COPROC: u64 = 32;
    pub const PMIX_DEVTYPE_CORE: u64 = 128;
    pub const PMIX_DEVTYPE_CPU: u64 = 512;
    pub const PMIX_DEVTYPE_DMA: u64 = 16;
    pub const PMIX_DEVTYPE_GPU: u64 = 2;
    pub const PMIX_DEVTYPE_HWT: u64 = 256;
    pub const PMIX_DEVTYPE_MEMORY: u64 = 64;
    pub const PMIX_DEVTYPE_NETWORK: u64 = 4;
    pub const PMIX_DEVTYPE_NODE: u64 = 1024;
    pub const PMIX_DEVTYPE_OPENFABRICS: u64 = 8;
    pub const PMIX_DEVTYPE_UNKNOWN: u64 = 0;
    pub const PMIX_DISK_STATS: u64 = 62;
    pub const PMIX_FWD_ALL_CHANNELS: u64 = 255;
    pub const PMIX_FWD_NO_CHANNELS: u64 = 0;
    pub const PMIX_FWD_STDDIAG_CHANNEL: u64 = 8;
    pub const PMIX_FWD_STDERR_CHANNEL: u64 = 4;
    pub const PMIX_FWD_STDIN_CHANNEL: u64 = 1;
    pub const PMIX_FWD_STDOUT_CHANNEL: u64 = 2;
    pub const PMIX_GLOBAL: u64 = 3;
    pub const PMIX_INFO_ARRAY_END: u64 = 2;
    pub const PMIX_INFO_DIR_RESERVED: u64 = 4294901760;
    pub const PMIX_INFO_PERSISTENT: u64 = 16;
    pub const PMIX_INFO_QUALIFIER: u64 = 8;
    pub const PMIX_INFO_REQD: u64 = 1;
    pub const PMIX_INFO_REQD_PROCESSED: u64 = 4;
    pub const PMIX_INTERNAL: u64 = 4;
    pub const PMIX_JOB_STATE_AWAITING_ALLOC: u64 = 1;
    pub const PMIX_JOB_STATE_CONNECTED: u64 = 5;
    pub const PMIX_JOB_STATE_LAUNCH_UNDERWAY: u64 = 2;
    pub const PMIX_JOB_STATE_PREPPED: u64 = 1;
    pub const PMIX_JOB_STATE_RUNNING: u64 = 3;
    pub const PMIX_JOB_STATE_SUSPENDED: u64 = 4;
    pub const PMIX_JOB_STATE_TERMINATED: u64 = 20;
    pub const PMIX_JOB_STATE_TERMINATED_WITH_ERROR: u64 = 50;
    pub const PMIX_JOB_STATE_UNDEF: u64 = 0;
    pub const PMIX_JOB_STATE_UNTERMINATED: u64 = 15;
    pub const PMIX_LINK_DOWN: u64 = 1;
    pub const PMIX_LINK_STATE_UNKNOWN: u64 = 0;
    pub const PMIX_LINK_UP: u64 = 2;
    pub const PMIX_LOCAL: u64 = 1;
    pub const PMIX_LOCALITY_NONLOCAL: u64 = 32768;
    pub const PMIX_LOCALITY_SHARE_CORE: u64 = 2;
    pub const PMIX_LOCALITY_SHARE_HWTHREAD: u64 = 1;
    pub const PMIX_LOCALITY_SHARE_L1CACHE: u64 = 4;
    pub const PMIX_LOCALITY_SHARE_L2CACHE: u64 = 8;
    pub const PMIX_LOCALITY_SHARE_L3CACHE: u64 = 16;
    pub const PMIX_LOCALITY_SHARE_NODE: u64 = 16384;
    pub const PMIX_LOCALITY_SHARE_NUMA: u64 = 64;
    pub const PMIX_LOCALITY_SHARE_PACKAGE: u64 = 32;
    pub const PMIX_LOCALITY_UNKNOWN: u64 = 0;
    pub const PMIX_MAX_KEYLEN: u64 = 511;
    pub const PMIX_MAX_NSLEN: u64 = 255;
    pub const PMIX_NET_STATS: u64 = 63;
    pub const PMIX_NODE_STATS: u64 = 64;
    pub const PMIX_PERSIST_APP: u64 = 3;
    pub const PMIX_PERSIST_FIRST_READ: u64 = 1;
    pub const PMIX_PERSIST_INDEF: u64 = 0;
    pub const PMIX_PERSIST_PROC: u64 = 2;
    pub const PMIX_PERSIST_SESSION: u64 = 4;
    pub const PMIX_PROC_STATE_ABORTED: u64 = 52;
    pub const PMIX_PROC_STATE_ABORTED_BY_SIG: u64 = 54;
    pub const PMIX_PROC_STATE_CALLED_ABORT: u64 = 58;
    pub const PMIX_PROC_STATE_CANNOT_RESTART: u64 = 61;
    pub const PMIX_PROC_STATE_COMM_FAILED: u64 = 56;
    pub const PMIX_PROC_STATE_CONNECTED: u64 = 6;
    pub const PMIX_PROC_STATE_ERROR: u64 = 50;
    pub const PMIX_PROC_STATE_FAILED_TO_LAUNCH: u64 = 63;
    pub const PMIX_PROC_STATE_FAILED_TO_START: u64 = 53;
    pub const PMIX_PROC_STATE_HEARTBEAT_FAILED: u64 = 59;
    pub const PMIX_PROC_STATE_KILLED_BY_CMD: u64 = 51;
    pub const PMIX_PROC_STATE_LAUNCH_UNDERWAY: u64 = 2;
    pub const PMIX_PROC_STATE_MIGRATING: u64 = 60;
    pub const PMIX_PROC_STATE_PREPPED: u64 = 1;
    pub const PMIX_PROC_STATE_RESTART: u64 = 3;
    pub const PMIX_PROC_STATE_RUNNING: u64 = 5;
    pub const PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED: u64 = 57;
    pub const PMIX_PROC_STATE_TERMINATE: u64 = 4;
    pub const PMIX_PROC_STATE_TERMINATED: u64 = 20;
    pub const PMIX_PROC_STATE_TERM_NON_ZERO: u64 = 62;
    pub const PMIX_PROC_STATE_TERM_WO_SYNC: u64 = 55;
    pub const PMIX_PROC_STATE_UNDEF: u64 = 0;
    pub const PMIX_PROC_STATE_UNTERMINATED: u64 = 15;
    pub const PMIX_PROC_STATS: u64 = 61;
    pub const PMIX_REGEX: u64 = 49;
    pub const PMIX_REMOTE: u64 = 2;
    pub const PMIX_RESOURCE_BLOCK_DEFINE: u64 = 1;
    pub const PMIX_RESOURCE_BLOCK_DELETE: u64 = 4;
    pub const PMIX_RESOURCE_BLOCK_EXTEND: u64 = 2;
    pub const PMIX_RESOURCE_BLOCK_EXTERNAL: u64 = 128;
    pub const PMIX_RESOURCE_BLOCK_REMOVE: u64 = 3;
    pub const PMIX_SCOPE_UNDEF: u64 = 0;
    pub const PMIX_STORAGE_ACCESSIBILITY_CLUSTER: u64 = 16;
    pub const PMIX_STORAGE_ACCESSIBILITY_JOB: u64 = 4;
    pub const PMIX_STORAGE_ACCESSIBILITY_NODE: u64 = 1;
    pub const PMIX_STORAGE_ACCESSIBILITY_RACK: u64 = 8;
    pub const PMIX_STORAGE_ACCESSIBILITY_REMOTE: u64 = 32;
    pub const PMIX_STORAGE_ACCESSIBILITY_SESSION: u64 = 2;
    pub const PMIX_STORAGE_ACCESS_RD: u64 = 1;
    pub const PMIX_STORAGE_ACCESS_RDWR: u64 = 3;
    pub const PMIX_STORAGE_ACCESS_WR: u64 = 2;
    pub const PMIX_STORAGE_MEDIUM_HDD: u64 = 4;
    pub const PMIX_STORAGE_MEDIUM_NVME: u64 = 16;
    pub const PMIX_STORAGE_MEDIUM_PMEM: u64 = 32;
    pub const PMIX_STORAGE_MEDIUM_RAM: u64 = 64;
    pub const PMIX_STORAGE_MEDIUM_SSD: u64 = 8;
    pub const PMIX_STORAGE_MEDIUM_TAPE: u64 = 2;
    pub const PMIX_STORAGE_MEDIUM_UNKNOWN: u64 = 1;
    pub const PMIX_STORAGE_PERSISTENCE_ARCHIVE: u64 = 64;
    pub const PMIX_STORAGE_PERSISTENCE_JOB: u64 = 8;
    pub const PMIX_STORAGE_PERSISTENCE_NODE: u64 = 2;
    pub const PMIX_STORAGE_PERSISTENCE_PROJECT: u64 = 32;
    pub const PMIX_STORAGE_PERSISTENCE_SCRATCH: u64 = 16;
    pub const PMIX_STORAGE_PERSISTENCE_SESSION: u64 = 4;
    pub const PMIX_STORAGE_PERSISTENCE_TEMPORARY: u64 = 1;
}

/// Names to print, by number.
pub static DATA_TYPE_NAMES: &[(u16, &str)] = &[
    (500, "PMIX_DATA_TYPE_MAX"),
    (75, "PMIX_ALLOC_INHERIT"),
    (74, "PMIX_REGEX2"),
    (73, "PMIX_NODE_PID"),
    (72, "PMIX_RESOURCE_UNIT"),
    (71, "PMIX_RESBLOCK_DIRECTIVE"),
    (70, "PMIX_DEVICE"),
    (69, "PMIX_STOR_ACCESS_TYPE"),
    (68, "PMIX_STOR_PERSIST"),
    (67, "PMIX_STOR_ACCESS"),
    (66, "PMIX_STOR_MEDIUM"),
    (65, "PMIX_DATA_BUFFER"),
    (60, "PMIX_PROC_NSPACE"),
    (59, "PMIX_COMPRESSED_BYTE_OBJECT"),
    (58, "PMIX_LOCTYPE"),
    (57, "PMIX_DEVTYPE"),
    (56, "PMIX_TOPO"),
    (55, "PMIX_ENDPOINT"),
    (54, "PMIX_DEVICE_DIST"),
    (53, "PMIX_GEOMETRY"),
    (52, "PMIX_PROC_CPUSET"),
    (51, "PMIX_LINK_STATE"),
    (50, "PMIX_JOB_STATE"),
    (48, "PMIX_REGATTR"),
    (47, "PMIX_COORD"),
    (46, "PMIX_ENVAR"),
    (45, "PMIX_IOF_CHANNEL"),
    (43, "PMIX_ALLOC_DIRECTIVE"),
    (41, "PMIX_QUERY"),
    (40, "PMIX_PROC_RANK"),
    (39, "PMIX_DATA_ARRAY"),
    (38, "PMIX_PROC_INFO"),
    (37, "PMIX_PROC_STATE"),
    (36, "PMIX_DATA_TYPE"),
    (35, "PMIX_INFO_DIRECTIVES"),
    (34, "PMIX_COMMAND"),
    (33, "PMIX_DATA_RANGE"),
    (32, "PMIX_SCOPE"),
    (31, "PMIX_POINTER"),
    (30, "PMIX_PERSIST"),
    (28, "PMIX_KVAL"),
    (27, "PMIX_BYTE_OBJECT"),
    (25, "PMIX_PDATA"),
    (24, "PMIX_INFO"),
    (23, "PMIX_APP"),
    (22, "PMIX_PROC"),
    (21, "PMIX_VALUE"),
    (20, "PMIX_STATUS"),
    (19, "PMIX_TIME"),
    (18, "PMIX_TIMEVAL"),
    (17, "PMIX_DOUBLE"),
    (16, "PMIX_FLOAT"),
    (15, "PMIX_UINT64"),
    (14, "PMIX_UINT32"),
    (13, "PMIX_UINT16"),
    (12, "PMIX_UINT8"),
    (11, "PMIX_UINT"),
    (10, "PMIX_INT64"),
    (9, "PMIX_INT32"),
    (8, "PMIX_INT16"),
    (7, "PMIX_INT8"),
    (6, "PMIX_INT"),
    (5, "PMIX_PID"),
    (4, "PMIX_SIZE"),
    (3, "PMIX_STRING"),
    (2, "PMIX_BYTE"),
    (1, "PMIX_BOOL"),
    (0, "PMIX_UNDEF"),
];

/// Names to print, by number.
pub static RANK_NAMES: &[(u32, &str)] = &[
    (4294967295, "PMIX_RANK_UNDEF"),
    (4294967294, "PMIX_RANK_WILDCARD"),
    (4294967293, "PMIX_RANK_LOCAL_NODE"),
    (4294967292, "PMIX_RANK_INVALID"),
    (4294967291, "PMIX_RANK_LOCAL_PEERS"),
    (4294967245, "PMIX_RANK_VALID"),
];
