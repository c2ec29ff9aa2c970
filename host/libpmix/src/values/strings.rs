//! Texts of numbers. They are those of the C library, which the Standard leaves open.
use super::interned::c_name;
use crate::{
    abi::{
        CAllocDirective, CBool, CDataRange, CDataType, CDeviceType, CGroupOperation,
        CInfoDirectives, CIofChannel, CJobState, CLinkState, CPersistence, CProcState,
        CResourceBlockDirective, CScope, CValueComparison,
    },
    border, memory,
};
use peal_model::{
    DataType,
    names::{DATA_TYPE_NAMES, number},
};
use std::{
    ffi::{CStr, c_char},
    ptr,
};

/// Defines functions that return the text of a number from a table.
macro_rules! texts {
    ($($c_name:literal $name:ident($type:ty), $unknown:literal, {
        $($number:expr => $text:literal,)+
    })+) => {$(
        #[doc = concat!("`", $c_name, "`: returns a text that is never freed.")]
        #[unsafe(export_name = $c_name)]
        pub extern "C" fn $name(number: $type) -> *const c_char {
            static TEXTS: &[(u64, &CStr)] = &[$(($number, $text)),+];
            border::value($c_name, $unknown.as_ptr(), || {
                let number = u64::from(number);
                let known = TEXTS.iter().find(|entry| entry.0 == number);
                known.map_or($unknown, |entry| entry.1).as_ptr()
            })
        }
    )+};
}

/// `pmix_alloc_inheritance_t`, since 7.0.
type CAllocInheritance = u8;

