//! Texts of structures.
use super::{
    line::{c_text, fixed, line, long, text_or_null, value_line},
    value,
};
use crate::{
    abi::{
        CApp, CCoord, CEnvar, CGeometry, CInfo, CPdata, CProc, CProcInfo, CQuery, CRegattr,
        KEY_SIZE, NSPACE_SIZE,
    },
    values::{
        attributes::name_of,
        keys::bounded,
        strings::{device_type_string, directives_text, proc_state_string},
    },
};
use peal_model::{Rank, Status, names::number, rank};
use std::ffi::c_char;

/// Returns the name of an attribute, or its key string.
fn attribute(key: &[c_char; KEY_SIZE]) -> &[u8] {
    // SAFETY: the key is an array of that size.
    let key = unsafe { bounded(key.as_ptr(), KEY_SIZE - 1) };
    name_of(key).map_or(key, str::as_bytes)
}

/// Returns the text of an info.
///
/// # Safety
///
/// The info is valid.
pub(in crate::values) unsafe fn info(
    info: &CInfo,
    prefix: &[u8],
    depth: usize,
) -> Result<Vec<u8>, Status> {
    // SAFETY: the caller guarantees a valid value.
    let value = unsafe { value(&info.value, prefix, depth) }?;
    let flags = value_line(prefix, "PMIX_INFO_DIRECTIVES", directives_text(info.flags));
    let key = attribute(&info.key);
    Ok([
        prefix, b"KEY: ", key, b"\n", prefix, b"\t", &flags, b"\n", prefix, b"\t", &value,
    ]
    .concat())
}

/// Returns the text of published data.
///
/// # Safety
///
/// The data are valid.
pub(super) unsafe fn pdata(data: &CPdata, prefix: &[u8], depth: usize) -> Result<Vec<u8>, Status> {
    // SAFETY: the caller guarantees a valid value.
    let value = unsafe { value(&data.value, prefix, depth) }?;
    let proc = proc(&data.proc, prefix);
    Ok([
        prefix,
        b"  ",
        &proc,
        b"  KEY: ",
        attribute(&data.key),
        b" ",
        &value,
    ]
    .concat())
}

/// Returns the text of a rank.
pub(super) fn rank_text(number: Rank) -> String {
    match number {
        rank::PMIX_RANK_UNDEF => "PMIX_RANK_UNDEF".to_owned(),
        rank::PMIX_RANK_WILDCARD => "PMIX_RANK_WILDCARD".to_owned(),
        rank::PMIX_RANK_LOCAL_NODE => "PMIX_RANK_LOCAL_NODE".to_owned(),
        Rank(number) => number.to_string(),
    }
}

/// Returns the text of a proc.
pub(super) fn proc(proc: &CProc, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the pointer is to a namespace.
    let nspace = unsafe { bounded(proc.nspace.as_ptr(), NSPACE_SIZE - 1) };
    let rank = rank_text(Rank(proc.rank));
    [prefix, b"PROC: ", nspace, b":", rank.as_bytes()].concat()
}

/// Returns the text of a proc's state.
///
/// # Safety
///
/// The structure is valid.
pub(super) unsafe fn proc_info(info: &CProcInfo, prefix: &[u8]) -> Vec<u8> {
    let inner = [prefix, b"\t"].concat();
    let proc = proc(&info.proc, &inner);
    // SAFETY: the caller guarantees strings or null.
    let (host, executable) = unsafe { (c_text(info.hostname), c_text(info.executable_name)) };
    let numbers = format!(
        "Pid: {}\tExit code: {}\tState: ",
        long(info.pid),
        info.exit_code
    );
    let state = fixed(proc_state_string(info.state));
    [
        prefix,
        b"Data type: PMIX_PROC_INFO\tValue:\n",
        &proc,
        b"\n",
        &inner,
        b"Hostname: ",
        host,
        b"\tExecutable: ",
        executable,
        b"\n",
        &inner,
        numbers.as_bytes(),
        state,
    ]
    .concat()
}

/// Returns the text of a query.
///
/// # Safety
///
/// The query is valid.
pub(super) unsafe fn query(query: &CQuery, prefix: &[u8], depth: usize) -> Result<Vec<u8>, Status> {
    let inner = [prefix, b"\t"].concat();
    let mut text = line(prefix, "PMIX_QUERY", b"Value:");
    let mut at = query.keys;
    // SAFETY: the caller guarantees a list that ends with a null pointer, and `nqual` infos.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            text.extend([b"\n", &inner[..], b"Key: ", c_text(*at)].concat());
            at = at.add(1);
        }
        for at in 0..if query.qualifiers.is_null() {
            0
        } else {
            query.nqual
        } {
            text.push(b'\n');
            text.extend(info(
                &*query.qualifiers.add(at),
                &inner,
                depth.saturating_add(1),
            )?);
        }
    }
    Ok(text)
}

