//! Arguments of calls that several procs make together: fences, connects and disconnects.
use crate::{
    abi::{CInfo, CProc},
    convert::{ConvertError, read_array},
};
use peal_model::{Info, Proc};

/// Procs that make a call together, and the directives of this proc.
pub(super) struct Participants {
    pub(super) procs: Vec<Proc>,
    pub(super) infos: Vec<Info>,
}

impl Participants {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `procs` is null or begins an array of `nprocs` procs, `info` of `ninfo` infos.
    pub(super) unsafe fn read(
        procs: *const CProc,
        nprocs: usize,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Participants, ConvertError> {
        // SAFETY: the caller guarantees the arrays.
        unsafe {
            Ok(Participants {
                procs: read_array(procs, nprocs, "procs")?,
                infos: read_array(info, ninfo, "infos")?,
            })
        }
    }
}