texts! {
    "PMIx_Proc_state_string" proc_state_string(CProcState), c"UNKNOWN STATE", {
        number::PMIX_PROC_STATE_UNDEF => c"UNDEFINED",
        number::PMIX_PROC_STATE_PREPPED => c"PREPPED FOR LAUNCH",
        number::PMIX_PROC_STATE_LAUNCH_UNDERWAY => c"LAUNCH UNDERWAY",
        number::PMIX_PROC_STATE_RESTART => c"PROC READY FOR RESTART",
        number::PMIX_PROC_STATE_TERMINATE => c"PROC MARKED FOR TERMINATION",
        number::PMIX_PROC_STATE_RUNNING => c"PROC EXECUTING",
        number::PMIX_PROC_STATE_CONNECTED => c"PROC HAS CONNECTED TO LOCAL PMIX SERVER",
        number::PMIX_PROC_STATE_UNTERMINATED => c"PROC HAS NOT TERMINATED",
        number::PMIX_PROC_STATE_TERMINATED => c"PROC HAS TERMINATED",
        number::PMIX_PROC_STATE_ERROR => c"PROC ERROR",
        number::PMIX_PROC_STATE_KILLED_BY_CMD => c"PROC KILLED BY CMD",
        number::PMIX_PROC_STATE_ABORTED => c"PROC ABNORMALLY ABORTED",
        number::PMIX_PROC_STATE_FAILED_TO_START => c"PROC FAILED TO START",
        number::PMIX_PROC_STATE_ABORTED_BY_SIG => c"PROC ABORTED BY SIGNAL",
        number::PMIX_PROC_STATE_TERM_WO_SYNC => c"PROC TERMINATED WITHOUT CALLING PMIx_Finalize",
        number::PMIX_PROC_STATE_COMM_FAILED => c"PROC LOST COMMUNICATION",
        number::PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED => c"PROC SENSOR BOUND EXCEEDED",
        number::PMIX_PROC_STATE_CALLED_ABORT => c"PROC CALLED PMIx_Abort",
        number::PMIX_PROC_STATE_HEARTBEAT_FAILED => c"PROC FAILED TO REPORT HEARTBEAT",
        number::PMIX_PROC_STATE_MIGRATING => c"PROC WAITING TO MIGRATE",
        number::PMIX_PROC_STATE_CANNOT_RESTART => c"PROC CANNOT BE RESTARTED",
        number::PMIX_PROC_STATE_TERM_NON_ZERO => c"PROC TERMINATED WITH NON-ZERO STATUS",
        number::PMIX_PROC_STATE_FAILED_TO_LAUNCH => c"PROC FAILED TO LAUNCH",
    }
    "PMIx_Job_state_string" job_state_string(CJobState), c"UNKNOWN", {
        number::PMIX_JOB_STATE_UNDEF => c"UNDEFINED",
        number::PMIX_JOB_STATE_PREPPED => c"PREPPED FOR LAUNCH",
        number::PMIX_JOB_STATE_LAUNCH_UNDERWAY => c"LAUNCHING",
        number::PMIX_JOB_STATE_RUNNING => c"RUNNING",
        number::PMIX_JOB_STATE_SUSPENDED => c"SUSPENDED",
        number::PMIX_JOB_STATE_CONNECTED => c"CONNECTED",
        number::PMIX_JOB_STATE_UNTERMINATED => c"UNTERMINATED",
        number::PMIX_JOB_STATE_TERMINATED => c"TERMINATED",
        number::PMIX_JOB_STATE_TERMINATED_WITH_ERROR => c"TERMINATED WITH ERROR",
    }
    "PMIx_Scope_string" scope_string(CScope), c"UNKNOWN SCOPE", {
        number::PMIX_SCOPE_UNDEF => c"UNDEFINED",
        number::PMIX_LOCAL => c"SHARE ON LOCAL NODE ONLY",
        number::PMIX_REMOTE => c"SHARE ON REMOTE NODES ONLY",
        number::PMIX_GLOBAL => c"SHARE ACROSS ALL NODES",
        number::PMIX_INTERNAL => c"STORE INTERNALLY",
        number::PMIX_DEL_LOCAL => c"DELETE FROM LOCAL NODE SCOPE",
        number::PMIX_DEL_REMOTE => c"DELETE FROM REMOTE NODE SCOPE",
        number::PMIX_DEL_GLOBAL => c"DELETE FROM ALL SCOPES",
        number::PMIX_DEL_INTERNAL => c"DELETE FROM INTERNAL STORE",
    }
    "PMIx_Persistence_string" persistence_string(CPersistence), c"UNKNOWN PERSISTENCE", {
        number::PMIX_PERSIST_INDEF => c"INDEFINITE",
        number::PMIX_PERSIST_FIRST_READ => c"DELETE ON FIRST ACCESS",
        number::PMIX_PERSIST_PROC => c"RETAIN UNTIL PUBLISHING PROCESS TERMINATES",
        number::PMIX_PERSIST_APP => c"RETAIN UNTIL APPLICATION OF PUBLISHING PROCESS TERMINATES",
        number::PMIX_PERSIST_SESSION => c"RETAIN UNTIL ALLOCATION OF PUBLISHING PROCESS TERMINATES",
        255 => c"INVALID",
    }
    "PMIx_Data_range_string" data_range_string(CDataRange), c"UNKNOWN", {
        0 => c"UNDEFINED",
        1 => c"INTENDED FOR HOST RESOURCE MANAGER ONLY",
        2 => c"AVAIL ON LOCAL NODE ONLY",
        3 => c"AVAIL TO PROCESSES IN SAME JOB ONLY",
        4 => c"AVAIL TO PROCESSES IN SAME ALLOCATION ONLY",
        5 => c"AVAIL TO ANYONE WITH AUTHORIZATION",
        6 => c"AVAIL AS SPECIFIED IN DIRECTIVES",
        7 => c"AVAIL ON LOCAL PROC ONLY",
        255 => c"INVALID",
    }
    "PMIx_Alloc_directive_string" alloc_directive_string(CAllocDirective), c"UNSPECIFIED", {
        number::PMIX_ALLOC_NEW => c"NEW",
        number::PMIX_ALLOC_EXTEND => c"EXTEND",
        number::PMIX_ALLOC_RELEASE => c"RELEASE",
        number::PMIX_ALLOC_REAQUIRE => c"REACQUIRE",
        number::PMIX_ALLOC_REQ_CANCEL => c"CANCEL REQUEST",
    }
    "PMIx_Alloc_inheritance_string" alloc_inheritance_string(CAllocInheritance), c"UNSPECIFIED", {
        number::PMIX_ALLOC_INHERIT_NONE => c"NONE",
        number::PMIX_ALLOC_INHERIT_CHILD => c"CHILD",
        number::PMIX_ALLOC_INHERIT_DEFAULT => c"DEFAULT",
        number::PMIX_ALLOC_INHERIT_CHILD_DEFAULT => c"CHILD_DEFAULT",
    }
    "PMIx_Resource_block_directive_string"
        resource_block_directive_string(CResourceBlockDirective), c"UNSPECIFIED", {
        number::PMIX_RESOURCE_BLOCK_DEFINE => c"DEFINE",
        number::PMIX_RESOURCE_BLOCK_EXTEND => c"EXTEND",
        number::PMIX_RESOURCE_BLOCK_REMOVE => c"REMOVE",
        number::PMIX_RESOURCE_BLOCK_DELETE => c"DELETE",
    }
    "PMIx_Link_state_string" link_state_string(CLinkState), c"UNKNOWN", {
        number::PMIX_LINK_DOWN => c"INACTIVE",
        number::PMIX_LINK_UP => c"ACTIVE",
    }
    "PMIx_Device_type_string" device_type_string(CDeviceType), c"UNKNOWN", {
        number::PMIX_DEVTYPE_BLOCK => c"BLOCK",
        number::PMIX_DEVTYPE_GPU => c"GPU",
        number::PMIX_DEVTYPE_NETWORK => c"NETWORK",
        number::PMIX_DEVTYPE_OPENFABRICS => c"OPENFABRICS",
        number::PMIX_DEVTYPE_DMA => c"DMA",
        number::PMIX_DEVTYPE_COPROC => c"COPROCESSOR",
        number::PMIX_DEVTYPE_MEMORY => c"MEMORY",
        number::PMIX_DEVTYPE_CORE => c"CORE",
        number::PMIX_DEVTYPE_HWT => c"HWT",
        number::PMIX_DEVTYPE_CPU => c"CPU",
        number::PMIX_DEVTYPE_NODE => c"NODE",
    }
    "PMIx_Value_comparison_string" value_comparison_string(CValueComparison), c"UNKNOWN VALUE", {
        0 => c"EQUAL",
        1 => c"VALUE1 GREATER",
        2 => c"VALUE2 GREATER",
        3 => c"DIFFERENT TYPES",
        4 => c"INCOMPATIBLE OBJECTS",
        5 => c"COMPARISON NOT AVAILABLE",
    }
    "PMIx_Group_operation_string" group_operation_string(CGroupOperation), c"UNKNOWN VALUE", {
        0 => c"CONSTRUCT",
        1 => c"DESTRUCT",
        2 => c"NONE",
        3 => c"CANCEL",
    }
}