/// Returns the text of an application: a line for each argument, variable and info.
///
/// # Safety
///
/// The application is valid.
pub(in crate::values) unsafe fn app(app: &CApp, depth: usize) -> Result<Vec<u8>, Status> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    // SAFETY: the caller guarantees strings, lists that end with null pointers, and `ninfo` infos.
    unsafe {
        lines.push([b"CMD: ", text_or_null(app.cmd)].concat());
        for (name, list) in [("ARGV", app.argv), ("ENV", app.env)] {
            lines.push(format!("    {name}:").into_bytes());
            if list.is_null() {
                lines.push(b"        NONE".to_vec());
                continue;
            }
            let mut at = 0;
            while !(*list.add(at)).is_null() {
                let head = format!("        {name}[{at}]: ");
                lines.push([head.as_bytes(), c_text(*list.add(at))].concat());
                at += 1;
            }
        }
        lines.push([b"    CWD: ", text_or_null(app.cwd)].concat());
        lines.push(format!("    MAXPROCS: {}", app.maxprocs).into_bytes());
        if app.info.is_null() {
            lines.push(b"    INFO: NONE".to_vec());
        } else {
            lines.push(b"    INFO:".to_vec());
            for at in 0..app.ninfo {
                let text = info(&*app.info.add(at), b" ", depth.saturating_add(1))?;
                lines.push([format!("        INFO[{at}]: ").as_bytes(), &text].concat());
            }
        }
    }
    Ok(lines.join(&b'\n'))
}

/// Returns the text of an environment variable.
///
/// # Safety
///
/// The structure is valid.
pub(super) unsafe fn envar(envar: &CEnvar, prefix: &[u8]) -> Vec<u8> {
    let separator = match envar.separator.cast_unsigned() {
        0 => b' ',
        separator => separator,
    };
    // SAFETY: the caller guarantees strings or null.
    let (name, value) = unsafe { (text_or_null(envar.envar), text_or_null(envar.value)) };
    let rest = [
        b"Name: ",
        name,
        b"\tValue: ",
        value,
        b"\tSeparator: ",
        &[separator],
    ]
    .concat();
    line(prefix, "PMIX_ENVAR", &rest)
}

/// Returns the text of coordinates.
pub(super) fn coord(coord: &CCoord, prefix: &[u8]) -> Vec<u8> {
    let view = match u64::from(coord.view) {
        number::PMIX_COORD_VIEW_UNDEF => "UNDEF",
        number::PMIX_COORD_LOGICAL_VIEW => "LOGICAL",
        number::PMIX_COORD_PHYSICAL_VIEW => "PHYSICAL",
        _ => "UNRECOGNIZED",
    };
    line(
        prefix,
        "PMIX_COORD",
        format!("View: {view}\tDims: {}", coord.dims).as_bytes(),
    )
}

/// Returns the text of an attribute's description.
///
/// # Safety
///
/// The description is valid.
pub(super) unsafe fn regattr(attribute: &CRegattr, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees a string or null; the key is an array of that size.
    let (name, key) = unsafe {
        (
            text_or_null(attribute.name),
            bounded(attribute.string.as_ptr(), KEY_SIZE - 1),
        )
    };
    let key = if key.is_empty() { b"NULL" } else { key };
    line(
        prefix,
        "PMIX_REGATTR",
        &[b"Name: ", name, b"\tString: ", key].concat(),
    )
}

/// Returns the text of a device.
///
/// # Safety
///
/// Each string is null or valid.
pub(super) unsafe fn device(
    uuid: *const c_char,
    osname: *const c_char,
    device_type: u64,
) -> Vec<u8> {
    // SAFETY: the caller guarantees strings or null.
    let (uuid, osname) = unsafe { (text_or_null(uuid), text_or_null(osname)) };
    let kind = fixed(device_type_string(device_type));
    [b"UUID: ", uuid, b" OSName: ", osname, b" Type: ", kind].concat()
}

/// Returns the text of a device's position.
///
/// # Safety
///
/// The structure is valid.
pub(super) unsafe fn geometry(geometry: &CGeometry, prefix: &[u8]) -> Vec<u8> {
    // SAFETY: the caller guarantees strings, or null.
    let (uuid, osname) = unsafe { (text_or_null(geometry.uuid), text_or_null(geometry.osname)) };
    let fabric = format!("Fabric: {}", geometry.fabric);
    let head = [fabric.as_bytes(), b" UUID: ", uuid, b" OSName: ", osname].concat();
    let mut lines = vec![value_line(prefix, "PMIX_GEOMETRY", head)];
    for at in 0..if geometry.coordinates.is_null() {
        0
    } else {
        geometry.ncoords
    } {
        // SAFETY: the caller guarantees `ncoords` coordinates.
        lines.push(coord(unsafe { &*geometry.coordinates.add(at) }, prefix));
    }
    lines.join(&b'\n')
}
