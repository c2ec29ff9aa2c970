//! Infos and published data.
use super::{
    ConvertError, FromC, ReadBounds, ToC,
    text::{copy_characters, key_from_array},
};
use crate::{
    abi::{CInfo, CPdata},
    destruct::PERSISTENT,
};
use peal_model::{Info, InfoFlags, Pdata, Proc, Value};

/// Returns the flags that concern the receiver: whether a value must be freed is a matter of the
/// memory that it is in.
fn sent(flags: InfoFlags) -> InfoFlags {
    InfoFlags(flags.0 & !PERSISTENT.0)
}

impl FromC for Info {
    type Source = CInfo;

    unsafe fn from_c(source: &CInfo, bounds: &mut ReadBounds) -> Result<Info, ConvertError> {
        Ok(Info {
            key: key_from_array(&source.key)?,
            flags: sent(InfoFlags(source.flags)),
            // SAFETY: the caller guarantees what `from_c` demands, also of the value.
            value: unsafe { Value::from_c(&source.value, bounds) }?,
        })
    }
}

impl ToC for Info {
    type Target = CInfo;

    fn fill(&self, target: &mut CInfo) -> Result<(), ConvertError> {
        copy_characters(&mut target.key, self.key.as_bytes());
        target.flags = sent(self.flags).0;
        self.value.fill(&mut target.value)
    }
}

impl FromC for Pdata {
    type Source = CPdata;

    unsafe fn from_c(source: &CPdata, bounds: &mut ReadBounds) -> Result<Pdata, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands, also of the members.
        unsafe {
            Ok(Pdata {
                proc: Proc::from_c(&source.proc, bounds)?,
                key: key_from_array(&source.key)?,
                value: Value::from_c(&source.value, bounds)?,
            })
        }
    }
}

impl ToC for Pdata {
    type Target = CPdata;

    fn fill(&self, target: &mut CPdata) -> Result<(), ConvertError> {
        self.proc.fill(&mut target.proc)?;
        copy_characters(&mut target.key, self.key.as_bytes());
        self.value.fill(&mut target.value)
    }
}
