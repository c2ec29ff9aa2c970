//! Texts of elements of all data types, as the C library prints them.

mod bits;
mod line;
mod structures;

pub(super) use line::c_text;
pub(super) use structures::{app, info};

use super::{
    keys::bounded,
    stats_texts,
    strings::{
        alloc_directive_string, data_range_string, data_type_name, device_type_string,
        directives_text, iof_channel_string, job_state_string, link_state_string,
        proc_state_string, scope_string,
    },
};
use crate::{
    abi::{
        CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance,
        CEndpoint, CEnvar, CGeometry, CInfo, CNodePid, CNspace, CPdata, CProc, CProcInfo, CQuery,
        CRegattr, CResourceUnit, CTimeval, CTopology, CValue, NSPACE_SIZE,
    },
    convert::{
        CpusetList, FromC, ReadBounds,
        element::{self, REGEX, Storage},
    },
    values::status::error_string,
};
use bits::{ACCESS_TYPES, ACCESSIBILITY, PERSISTENCE, bits, locality, medium};
use line::{calendar, decimal, fixed, line, long, text_or_null, value_line};
use peal_model::{DataType, Rank, Status, Topology, code, data_type as dt};
use std::ffi::{c_char, c_void};
use structures::{
    coord, device, envar, geometry, pdata, proc, proc_info, query, rank_text, regattr,
};

/// Deepest nesting that is printed, as values of messages may have it.
const MAX_DEPTH: usize = 16;

