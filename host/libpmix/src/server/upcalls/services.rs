//! Upcalls of queries, tools, logs, credentials, standard streams and fabrics.
use super::{
    super::HostServer,
    ABSENT, PreparedUpcall,
    answers::{answer_credential, answer_done, answer_infos, answer_tool, answer_validation},
    arguments::{UpcallArguments, one},
};
use crate::{abi::CFabricOperation, heap_array::HeapArray};
use peal_model::{Bytes, Info, IofChannel, Proc, Query, Status, code};

impl HostServer {
    pub(super) fn query(&self, source: Proc, queries: &[Query]) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.query.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            queries: HeapArray::from_models(queries)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (queries, nqueries) = arguments.queries.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                function(source, queries, nqueries, Some(answer_infos), token)
            }),
        })
    }

    /// Prepares the connection of a tool. The function returns nothing: only its callback answers.
    pub(super) fn tool_connected(&self, infos: &[Info]) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.tool_connected.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            infos: HeapArray::from_models(infos)?,
            ..UpcallArguments::default()
        };
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            call: Box::new(move |token| {
                // SAFETY: as above.
                unsafe { function(infos, ninfos, Some(answer_tool), token) };
                code::PMIX_SUCCESS.0
            }),
        })
    }

    /// Prepares a log request. The function returns nothing: only its callback answers.
    pub(super) fn log(
        &self,
        source: Proc,
        data: &[Info],
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.log.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            infos: HeapArray::from_models(data)?,
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (data, ndata) = arguments.infos.as_raw_parts();
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            call: Box::new(move |token| {
                let callback = Some(answer_done as _);
                // SAFETY: as above.
                unsafe { function(source, data, ndata, directives, ndirs, callback, token) };
                code::PMIX_SUCCESS.0
            }),
        })
    }

    pub(super) fn get_credential(
        &self,
        source: Proc,
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.get_credential.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(source, directives, ndirs, Some(answer_credential), token)
            }),
        })
    }

    pub(super) fn validate_credential(
        &self,
        source: Proc,
        credential: Bytes,
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.validate_credential.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            bytes: one(credential)?,
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let (source, credential) = (arguments.source.as_mut_ptr(), arguments.bytes.as_mut_ptr());
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_validation as _);
                function(source, credential, directives, ndirs, callback, token)
            }),
        })
    }

    pub(super) fn iof_pull(
        &self,
        procs: &[Proc],
        directives: &[Info],
        channels: IofChannel,
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.iof_pull.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            procs: HeapArray::from_models(procs)?,
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::default()
        };
        let (procs, nprocs) = arguments.procs.as_raw_parts();
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_done as _);
                function(
                    procs, nprocs, directives, ndirs, channels.0, callback, token,
                )
            }),
        })
    }

    /// Prepares input for procs. At its end the byte object is empty; some hosts follow the pointer to it
    /// in any case.
    pub(super) fn push_stdin(
        &self,
        source: Proc,
        targets: &[Proc],
        directives: &[Info],
        data: Option<Bytes>,
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.push_stdin.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            procs: HeapArray::from_models(targets)?,
            directives: HeapArray::from_models(directives)?,
            bytes: one(data.unwrap_or_default())?,
            ..UpcallArguments::of(source)?
        };
        let (source, bytes) = (arguments.source.as_mut_ptr(), arguments.bytes.as_mut_ptr());
        let (targets, ntargets) = arguments.procs.as_raw_parts();
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_done as _);
                function(
                    source, targets, ntargets, directives, ndirs, bytes, callback, token,
                )
            }),
        })
    }

    pub(super) fn fabric(
        &self,
        source: Proc,
        operation: u8,
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.fabric.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let operation = CFabricOperation::from(operation);
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(
                    source,
                    operation,
                    directives,
                    ndirs,
                    Some(answer_infos),
                    token,
                )
            }),
        })
    }
}