/// `PMIx_Data_type_string`: returns the name of a data type, which is never freed.
#[unsafe(export_name = "PMIx_Data_type_string")]
pub extern "C" fn data_type_string(data_type: CDataType) -> *const c_char {
    border::value("PMIx_Data_type_string", c"UNKNOWN".as_ptr(), || {
        data_type_name(DataType(data_type)).map_or(c"UNKNOWN".as_ptr(), c_name)
    })
}

/// Returns the name of a data type.
pub(super) fn data_type_name(data_type: DataType) -> Option<&'static str> {
    /// Types that the registry lacks, and those that have no name in the C library.
    const OTHERS: [(u64, Option<&str>); 10] = [
        (0, None),
        // Two that were retired before 4.2.
        (29, Some("PMIX_MODEX")),
        (44, Some("PMIX_INFO_ARRAY")),
        (number::PMIX_BUFFER, Some("PMIX_BUFFER")),
        (
            number::PMIX_COMPRESSED_STRING,
            Some("PMIX_COMPRESSED_STRING"),
        ),
        (number::PMIX_REGEX, Some("PMIX_REGEX")),
        (number::PMIX_PROC_STATS, Some("PMIX_PROC_STATS")),
        (number::PMIX_DISK_STATS, Some("PMIX_DISK_STATS")),
        (number::PMIX_NET_STATS, Some("PMIX_NET_STATS")),
        (number::PMIX_NODE_STATS, Some("PMIX_NODE_STATS")),
    ];
    let other = OTHERS
        .iter()
        .find(|entry| entry.0 == u64::from(data_type.0));
    other.map_or_else(
        || {
            let known = DATA_TYPE_NAMES.iter().find(|entry| entry.0 == data_type.0);
            known.map(|entry| entry.1).filter(|_| data_type.0 < 500)
        },
        |entry| entry.1,
    )
}

/// `PMIx_IOF_channel_string`: returns a text that is never freed. Every name is followed by a space,
/// as in the C library.
#[unsafe(export_name = "PMIx_IOF_channel_string")]
pub extern "C" fn iof_channel_string(channels: CIofChannel) -> *const c_char {
    static TEXTS: [&CStr; 16] = [
        c"NONE",
        c"STDIN ",
        c"STDOUT ",
        c"STDIN STDOUT ",
        c"STDERR ",
        c"STDIN STDERR ",
        c"STDOUT STDERR ",
        c"STDIN STDOUT STDERR ",
        c"STDDIAG ",
        c"STDIN STDDIAG ",
        c"STDOUT STDDIAG ",
        c"STDIN STDOUT STDDIAG ",
        c"STDERR STDDIAG ",
        c"STDIN STDERR STDDIAG ",
        c"STDOUT STDERR STDDIAG ",
        c"STDIN STDOUT STDERR STDDIAG ",
    ];
    border::value("PMIx_IOF_channel_string", c"NONE".as_ptr(), || {
        let text = TEXTS.get(usize::from(channels & 15));
        text.map_or(c"NONE".as_ptr(), |text| text.as_ptr())
    })
}

/// Returns the text of the flags of an info.
pub(super) fn directives_text(flags: CInfoDirectives) -> String {
    let has = |flag: u64| u64::from(flags) & flag != 0;
    if has(number::PMIX_INFO_QUALIFIER) {
        return "QUALIFIER".to_owned();
    }
    let mut words = vec![if has(number::PMIX_INFO_REQD) {
        "REQUIRED"
    } else {
        "OPTIONAL"
    }];
    if has(number::PMIX_INFO_REQD_PROCESSED) {
        words.push("PROCESSED");
    }
    if has(number::PMIX_INFO_ARRAY_END) {
        words.push("END");
    }
    words.join(":")
}

/// `PMIx_Info_directives_string`: returns a text that the caller frees; null if the heap has no
/// memory left.
#[unsafe(export_name = "PMIx_Info_directives_string")]
pub extern "C" fn info_directives_string(flags: CInfoDirectives) -> *mut c_char {
    border::value("PMIx_Info_directives_string", ptr::null_mut(), || {
        memory::copy_string(directives_text(flags).as_bytes()).unwrap_or(ptr::null_mut())
    })
}

/// Returns a `bool` for C.
pub(super) fn c_bool(truth: bool) -> CBool {
    u8::from(truth)
}
