//! Usage statistics of disks, network interfaces and nodes.
use super::{
    ConvertError, FromC, ReadBounds, ToC,
    text::{text, text_to_c},
};
use crate::abi::{CDiskStats, CNetStats, CNodeStats, CTimeval};
use peal_model::{DiskStats, NetStats, NodeStats};

impl FromC for DiskStats {
    type Source = CDiskStats;

    unsafe fn from_c(
        source: &CDiskStats,
        bounds: &mut ReadBounds,
    ) -> Result<DiskStats, ConvertError> {
        Ok(DiskStats {
            // SAFETY: the caller guarantees what `from_c` demands.
            disk: unsafe { text(source.disk, bounds) }?,
            counters: [
                source.num_reads_completed,
                source.num_reads_merged,
                source.num_sectors_read,
                source.milliseconds_reading,
                source.num_writes_completed,
                source.num_writes_merged,
                source.num_sectors_written,
                source.milliseconds_writing,
                source.num_ios_in_progress,
                source.milliseconds_io,
                source.weighted_milliseconds_io,
            ],
        })
    }
}

impl ToC for DiskStats {
    type Target = CDiskStats;

    fn fill(&self, target: &mut CDiskStats) -> Result<(), ConvertError> {
        target.disk = text_to_c(self.disk.as_ref())?;
        [
            target.num_reads_completed,
            target.num_reads_merged,
            target.num_sectors_read,
            target.milliseconds_reading,
            target.num_writes_completed,
            target.num_writes_merged,
            target.num_sectors_written,
            target.milliseconds_writing,
            target.num_ios_in_progress,
            target.milliseconds_io,
            target.weighted_milliseconds_io,
        ] = self.counters;
        Ok(())
    }
}

impl FromC for NetStats {
    type Source = CNetStats;

    unsafe fn from_c(
        source: &CNetStats,
        bounds: &mut ReadBounds,
    ) -> Result<NetStats, ConvertError> {
        Ok(NetStats {
            // SAFETY: the caller guarantees what `from_c` demands.
            interface: unsafe { text(source.net_interface, bounds) }?,
            counters: [
                source.num_bytes_recvd,
                source.num_packets_recvd,
                source.num_recv_errs,
                source.num_bytes_sent,
                source.num_packets_sent,
                source.num_send_errs,
            ],
        })
    }
}

impl ToC for NetStats {
    type Target = CNetStats;

    fn fill(&self, target: &mut CNetStats) -> Result<(), ConvertError> {
        target.net_interface = text_to_c(self.interface.as_ref())?;
        [
            target.num_bytes_recvd,
            target.num_packets_recvd,
            target.num_recv_errs,
            target.num_bytes_sent,
            target.num_packets_sent,
            target.num_send_errs,
        ] = self.counters;
        Ok(())
    }
}

impl FromC for NodeStats {
    type Source = CNodeStats;

    /// Reads all but the disks and interfaces, which no release sends correctly.
    unsafe fn from_c(
        source: &CNodeStats,
        bounds: &mut ReadBounds,
    ) -> Result<NodeStats, ConvertError> {
        Ok(NodeStats {
            // SAFETY: the caller guarantees what `from_c` demands.
            node: unsafe { text(source.node, bounds) }?,
            load: [source.la, source.la5, source.la15],
            memory: [
                source.total_mem,
                source.free_mem,
                source.buffers,
                source.cached,
                source.swap_cached,
                source.swap_total,
                source.swap_free,
                source.mapped,
            ],
            sample_time: (source.sample_time.tv_sec, source.sample_time.tv_usec),
        })
    }
}

impl ToC for NodeStats {
    type Target = CNodeStats;

    fn fill(&self, target: &mut CNodeStats) -> Result<(), ConvertError> {
        target.node = text_to_c(self.node.as_ref())?;
        [target.la, target.la5, target.la15] = self.load;
        [
            target.total_mem,
            target.free_mem,
            target.buffers,
            target.cached,
            target.swap_cached,
            target.swap_total,
            target.swap_free,
            target.mapped,
        ] = self.memory;
        let (tv_sec, tv_usec) = self.sample_time;
        target.sample_time = CTimeval { tv_sec, tv_usec };
        Ok(())
    }
}
