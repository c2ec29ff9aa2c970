//! Upcalls of published data.
use super::{
    super::HostServer,
    ABSENT, PreparedUpcall,
    answers::{answer_done, answer_lookup},
    arguments::{KeyList, UpcallArguments},
};
use crate::{convert::ConvertError, heap_array::HeapArray};
use peal_model::{Info, Proc, Status, Text};

fn keys_and_infos(
    source: Proc,
    keys: Vec<Text>,
    infos: &[Info],
) -> Result<UpcallArguments, ConvertError> {
    Ok(UpcallArguments {
        keys: KeyList::new(keys)?,
        infos: HeapArray::from_models(infos)?,
        ..UpcallArguments::of(source)?
    })
}

impl HostServer {
    pub(super) fn publish(&self, source: Proc, infos: &[Info]) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.publish.ok_or(ABSENT)?;
        let mut arguments = keys_and_infos(source, Vec::new(), infos)?;
        let source = arguments.source.as_mut_ptr();
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                function(source, infos, ninfos, Some(answer_done), token)
            }),
        })
    }

    pub(super) fn lookup(
        &self,
        source: Proc,
        keys: Vec<Text>,
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.lookup.ok_or(ABSENT)?;
        let mut arguments = keys_and_infos(source, keys, infos)?;
        let (source, keys) = (arguments.source.as_mut_ptr(), arguments.keys.as_ptr());
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(source, keys, infos, ninfos, Some(answer_lookup), token)
            }),
        })
    }

    pub(super) fn unpublish(
        &self,
        source: Proc,
        keys: Vec<Text>,
        infos: &[Info],
    ) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.unpublish.ok_or(ABSENT)?;
        let mut arguments = keys_and_infos(source, keys, infos)?;
        let (source, keys) = (arguments.source.as_mut_ptr(), arguments.keys.as_ptr());
        let (infos, ninfos) = arguments.infos.as_raw_parts();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: as above.
            call: Box::new(move |token| unsafe {
                function(source, keys, infos, ninfos, Some(answer_done), token)
            }),
        })
    }
}
