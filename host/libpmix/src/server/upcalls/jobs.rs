//! Upcalls of jobs: their begin, end, control, monitoring and allocation.
use super::{
    super::HostServer,
    ABSENT, PreparedUpcall,
    answers::{answer_done, answer_infos, answer_spawn},
    arguments::{UpcallArguments, one, text_of},
};
use crate::heap_array::HeapArray;
use peal_model::{App, Info, Proc, Status, Text};
use std::ptr;

impl HostServer {
    pub(super) fn abort(
        &self,
        source: &Proc,
        status: Status,
        message: Option<Text>,
        targets: &[Proc],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.abort.ok_or(ABSENT)?;
        let object = self.clients.object(source);
        let mut arguments = UpcallArguments {
            procs: HeapArray::from_models(targets)?,
            text: message.as_ref().map(text_of).unwrap_or_default(),
            ..UpcallArguments::of(source.clone())?
        };
        let text = match message {
            Some(_) => arguments.text.as_ptr(),
            None => ptr::null(),
        };
        let source = arguments.source.as_mut_ptr();
        let (targets, ntargets) = arguments.procs.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_done as _);
                function(
                    source,
                    object.get(),
                    status.0,
                    text,
                    targets,
                    ntargets,
                    callback,
                    token,
                )
            }),
        })
    }

    pub(super) fn spawn(
        &self,
        source: Proc,
        infos: &[Info],
        apps: &[App],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.spawn.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            infos: HeapArray::from_models(infos)?,
            apps: HeapArray::from_models(apps)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        let (apps, napps) = arguments.apps.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(
                    source,
                    infos,
                    ninfos,
                    apps,
                    napps,
                    Some(answer_spawn),
                    token,
                )
            }),
        })
    }

    pub(super) fn allocate(
        &self,
        source: Proc,
        directive: u8,
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.allocate.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            infos: HeapArray::from_models(infos)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(source, directive, infos, ninfos, Some(answer_infos), token)
            }),
        })
    }

    pub(super) fn job_control(
        &self,
        source: Proc,
        targets: &[Proc],
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.job_control.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            procs: HeapArray::from_models(targets)?,
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let source = arguments.source.as_mut_ptr();
        let (targets, ntargets) = arguments.procs.as_raw_parts();
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_infos as _);
                function(
                    source, targets, ntargets, directives, ndirs, callback, token,
                )
            }),
        })
    }

    pub(super) fn monitor(
        &self,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.monitor.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            infos: one(monitor)?,
            directives: HeapArray::from_models(directives)?,
            ..UpcallArguments::of(source)?
        };
        let (source, monitor) = (arguments.source.as_mut_ptr(), arguments.infos.as_mut_ptr());
        let (directives, ndirs) = arguments.directives.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                let callback = Some(answer_infos as _);
                function(source, monitor, error.0, directives, ndirs, callback, token)
            }),
        })
    }
}
