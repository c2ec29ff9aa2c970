//! Infos: loading, copying, and their flags (`PMIx_Info_*`).
use super::{
    keys::bounded,
    strings::c_bool,
    value::{self, truth},
};
use crate::{
    abi::{CBool, CInfo, CInfoDirectives, CStatus, KEY_SIZE},
    border,
    convert::{ConvertError, fill_characters},
    destruct::Destruct,
    duplicate::duplicate_into,
};
use peal_model::{DataType, code, names::number};
use std::ffi::{c_char, c_int, c_void};

/// Makes an info of a key and data.
///
/// # Errors
///
/// Fails if the key is null, and as [`value::load`].
///
/// # Safety
///
/// `key` is null, or a string or a key; `data` is as for [`value::load`].
pub(super) unsafe fn load(
    key: *const c_char,
    data: *const c_void,
    data_type: DataType,
) -> Result<CInfo, ConvertError> {
    if key.is_null() {
        return Err(ConvertError::NullPointer { what: "key" });
    }
    let mut info = CInfo::zeroed();
    // SAFETY: the caller guarantees a string or key, and data of the type.
    unsafe {
        fill_characters(&mut info.key, bounded(key, KEY_SIZE - 1));
        info.value = value::load(data, data_type)?;
    }
    Ok(info)
}

/// `PMIx_Info_load`: writes an info, whose old contents are not freed.
///
/// # Safety
///
/// `info` is null or points to memory for an info; `key` is null, or a string or a key; `data` is
/// null or of the data type, as for `PMIx_Value_load`.
#[unsafe(export_name = "PMIx_Info_load")]
pub unsafe extern "C" fn info_load(
    info: *mut CInfo,
    key: *const c_char,
    data: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Info_load", || {
        if info.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees what `load` demands, and memory for an info. The key may be
        // that of the info itself, so it is read first.
        unsafe {
            let loaded = load(key, data, DataType(data_type));
            info.write(
                loaded
                    .as_ref()
                    .map_or_else(|_| CInfo::zeroed(), |info| *info),
            );
            loaded?;
        }
        Ok(())
    })
}

/// `PMIx_Info_xfer`: copies an info into another one, whose old contents are not freed. The value of
/// a persistent info is shared by both.
///
/// # Safety
///
/// `target` is null or points to memory for an info, `source` is null or points to an info.
#[unsafe(export_name = "PMIx_Info_xfer")]
pub unsafe extern "C" fn info_xfer(target: *mut CInfo, source: *const CInfo) -> CStatus {
    border::status("PMIx_Info_xfer", || {
        // SAFETY: the caller guarantees an info or null.
        let source = *unsafe { source.as_ref() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        if target.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let mut copy = CInfo::zeroed();
        // SAFETY: the caller guarantees that the info is valid, and memory for the copy.
        unsafe {
            let copied = duplicate_into(&source, &mut copy);
            target.write(copy);
            Ok(copied?)
        }
    })
}

/// `PMIx_Info_true`: returns 0 if the value is true, 1 if it is false, 2 if it is neither.
///
/// # Safety
///
/// `info` is null or points to an info.
#[unsafe(export_name = "PMIx_Info_true")]
pub unsafe extern "C" fn info_true(info: *const CInfo) -> c_int {
    border::value("PMIx_Info_true", 2, || {
        // SAFETY: the caller guarantees a valid info or null.
        unsafe { info.as_ref().map_or(2, |info| truth(&info.value)) }
    })
}

/// Defines functions that set or clear a flag of an info, and functions that read one.
macro_rules! flags {
    ($($way:ident $c_name:literal $name:ident $flag:ident;)+) => {
        $(flags!(@ $way $c_name $name $flag);)+
    };
    (@ set $c_name:literal $name:ident $flag:ident) => {
        flags!(@ change $c_name $name |flags, flag| flags | flag, $flag);
    };
    (@ clear $c_name:literal $name:ident $flag:ident) => {
        flags!(@ change $c_name $name |flags, flag| flags & !flag, $flag);
    };
    (@ change $c_name:literal $name:ident |$flags:ident, $bit:ident| $new:expr, $flag:ident) => {
        #[doc = concat!("`", $c_name, "`: changes `", stringify!($flag), "`; not for null.")]
        ///
        /// # Safety
        ///
        /// `info` is null or points to an info.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn $name(info: *mut CInfo) {
            border::value($c_name, (), || {
                // SAFETY: the caller guarantees an info or null.
                if let Some(info) = unsafe { info.as_mut() } {
                    let ($flags, $bit) = (info.flags, number::$flag as CInfoDirectives);
                    info.flags = $new;
                }
            });
        }
    };
    (@ has $c_name:literal $name:ident $flag:ident) => {
        flags!(@ read $c_name $name |is_set| is_set, $flag);
    };
    (@ lacks $c_name:literal $name:ident $flag:ident) => {
        flags!(@ read $c_name $name |is_set| !is_set, $flag);
    };
    (@ read $c_name:literal $name:ident |$is_set:ident| $answer:expr, $flag:ident) => {
        #[doc = concat!("`", $c_name, "`: reads `", stringify!($flag), "`; false for null.")]
        ///
        /// # Safety
        ///
        /// `info` is null or points to an info.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn $name(info: *const CInfo) -> CBool {
            border::value($c_name, 0, || {
                // SAFETY: the caller guarantees an info or null.
                unsafe { info.as_ref() }.map_or(0, |info| {
                    let $is_set = info.flags & number::$flag as CInfoDirectives != 0;
                    c_bool($answer)
                })
            })
        }
    };
}

