//! Upcalls of events.
use super::{
    super::HostServer,
    ABSENT, PreparedUpcall,
    answers::answer_done,
    arguments::{UpcallArguments, one},
};
use crate::heap_array::HeapArray;
use peal_model::{Event, Info, Proc, Status, rank};

impl HostServer {
    pub(super) fn register_events(
        &self,
        codes: &[Status],
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.register_events.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            codes: HeapArray::from_models(codes)?,
            infos: HeapArray::from_models(infos)?,
            ..UpcallArguments::default()
        };
        let (codes, ncodes) = arguments.codes.as_raw_parts();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                function(codes, ncodes, infos, ninfos, Some(answer_done), token)
            }),
        })
    }

    pub(super) fn deregister_events(&self, codes: &[Status]) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.deregister_events.ok_or(ABSENT)?;
        let mut arguments = UpcallArguments {
            codes: HeapArray::from_models(codes)?,
            ..UpcallArguments::default()
        };
        let (codes, ncodes) = arguments.codes.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(codes, ncodes, Some(answer_done), token)
            }),
        })
    }

    pub(super) fn notify(&self, event: Event) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.notify_event.ok_or(ABSENT)?;
        let nowhere = || Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
        let mut arguments = UpcallArguments {
            source: one(event.source.unwrap_or_else(nowhere))?,
            infos: HeapArray::from_models(&event.infos)?,
            ..UpcallArguments::default()
        };
        let (code, range) = (event.code.0, event.range as u8);
        let source = arguments.source.as_mut_ptr();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(code, source, range, infos, ninfos, Some(answer_done), token)
            }),
        })
    }
}
