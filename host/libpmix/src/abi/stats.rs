//! C structures of usage statistics, which 6.1 retired.
#![allow(missing_docs, reason = "members have the names of the C members")]
use super::{CProc, CTimeval};
use std::ffi::c_char;

/// `pmix_proc_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CProcStats {
    pub node: *mut c_char,
    pub proc: CProc,
    pub pid: libc::pid_t,
    pub cmd: *mut c_char,
    pub state: c_char,
    pub time: CTimeval,
    pub percent_cpu: f32,
    pub priority: i32,
    pub num_threads: u16,
    pub pss: f32,
    pub vsize: f32,
    pub rss: f32,
    pub peak_vsize: f32,
    pub processor: u16,
    pub sample_time: CTimeval,
}

/// `pmix_disk_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDiskStats {
    pub disk: *mut c_char,
    pub num_reads_completed: u64,
    pub num_reads_merged: u64,
    pub num_sectors_read: u64,
    pub milliseconds_reading: u64,
    pub num_writes_completed: u64,
    pub num_writes_merged: u64,
    pub num_sectors_written: u64,
    pub milliseconds_writing: u64,
    pub num_ios_in_progress: u64,
    pub milliseconds_io: u64,
    pub weighted_milliseconds_io: u64,
}

/// `pmix_net_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CNetStats {
    pub net_interface: *mut c_char,
    pub num_bytes_recvd: u64,
    pub num_packets_recvd: u64,
    pub num_recv_errs: u64,
    pub num_bytes_sent: u64,
    pub num_packets_sent: u64,
    pub num_send_errs: u64,
}

/// `pmix_node_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CNodeStats {
    pub node: *mut c_char,
    pub la: f32,
    pub la5: f32,
    pub la15: f32,
    pub total_mem: f32,
    pub free_mem: f32,
    pub buffers: f32,
    pub cached: f32,
    pub swap_cached: f32,
    pub swap_total: f32,
    pub swap_free: f32,
    pub mapped: f32,
    pub sample_time: CTimeval,
    pub diskstats: *mut CDiskStats,
    pub ndiskstats: usize,
    pub netstats: *mut CNetStats,
    pub nnetstats: usize,
}