flags! {
    set "PMIx_Info_required" info_required PMIX_INFO_REQD;
    clear "PMIx_Info_optional" info_optional PMIX_INFO_REQD;
    set "PMIx_Info_processed" info_processed PMIX_INFO_REQD_PROCESSED;
    set "PMIx_Info_set_end" info_set_end PMIX_INFO_ARRAY_END;
    set "PMIx_Info_qualifier" info_qualifier PMIX_INFO_QUALIFIER;
    set "PMIx_Info_persistent" info_persistent PMIX_INFO_PERSISTENT;
    has "PMIx_Info_is_required" info_is_required PMIX_INFO_REQD;
    lacks "PMIx_Info_is_optional" info_is_optional PMIX_INFO_REQD;
    has "PMIx_Info_was_processed" info_was_processed PMIX_INFO_REQD_PROCESSED;
    has "PMIx_Info_is_end" info_is_end PMIX_INFO_ARRAY_END;
    has "PMIx_Info_is_qualifier" info_is_qualifier PMIX_INFO_QUALIFIER;
    has "PMIx_Info_is_persistent" info_is_persistent PMIX_INFO_PERSISTENT;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;
    use peal_model::data_type as dt;
    use std::ptr;

    #[test]
    fn flags_are_set_cleared_and_read() {
        let mut info = CInfo::zeroed();
        let at: *mut CInfo = &mut info;
        // SAFETY: the pointer is to an info, or null.
        unsafe {
            info_required(at);
            assert_eq!((info_is_required(at), info_is_optional(at)), (1, 0));
            info_optional(at);
            assert_eq!((info_is_required(at), info_is_optional(at)), (0, 1));
            info_processed(at);
            info_set_end(at);
            info_qualifier(at);
            assert_eq!((info_was_processed(at), info_is_end(at)), (1, 1));
            assert_eq!((info_is_qualifier(at), info_is_persistent(at)), (1, 0));
            info_required(ptr::null_mut());
            assert_eq!(
                (info_is_optional(ptr::null()), info_true(ptr::null())),
                (0, 2)
            );
        }
    }

    #[test]
    fn persistent_value_is_shared_and_others_are_copied() {
        let before = counter::live();
        let (mut info, mut copy) = (CInfo::zeroed(), CInfo::zeroed());
        let string = dt::PMIX_STRING.0;
        // SAFETY: the infos are valid; what both share is freed once.
        unsafe {
            assert_eq!(
                info_load(&mut info, c"k".as_ptr(), c"text".as_ptr().cast(), string),
                0
            );
            assert_eq!(info_xfer(&mut copy, &info), 0);
            assert_ne!(copy.value.data.string, info.value.data.string);
            copy.destruct();
            info_persistent(&mut info);
            assert_eq!(info_xfer(&mut copy, &info), 0);
            assert_eq!(copy.value.data.string, info.value.data.string);
            copy.destruct();
            info.flags = 0;
            info.destruct();
            let bad = code::PMIX_ERR_BAD_PARAM.0;
            assert_eq!(info_load(&mut info, ptr::null(), ptr::null(), string), bad);
            assert_eq!(
                info_load(ptr::null_mut(), c"k".as_ptr(), ptr::null(), string),
                bad
            );
            assert_eq!(info_xfer(&mut copy, ptr::null()), bad);
            assert_eq!(info_xfer(ptr::null_mut(), &info), bad);
        }
        assert_eq!(counter::live(), before);
    }
}
