//! Texts of usage statistics, as the C library prints them.
use super::{element_texts::c_text, keys::proc_text};
use crate::{
    abi::{CDiskStats, CNetStats, CNodeStats, CProcStats},
    convert::element::PROC_STATS,
};
use peal_model::DataType;
use std::ffi::c_void;

/// Returns the text of an element; `None` for any other type.
///
/// # Safety
///
/// `at` points to a valid element of the data type.
pub(super) unsafe fn element(
    data_type: DataType,
    at: *const c_void,
    prefix: &[u8],
) -> Option<Vec<u8>> {
    // SAFETY: the caller guarantees an element of the data type, which is this C type.
    unsafe {
        match data_type {
            PROC_STATS => Some(proc_stats(&*at.cast(), prefix)),
            DataType::DISK_STATS => Some(disk_stats(&*at.cast(), prefix)),
            DataType::NET_STATS => Some(net_stats(&*at.cast(), prefix)),
            DataType::NODE_STATS => Some(node_stats(&*at.cast(), prefix)),
            _ => None,
        }
    }
}

/// Returns the text of the statistics of a proc.
///
/// # Safety
///
/// The structure is valid.
unsafe fn proc_stats(stats: &CProcStats, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees strings or null.
    let (node, command) = unsafe { (c_text(stats.node), c_text(stats.cmd)) };
    let sampled = format!(
        "{}.{:06}",
        stats.sample_time.tv_sec, stats.sample_time.tv_usec
    );
    let rest = format!(
        " state: {} pri: {} #threads: {} Processor: {}\n",
        char::from(stats.state.cast_unsigned()),
        stats.priority,
        stats.num_threads,
        stats.processor
    );
    let usage = format!(
        "\ttime: {}.{:06} cpu: {:5.2}  PSS: {:8.2}  VMsize: {:8.2} PeakVMSize: {:8.2} RSS: {:8.2}\n",
        stats.time.tv_sec,
        stats.time.tv_usec,
        stats.percent_cpu,
        stats.pss,
        stats.vsize,
        stats.peak_vsize,
        stats.rss
    );
    [
        prefix,
        b"PMIX_PROC_STATS SAMPLED AT: ",
        sampled.as_bytes(),
        b"\n",
        prefix,
        b"node: ",
        node,
        b" proc: ",
        &proc_text(&stats.proc),
        format!(" pid: {} cmd: ", stats.pid).as_bytes(),
        command,
        rest.as_bytes(),
        prefix,
        usage.as_bytes(),
    ]
    .concat()
}

/// Returns the text of the statistics of a disk.
///
/// # Safety
///
/// The structure is valid.
unsafe fn disk_stats(stats: &CDiskStats, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees a string or null.
    let disk = unsafe { c_text(stats.disk) };
    let reads = format!(
        "NumReadsCompleted: {:x} NumReadsMerged: {:x} NumSectorsRead: {:x} MillisecReading: {:x}\n",
        stats.num_reads_completed,
        stats.num_reads_merged,
        stats.num_sectors_read,
        stats.milliseconds_reading
    );
    let writes = format!(
        "NumWritesCompleted: {:x} NumWritesMerged: {:x} NumSectorsWrote: {:x} MillisecWriting: {:x}\n",
        stats.num_writes_completed,
        stats.num_writes_merged,
        stats.num_sectors_written,
        stats.milliseconds_writing
    );
    let all = format!(
        "NumIOsInProgress: {:x} MillisecondsIO: {:x} WeightedMillisecsIO: {:x}\n",
        stats.num_ios_in_progress, stats.milliseconds_io, stats.weighted_milliseconds_io
    );
    [
        prefix,
        b"PMIX_DISK_STATS Disk: ",
        disk,
        b"\n",
        prefix,
        reads.as_bytes(),
        prefix,
        writes.as_bytes(),
        prefix,
        all.as_bytes(),
    ]
    .concat()
}

/// Returns the text of the statistics of a network interface.
///
/// # Safety
///
/// The structure is valid.
unsafe fn net_stats(stats: &CNetStats, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees a string or null.
    let interface = unsafe { c_text(stats.net_interface) };
    let received = format!(
        "NumBytesRecvd: {:x} NumPacketsRecv: {:x} NumRecvErrors: {:x}\n",
        stats.num_bytes_recvd, stats.num_packets_recvd, stats.num_recv_errs
    );
    let sent = format!(
        "NumBytesSent: {:x} NumPacketsSent: {:x} NumSendErrors: {:x}\n",
        stats.num_bytes_sent, stats.num_packets_sent, stats.num_send_errs
    );
    [
        prefix,
        b"PMIX_NET_STATS Interface: ",
        interface,
        b"\n",
        prefix,
        received.as_bytes(),
        prefix,
        sent.as_bytes(),
    ]
    .concat()
}

/// Returns the text of the statistics of a node.
///
/// # Safety
///
/// The structure is valid.
unsafe fn node_stats(stats: &CNodeStats, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees a string or null.
    let node = unsafe { c_text(stats.node) };
    let sampled = format!(
        "{}.{:06}",
        stats.sample_time.tv_sec, stats.sample_time.tv_usec
    );
    let memory = format!(
        "Total Mem: {:5.2} Free Mem: {:5.2} Buffers: {:5.2} Cached: {:5.2}\n",
        stats.total_mem, stats.free_mem, stats.buffers, stats.cached
    );
    let swap = format!(
        "SwapCached: {:5.2} SwapTotal: {:5.2} SwapFree: {:5.2} Mapped: {:5.2}\n",
        stats.swap_cached, stats.swap_total, stats.swap_free, stats.mapped
    );
    let load = format!(
        "\tla: {:5.2}\tla5: {:5.2}\tla15: {:5.2}\n",
        stats.la, stats.la5, stats.la15
    );
    [
        prefix,
        b"PMIX_NODE_STATS SAMPLED AT: ",
        sampled.as_bytes(),
        b"\tNode: ",
        node,
        b"\n",
        prefix,
        memory.as_bytes(),
        prefix,
        swap.as_bytes(),
        prefix,
        load.as_bytes(),
    ]
    .concat()
}
