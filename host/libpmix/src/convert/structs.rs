//! Procs, applications, queries and other structures, member by member.
use super::{
    ConvertError, FromC, ReadBounds, ToC, fill_list, read_list,
    text::{argv, copy_characters, fill_argv, shared_nspace, text, text_to_c},
};
use crate::{
    abi::{
        CApp, CByteObject, CDataBuffer, CEnvar, CKey, CProc, CProcInfo, CQuery, CRegattr, CStatus,
        KEY_SIZE,
    },
    memory,
};
use peal_model::{
    App, Bytes, DataType, Envar, Proc, ProcInfo, ProcState, Query, Rank, Regattr, Status, Text,
};
use std::{ffi::c_char, slice};

/// Bytes of a `pmix_data_buffer_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferBytes(pub Bytes);

impl FromC for u32 {
    type Source = u32;

    unsafe fn from_c(source: &u32, _: &mut ReadBounds) -> Result<u32, ConvertError> {
        Ok(*source)
    }
}

impl ToC for u32 {
    type Target = u32;

    fn fill(&self, target: &mut u32) -> Result<(), ConvertError> {
        *target = *self;
        Ok(())
    }
}

impl FromC for Status {
    type Source = CStatus;

    unsafe fn from_c(source: &CStatus, _: &mut ReadBounds) -> Result<Status, ConvertError> {
        Ok(Status(*source))
    }
}

impl ToC for Status {
    type Target = CStatus;

    fn fill(&self, target: &mut CStatus) -> Result<(), ConvertError> {
        *target = self.0;
        Ok(())
    }
}

impl FromC for Proc {
    type Source = CProc;

    unsafe fn from_c(source: &CProc, bounds: &mut ReadBounds) -> Result<Proc, ConvertError> {
        Ok(Proc::new(
            shared_nspace(&source.nspace, bounds)?,
            Rank(source.rank),
        ))
    }
}

impl ToC for Proc {
    type Target = CProc;

    fn fill(&self, target: &mut CProc) -> Result<(), ConvertError> {
        copy_characters(&mut target.nspace, self.nspace.as_str().as_bytes());
        target.rank = self.rank.0;
        Ok(())
    }
}

/// Reads bytes; none for a null pointer, as the C library does.
///
/// # Safety
///
/// `bytes` is null or points to `size` bytes.
unsafe fn read_bytes(
    bytes: *const c_char,
    size: usize,
    bounds: &mut ReadBounds,
) -> Result<Bytes, ConvertError> {
    if bytes.is_null() || size == 0 {
        return Ok(Bytes::default());
    }
    bounds.bytes(size)?;
    // SAFETY: the caller guarantees `size` bytes.
    Ok(Bytes::from(unsafe {
        slice::from_raw_parts(bytes.cast::<u8>(), size)
    }))
}

impl FromC for Bytes {
    type Source = CByteObject;

    unsafe fn from_c(source: &CByteObject, bounds: &mut ReadBounds) -> Result<Bytes, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe { read_bytes(source.bytes, source.size, bounds) }
    }
}

impl ToC for Bytes {
    type Target = CByteObject;

    fn fill(&self, target: &mut CByteObject) -> Result<(), ConvertError> {
        target.bytes = memory::copy_bytes(self.as_slice())?;
        target.size = self.as_slice().len();
        Ok(())
    }
}

impl FromC for BufferBytes {
    type Source = CDataBuffer;

    /// Reads the used bytes, also those that the caller has unpacked.
    unsafe fn from_c(
        source: &CDataBuffer,
        bounds: &mut ReadBounds,
    ) -> Result<BufferBytes, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe { read_bytes(source.base_ptr, source.bytes_used, bounds) }.map(BufferBytes)
    }
}

impl ToC for BufferBytes {
    type Target = CDataBuffer;

    /// Writes a buffer from which nothing is unpacked yet, and to which more may be packed.
    fn fill(&self, target: &mut CDataBuffer) -> Result<(), ConvertError> {
        let len = self.0.as_slice().len();
        target.base_ptr = memory::copy_bytes(self.0.as_slice())?;
        target.unpack_ptr = target.base_ptr;
        target.pack_ptr = target.base_ptr.wrapping_add(len);
        target.bytes_allocated = len;
        target.bytes_used = len;
        Ok(())
    }
}

impl FromC for Envar {
    type Source = CEnvar;

