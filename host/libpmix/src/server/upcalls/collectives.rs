//! Upcalls of collectives: fences, connections, groups, and the values of other nodes.
use super::{
    super::HostServer,
    ABSENT, PreparedUpcall,
    answers::{answer_done, answer_infos, answer_modex},
    arguments::{UpcallArguments, text_of},
};
use crate::{
    abi::{CGroupOperation, CInfo, COpCallback, CProc, CStatus},
    convert::ConvertError,
    heap_array::HeapArray,
    memory,
};
use peal_model::{Bytes, Info, Proc, Status, Text};
use std::ffi::c_void;

/// Function of a connect or disconnect.
type ConnectFunction = unsafe extern "C" fn(
    *const CProc,
    usize,
    *const CInfo,
    usize,
    COpCallback,
    *mut c_void,
) -> CStatus;

fn procs_and_infos(procs: &[Proc], infos: &[Info]) -> Result<UpcallArguments, ConvertError> {
    Ok(UpcallArguments {
        procs: HeapArray::from_models(procs)?,
        infos: HeapArray::from_models(infos)?,
        ..UpcallArguments::default()
    })
}

fn connection(
    function: ConnectFunction,
    procs: &[Proc],
    infos: &[Info],
) -> Result<PreparedUpcall, Status> {
    let mut arguments = procs_and_infos(procs, infos)?;
    let (procs, nprocs) = arguments.procs.as_raw_parts();
    let (infos, ninfos) = arguments.infos.as_raw_parts();
    Ok(PreparedUpcall {
        arguments,
        // SAFETY: the host passed the function for this call, and the arguments live until it answers.
        call: Box::new(move |token| unsafe {
            function(procs, nprocs, infos, ninfos, Some(answer_done), token)
        }),
    })
}

impl HostServer {
    /// Prepares a fence. The data are the host environment's, which frees them: the C library never
    /// does.
    pub(super) fn fence(
        &self,
        procs: &[Proc],
        infos: &[Info],
        data: &Bytes,
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.fence_nb.ok_or(ABSENT)?;
        let mut arguments = procs_and_infos(procs, infos)?;
        let (procs, nprocs) = arguments.procs.as_raw_parts();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        let (bytes, nbytes) = (memory::copy_bytes(data.as_slice())?, data.as_slice().len());
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers. The bytes are a copy for it.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_modex as _);
                function(procs, nprocs, infos, ninfos, bytes, nbytes, callback, token)
            }),
        })
    }

    pub(super) fn direct_modex(
        &self,
        proc: Proc,
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.direct_modex.ok_or(ABSENT)?;
        let mut arguments = procs_and_infos(&[proc], infos)?;
        let proc = arguments.procs.as_mut_ptr();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                function(proc, infos, ninfos, Some(answer_modex), token)
            }),
        })
    }

    pub(super) fn connect(&self, procs: &[Proc], infos: &[Info]) -> Result<PreparedUpcall, Status> {
        connection(self.module.0.connect.ok_or(ABSENT)?, procs, infos)
    }

    pub(super) fn disconnect(
        &self,
        procs: &[Proc],
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        connection(self.module.0.disconnect.ok_or(ABSENT)?, procs, infos)
    }

    pub(super) fn group(
        &self,
        operation: u8,
        group: &Text,
        procs: &[Proc],
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.group.ok_or(ABSENT)?;
        let mut arguments = procs_and_infos(procs, directives)?;
        arguments.text = text_of(group);
        let name = arguments.text.as_ptr().cast_mut();
        let (procs, nprocs) = arguments.procs.as_raw_parts();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        let operation = CGroupOperation::from(operation);
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_infos as _);
                function(
                    operation, name, procs, nprocs, infos, ninfos, callback, token,
                )
            }),
        })
    }
}