/// Returns the text of an element.
///
/// # Errors
///
/// Fails with `PMIX_ERR_UNKNOWN_DATA_TYPE` for a type without name, and with `PMIX_ERR_BAD_PARAM` if
/// values are nested too deeply.
///
/// # Safety
///
/// `at` is null, or points to a valid element of the data type as it lies in an array.
pub(super) unsafe fn element(
    data_type: DataType,
    at: *const c_void,
    prefix: &[u8],
    depth: usize,
) -> Result<Vec<u8>, Status> {
    let name = data_type_name(data_type).ok_or(code::PMIX_ERR_UNKNOWN_DATA_TYPE)?;
    if at.is_null() {
        return Ok(value_line(prefix, name, "NULL pointer"));
    }
    if depth > MAX_DEPTH {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    macro_rules! read {
        ($type:ty) => {
            &*at.cast::<$type>()
        };
    }
    macro_rules! number {
        ($type:ty) => {
            value_line(prefix, name, read!($type).to_string())
        };
    }
    // SAFETY: the caller guarantees an element of the data type, which is read as its C type, and
    // that what it points to is valid.
    Ok(unsafe {
        match data_type {
            dt::PMIX_BOOL => {
                value_line(prefix, name, if *read!(u8) == 0 { "FALSE" } else { "TRUE" })
            }
            dt::PMIX_BYTE => value_line(prefix, name, format!("{:x}", read!(u8))),
            dt::PMIX_STRING => {
                let text = *read!(*const c_char);
                if text.is_null() {
                    value_line(prefix, name, "NULL pointer")
                } else {
                    value_line(prefix, name, c_text(text))
                }
            }
            dt::PMIX_SIZE | dt::PMIX_UINT64 => number!(u64),
            // The C library prints a process id as an unsigned long.
            dt::PMIX_PID => value_line(prefix, name, long(*read!(i32)).to_string()),
            dt::PMIX_INT | dt::PMIX_INT32 => number!(i32),
            dt::PMIX_INT8 => number!(i8),
            dt::PMIX_INT16 => number!(i16),
            dt::PMIX_INT64 => number!(i64),
            dt::PMIX_UINT | dt::PMIX_UINT32 => number!(u32),
            dt::PMIX_UINT8
            | dt::PMIX_PERSIST
            | dt::PMIX_COMMAND
            | dt::PMIX_RESBLOCK_DIRECTIVE
            | dt::PMIX_ALLOC_INHERIT => number!(u8),
            dt::PMIX_UINT16 => number!(u16),
            dt::PMIX_FLOAT => value_line(prefix, name, decimal((*read!(f32)).into())),
            dt::PMIX_DOUBLE => value_line(prefix, name, decimal(*read!(f64))),
            dt::PMIX_TIMEVAL => {
                let time = read!(CTimeval);
                let text = format!("{}.{:06}", time.tv_sec, time.tv_usec);
                value_line(prefix, name, text)
            }
            dt::PMIX_TIME => value_line(prefix, name, calendar(*read!(i64))),
            dt::PMIX_STATUS => value_line(prefix, name, fixed(error_string(*read!(i32)))),
            dt::PMIX_VALUE => value(read!(CValue), prefix, depth)?,
            dt::PMIX_INFO => info(read!(CInfo), prefix, depth)?,
            dt::PMIX_PDATA => pdata(read!(CPdata), prefix, depth)?,
            dt::PMIX_APP => app(read!(CApp), depth)?,
            dt::PMIX_QUERY => query(read!(CQuery), prefix, depth)?,
            dt::PMIX_PROC => proc(read!(CProc), prefix),
            dt::PMIX_PROC_NSPACE => {
                let nspace = bounded(read!(CNspace).as_ptr(), NSPACE_SIZE - 1);
                value_line(prefix, name, nspace)
            }
            dt::PMIX_PROC_RANK => value_line(prefix, name, rank_text(Rank(*read!(u32)))),
            dt::PMIX_BYTE_OBJECT | DataType::COMPRESSED_STRING => {
                let size = format!("Size: {}", read!(CByteObject).size);
                line(prefix, "PMIX_BYTE_OBJECT", size.as_bytes())
            }
            dt::PMIX_COMPRESSED_BYTE_OBJECT => {
                let size = format!("Size: {}", read!(CByteObject).size);
                line(prefix, name, size.as_bytes())
            }
            dt::PMIX_POINTER => {
                let address = read!(*const c_void).addr();
                let text = if address == 0 {
                    "(nil)".to_owned()
                } else {
                    format!("{address:#x}")
                };
                line(prefix, name, format!("Address: {text}").as_bytes())
            }
            dt::PMIX_SCOPE => value_line(prefix, name, fixed(scope_string(*read!(u8)))),
            dt::PMIX_DATA_RANGE => value_line(prefix, name, fixed(data_range_string(*read!(u8)))),
            dt::PMIX_INFO_DIRECTIVES => value_line(prefix, name, directives_text(*read!(u32))),
            dt::PMIX_DATA_TYPE => {
                let known = data_type_name(DataType(*read!(u16)));
                value_line(prefix, name, known.unwrap_or("UNKNOWN"))
            }
            dt::PMIX_PROC_STATE => value_line(prefix, name, fixed(proc_state_string(*read!(u8)))),
            dt::PMIX_JOB_STATE => value_line(prefix, name, fixed(job_state_string(*read!(u8)))),
            dt::PMIX_LINK_STATE => value_line(prefix, name, fixed(link_state_string(*read!(u8)))),
            dt::PMIX_ALLOC_DIRECTIVE => {
                value_line(prefix, name, fixed(alloc_directive_string(*read!(u8))))
            }
            dt::PMIX_IOF_CHANNEL => {
                value_line(prefix, name, fixed(iof_channel_string(*read!(u16))))
            }
            dt::PMIX_PROC_INFO => proc_info(read!(CProcInfo), prefix),
            dt::PMIX_DATA_ARRAY => data_array(read!(CDataArray), prefix, depth)?,
            dt::PMIX_ENVAR => envar(read!(CEnvar), prefix),
            dt::PMIX_COORD => coord(read!(CCoord), prefix),
            dt::PMIX_REGATTR => regattr(read!(CRegattr), prefix),
            REGEX => {
                let text = c_text(*read!(*const c_char));
                line(prefix, name, &[b"Name: ", text].concat())
            }
            dt::PMIX_PROC_CPUSET => {
                let list = CpusetList::from_c(read!(CCpuset), &mut ReadBounds::default())?.0;
                let list = list.ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
                value_line(prefix, "PMIX_CPUSET", list.as_bytes())
            }
            dt::PMIX_TOPO => {
                let read = Topology::from_c(read!(CTopology), &mut ReadBounds::default())?;
                let (xml, _) = read.xml.ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
                value_line(prefix, name, xml.as_bytes())
            }
            dt::PMIX_GEOMETRY => geometry(read!(CGeometry), prefix),
            dt::PMIX_DEVICE_DIST => {
                let distance = read!(CDeviceDistance);
                let device = device(distance.uuid, distance.osname, distance.r#type);
                let range = format!(" Min: {} Max: {}", distance.mindist, distance.maxdist);
                value_line(prefix, name, [device, range.into_bytes()].concat())
            }
            dt::PMIX_DEVICE => {
                let read = read!(CDevice);
                value_line(prefix, name, device(read.uuid, read.osname, read.r#type))
            }
            dt::PMIX_RESOURCE_UNIT => {
                let unit = read!(CResourceUnit);
                let kind = String::from_utf8_lossy(fixed(device_type_string(unit.r#type)));
                value_line(prefix, name, format!("Type: {kind} Count: {}", unit.count))
            }
            dt::PMIX_NODE_PID => {
                let node = read!(CNodePid);
                let numbers = format!(" NodeID: {} Pid: {}", node.nodeid, node.pid);
                let host = text_or_null(node.hostname);
                value_line(prefix, name, [b"Host: ", host, numbers.as_bytes()].concat())
            }
            dt::PMIX_ENDPOINT => {
                let read = read!(CEndpoint);
                let (uuid, osname) = (text_or_null(read.uuid), text_or_null(read.osname));
                let size = format!(") #bytes: {}", read.endpt.size);
                value_line(prefix, name, [uuid, b"(", osname, size.as_bytes()].concat())
            }
            dt::PMIX_DEVTYPE => {
                value_line(prefix, "PMIX_DEVICE_TYPE", format!("{:#x}", read!(u64)))
            }
            dt::PMIX_LOCTYPE => value_line(prefix, "PMIX_LOCALITY", locality(*read!(u16))),
            dt::PMIX_STOR_MEDIUM => value_line(prefix, name, medium(*read!(u64))),
            dt::PMIX_STOR_ACCESS => value_line(prefix, name, bits(*read!(u64), ACCESSIBILITY)),
            dt::PMIX_STOR_PERSIST => value_line(prefix, name, bits(*read!(u64), PERSISTENCE)),
            dt::PMIX_STOR_ACCESS_TYPE => {
                value_line(prefix, name, bits((*read!(u16)).into(), ACCESS_TYPES))
            }
            dt::PMIX_DATA_BUFFER => {
                let used = format!(
                    "PMIX_DATA_BUFFER NumBytesUsed: {}",
                    read!(CDataBuffer).bytes_used
                );
                [prefix, used.as_bytes()].concat()
            }
            _ => match stats_texts::element(data_type, at, prefix) {
                Some(text) => text,
                None => unprintable(data_type, name),
            },
        }
    })
}

/// Returns the text for a type that the C library does not print.
fn unprintable(data_type: DataType, name: &str) -> Vec<u8> {
    format!(" Data type: {name}({})\tValue: UNPRINTABLE", data_type.0).into_bytes()
}

/// Returns true if the C library prints elements of a type within values and arrays.
fn is_printed_inside(data_type: DataType) -> bool {
    ![
        dt::PMIX_POINTER,
        dt::PMIX_COMMAND,
        dt::PMIX_INFO_DIRECTIVES,
        dt::PMIX_DATA_TYPE,
        dt::PMIX_IOF_CHANNEL,
        dt::PMIX_DATA_BUFFER,
        dt::PMIX_COMPRESSED_BYTE_OBJECT,
        DataType::COMPRESSED_STRING,
        DataType::DISK_STATS,
        DataType::NET_STATS,
        DataType::NODE_STATS,
        element::PROC_STATS,
        REGEX,
    ]
    .contains(&data_type)
}

/// Returns the text of a value.
///
/// # Safety
///
/// The value is valid.
pub(super) unsafe fn value(value: &CValue, prefix: &[u8], depth: usize) -> Result<Vec<u8>, Status> {
    let data_type = DataType(value.r#type);
    let text = match element::layout(data_type).map(|layout| layout.storage) {
        _ if data_type == dt::PMIX_UNDEF => b" Data type: PMIX_UNDEF".to_vec(),
        Some(storage) if is_printed_inside(data_type) && storage != Storage::ArrayOnly => {
            let at: *const c_void = if storage == Storage::Inline {
                (&raw const value.data).cast()
            } else {
                // SAFETY: the type says that the union is a pointer.
                unsafe { value.data.ptr }
            };
            // SAFETY: the value is valid.
            unsafe { element(data_type, at, b" ", depth.saturating_add(1)) }?
        }
        _ => unprintable(data_type, data_type_name(data_type).unwrap_or("UNKNOWN")),
    };
    Ok([prefix, b"PMIX_VALUE: ", &text].concat())
}

/// Returns the text of an array: a line of its own and one for each element.
///
/// # Safety
///
/// The array is valid.
unsafe fn data_array(array: &CDataArray, prefix: &[u8], depth: usize) -> Result<Vec<u8>, Status> {
    let data_type = DataType(array.r#type);
    let name = data_type_name(data_type).unwrap_or("UNKNOWN");
    let size = element::layout(data_type).map_or(0, |layout| layout.size);
    let mut lines = Vec::new();
    for at in 0..if array.array.is_null() { 0 } else { array.size } {
        // Those that nest are printed in any case, which the C library does not do.
        lines.push(if size == 0 || !is_printed_inside(data_type) {
            unprintable(data_type, name)
        } else {
            // SAFETY: the array has `size` elements of the type.
            unsafe {
                let at = array.array.byte_add(at * size);
                element(data_type, at, prefix, depth.saturating_add(1))
            }?
        });
    }
    let between = [b"\n", prefix].concat();
    let elements = if lines.is_empty() {
        b"NULL".to_vec()
    } else {
        lines.join(&between[..])
    };
    let head = format!("Type: {name}\tSize: {}\n", array.size);
    let head = line(prefix, "PMIX_DATA_ARRAY", head.as_bytes());
    Ok([&head, prefix, &elements].concat())
}