    unsafe fn from_c(source: &CEnvar, bounds: &mut ReadBounds) -> Result<Envar, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Envar {
                name: text(source.envar, bounds)?,
                value: text(source.value, bounds)?,
                separator: source.separator.cast_unsigned(),
            })
        }
    }
}

impl ToC for Envar {
    type Target = CEnvar;

    fn fill(&self, target: &mut CEnvar) -> Result<(), ConvertError> {
        target.envar = text_to_c(self.name.as_ref())?;
        target.value = text_to_c(self.value.as_ref())?;
        target.separator = self.separator.cast_signed();
        Ok(())
    }
}

impl FromC for ProcInfo {
    type Source = CProcInfo;

    unsafe fn from_c(
        source: &CProcInfo,
        bounds: &mut ReadBounds,
    ) -> Result<ProcInfo, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(ProcInfo {
                proc: Proc::from_c(&source.proc, bounds)?,
                hostname: text(source.hostname, bounds)?,
                executable: text(source.executable_name, bounds)?,
                pid: source.pid.cast_unsigned(),
                state: ProcState(source.state),
            })
        }
    }
}

impl ToC for ProcInfo {
    type Target = CProcInfo;

    fn fill(&self, target: &mut CProcInfo) -> Result<(), ConvertError> {
        self.proc.fill(&mut target.proc)?;
        target.hostname = text_to_c(self.hostname.as_ref())?;
        target.executable_name = text_to_c(self.executable.as_ref())?;
        target.pid = self.pid.cast_signed();
        target.state = self.state.0;
        Ok(())
    }
}

impl FromC for App {
    type Source = CApp;

    unsafe fn from_c(source: &CApp, bounds: &mut ReadBounds) -> Result<App, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(App {
                command: text(source.cmd, bounds)?,
                args: argv(source.argv, bounds)?,
                env: argv(source.env, bounds)?,
                cwd: text(source.cwd, bounds)?,
                max_procs: source.maxprocs,
                infos: read_list(source.info, source.ninfo, "infos of an application", bounds)?,
            })
        }
    }
}

impl ToC for App {
    type Target = CApp;

    fn fill(&self, target: &mut CApp) -> Result<(), ConvertError> {
        target.cmd = text_to_c(self.command.as_ref())?;
        fill_argv(&mut target.argv, &self.args)?;
        fill_argv(&mut target.env, &self.env)?;
        target.cwd = text_to_c(self.cwd.as_ref())?;
        target.maxprocs = self.max_procs;
        fill_list(&self.infos, &mut target.info, &mut target.ninfo)
    }
}

impl FromC for Query {
    type Source = CQuery;

    unsafe fn from_c(source: &CQuery, bounds: &mut ReadBounds) -> Result<Query, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Query {
                keys: argv(source.keys, bounds)?,
                qualifiers: read_list(source.qualifiers, source.nqual, "qualifiers", bounds)?,
            })
        }
    }
}

impl ToC for Query {
    type Target = CQuery;

    fn fill(&self, target: &mut CQuery) -> Result<(), ConvertError> {
        fill_argv(&mut target.keys, &self.keys)?;
        fill_list(&self.qualifiers, &mut target.qualifiers, &mut target.nqual)
    }
}

/// Reads the key of an attribute's description, which may be any bytes. One without NUL is cut, as
/// by the C library.
fn key_text(key: &CKey) -> Text {
    let characters = key.iter().take(KEY_SIZE - 1);
    let bytes: Vec<u8> = characters
        .map(|character| character.cast_unsigned())
        .collect();
    Text::from_bytes(&bytes)
}

impl FromC for Regattr {
    type Source = CRegattr;

    unsafe fn from_c(source: &CRegattr, bounds: &mut ReadBounds) -> Result<Regattr, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Regattr {
                name: text(source.name, bounds)?,
                key: Some(key_text(&source.string)),
                data_type: DataType(source.r#type),
                description: argv(source.description, bounds)?,
            })
        }
    }
}

impl ToC for Regattr {
    type Target = CRegattr;

    fn fill(&self, target: &mut CRegattr) -> Result<(), ConvertError> {
        target.name = text_to_c(self.name.as_ref())?;
        let key = self.key.as_ref().map_or(&[][..], Text::as_bytes);
        copy_characters(&mut target.string, key);
        target.r#type = self.data_type.0;
        fill_argv(&mut target.description, &self.description)
    }
}
