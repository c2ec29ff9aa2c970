//! Regular expressions of hosts and ranks (`PMIx_generate_regex`, `PMIx_generate_ppn`), in the C
//! library's form: `pmix[node[2:1-4],other]`, `pmix[0-3;4-7]`, `raw:a,b`. Its compressed form is read
//! but never made: 4.2 never makes it either.
use super::{compress, numbered_names};
use crate::{
    abi::{CInfo, CRegex2, CStatus},
    border,
    destruct::Destruct,
    memory,
};
use peal_model::{Status, code};
use std::{
    ffi::{CStr, c_char},
    slice,
};

/// Beginning of an expression that is only a list.
const RAW: &[u8] = b"raw:";
/// Beginning of a compressed expression, of which each part ends with a NUL.
const BLOB: &[u8] = b"blob:\0component=zlib:\0size=";

/// Returns the bytes of an expression with its end; `None` for null and for a compressed one whose
/// length is no number.
///
/// # Safety
///
/// `text` is null, or a string that ends with a NUL, or a compressed expression of the C library,
/// which has NULs before its end. Nothing changes it while it is borrowed.
pub(super) unsafe fn regex_bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees a string at least.
    let string = unsafe { CStr::from_ptr(text) }.to_bytes_with_nul();
    let bytes: *const u8 = text.cast();
    // SAFETY: a byte is read only if all before it are those of a compressed expression, which is
    // longer.
    let is_blob = (0..BLOB.len()).all(|at| unsafe { BLOB.get(at) == Some(&*bytes.add(at)) });
    if !is_blob {
        return Some(string);
    }
    // SAFETY: a compressed expression goes on with a string.
    let size = unsafe { CStr::from_ptr(text.add(BLOB.len())) }.to_bytes_with_nul();
    let len = blob_length(size)?;
    // SAFETY: the expression says its length.
    Some(unsafe { slice::from_raw_parts(bytes, len) })
}

/// Returns the length of a compressed expression, by its part `LENGTH:` with the NUL.
fn blob_length(size: &[u8]) -> Option<usize> {
    let digits = str::from_utf8(size.strip_suffix(b":\0")?).ok()?;
    let len: usize = digits.parse().ok()?;
    BLOB.len().checked_add(size.len())?.checked_add(len)
}

/// Returns the expression at the beginning of bytes, with its end; `None` if they end before.
pub(super) fn expression(bytes: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = bytes.strip_prefix(BLOB) {
        let end = rest.iter().position(|byte| *byte == 0)?;
        return bytes.get(..blob_length(rest.get(..=end)?)?);
    }
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.get(..=end)
}

/// Returns true if packed bytes begin with an expression that has no length before it. Other lists
/// are packed as strings.
pub(super) fn is_tagged(bytes: &[u8]) -> bool {
    [&b"pmix"[..], RAW, b"blob"]
        .iter()
        .any(|tag| bytes.starts_with(tag))
}

/// Returns the expression of a list of nodes.
fn of_nodes(input: &[u8]) -> Vec<u8> {
    numbered_names::expression(input).unwrap_or_else(|| raw(input))
}

/// Returns a list as an expression.
fn raw(input: &[u8]) -> Vec<u8> {
    if input.starts_with(RAW) {
        input.to_vec()
    } else {
        [RAW, input].concat()
    }
}

/// Returns the expression of the ranks of nodes, such as `0,1;2,3`: the shorter of the two forms.
fn of_ranks(input: &[u8]) -> Vec<u8> {
    let ranges = ranks(input).map(|nodes| {
        let nodes: Vec<String> = nodes
            .into_iter()
            .map(|ranges| numbered_names::ranges_text(&ranges))
            .collect();
        format!("pmix[{}]", nodes.join(";")).into_bytes()
    });
    ranges
        .filter(|text| text.len() <= input.len())
        .unwrap_or_else(|| raw(input))
}

/// Returns the ranges of ranks of each node; `None` if the list is empty or has anything else.
fn ranks(input: &[u8]) -> Option<Vec<Vec<(u32, u32)>>> {
    let text = str::from_utf8(input).ok()?;
    let nodes = text.split(';').filter(|node| !node.is_empty());
    let nodes: Option<Vec<Vec<(u32, u32)>>> = nodes
        .map(|node| {
            let mut ranges = Vec::new();
            for part in node.split(',').filter(|part| !part.is_empty()) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                if last < first {
                    return None;
                }
                numbered_names::extend(&mut ranges, first, last);
            }
            (!ranges.is_empty()).then_some(ranges)
        })
        .collect();
    nodes.filter(|nodes| !nodes.is_empty())
}

/// Writes an expression of a string of the caller to a variable of the caller.
///
/// # Safety
///
/// `input` is null or a string; `output` is null or points to a variable.
unsafe fn generate(
    function: &'static str,
    input: *const c_char,
    output: *mut *mut c_char,
    expression: fn(&[u8]) -> Vec<u8>,
) -> CStatus {
    border::status(function, || {
        // SAFETY: the caller guarantees a variable or null.
        let output = unsafe { output.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        *output = std::ptr::null_mut();
        if input.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees a string.
        let input = unsafe { CStr::from_ptr(input) }.to_bytes();
        *output = memory::copy_string(&expression(input))?;
        Ok(())
    })
}

/// `PMIx_generate_regex`: writes an expression for names of nodes that are separated by commas, which
/// the caller frees.
///
/// # Safety
///
/// `input` is null or a string; `output` is null or points to a variable.
#[unsafe(export_name = "PMIx_generate_regex")]
pub unsafe extern "C" fn generate_regex(input: *const c_char, output: *mut *mut c_char) -> CStatus {
    // SAFETY: the caller guarantees what `generate` demands.
    unsafe { generate("PMIx_generate_regex", input, output, of_nodes) }
}

/// `PMIx_generate_ppn`: writes an expression for the ranks of nodes, which are separated by
/// semicolons; the caller frees it.
///
/// # Safety
///
/// `input` is null or a string; `output` is null or points to a variable.
#[unsafe(export_name = "PMIx_generate_ppn")]
pub unsafe extern "C" fn generate_ppn(input: *const c_char, output: *mut *mut c_char) -> CStatus {
    // SAFETY: the caller guarantees what `generate` demands.
    unsafe { generate("PMIx_generate_ppn", input, output, of_ranks) }
}

/// `PMIx_generate_regex2`: writes the shorter of the compressed and the plain form of a list. No
/// directives are defined.
///
/// # Safety
///
/// `input` is null or a string; `regex` is null or points to memory for an expression, whose old
/// contents are not freed.
#[unsafe(export_name = "PMIx_generate_regex2")]
pub unsafe extern "C" fn generate_regex2(
    input: *const c_char,
    _info: *const CInfo,
    _ninfo: usize,
    regex: *mut CRegex2,
) -> CStatus {
    border::status("PMIx_generate_regex2", || {
        if input.is_null() || regex.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees a string, and memory for an expression.
        unsafe {
            regex.write(CRegex2::zeroed());
            let plain = CStr::from_ptr(input).to_bytes_with_nul();
            let packed = compress::compress(CStr::from_ptr(input).to_bytes());
            let packed = packed.filter(|packed| packed.len() < plain.len());
            let (kind, bytes): (&[u8], &[u8]) = match &packed {
                Some(packed) => (b"compress", packed),
                None => (b"raw", plain),
            };
            let mut made = CRegex2::zeroed();
            made.r#type = memory::copy_string(kind)?;
            let copy = memory::copy_bytes(bytes).inspect_err(|_| made.destruct())?;
            (made.bytes, made.len) = (copy.cast(), bytes.len());
            regex.write(made);
        }
        Ok(())
    })
}

/// Returns the list of an expression of 7.0.
fn list_of(kind: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Status> {
    match kind {
        b"raw" => {
            let text = CStr::from_bytes_until_nul(bytes).map_err(|_| code::PMIX_ERR_BAD_PARAM)?;
            Ok(text.to_bytes().to_vec())
        }
        b"compress" if bytes.is_empty() => Err(code::PMIX_ERR_BAD_PARAM),
        b"compress" => compress::decompress(bytes).ok_or(code::PMIX_ERR_BAD_PARAM),
        _ => Err(code::PMIX_ERR_NOT_SUPPORTED),
    }
}

/// `PMIx_parse_regex2`: writes the list of an expression, which the caller frees.
///
/// # Safety
///
/// `regex` is null or points to an expression; `output` is null or points to a variable.
#[unsafe(export_name = "PMIx_parse_regex2")]
pub unsafe extern "C" fn parse_regex2(
    regex: *const CRegex2,
    _info: *const CInfo,
    _ninfo: usize,
    output: *mut *mut c_char,
) -> CStatus {
    border::status("PMIx_parse_regex2", || {
        // SAFETY: the caller guarantees an expression and a variable, or null.
        let (regex, output) = unsafe { (regex.as_ref(), output.as_mut()) };
        let (Some(regex), Some(output)) = (regex, output) else {
            return Err(code::PMIX_ERR_BAD_PARAM);
        };
        *output = std::ptr::null_mut();
        if regex.r#type.is_null() || (regex.bytes.is_null() && regex.len > 0) {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees a string, and `len` bytes.
        let list = unsafe {
            let bytes = if regex.bytes.is_null() {
                &[]
            } else {
                slice::from_raw_parts(regex.bytes, regex.len)
            };
            list_of(CStr::from_ptr(regex.r#type).to_bytes(), bytes)
        }?;
        *output = memory::copy_string(&list)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn ranks_are_ranges_unless_the_list_is_shorter() {
        for (input, expected) in [
            ("0,1,2,3,4,5;6,7,8,9,10", "pmix[0-5;6-10]"),
            ("0,1,2;3-5", "raw:0,1,2;3-5"),
            ("0-1,2-3,4,5,6,7,9", "pmix[0-7,9]"),
            ("", "raw:"),
            ("raw:x", "raw:x"),
            ("a,b", "raw:a,b"),
        ] {
            let text = String::from_utf8(of_ranks(input.as_bytes())).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn compressed_expression_is_read_to_its_end() {
        let blob = b"blob:\0component=zlib:\0size=3:\0a\0b";
        // SAFETY: the bytes are an expression.
        let read = unsafe { regex_bytes(blob.as_ptr().cast()) };
        assert_eq!(read, Some(&blob[..]));
        assert_eq!(expression(&[&blob[..], b"rest"].concat()), Some(&blob[..]));
        assert_eq!(expression(&blob[..20]), Some(&blob[..6]));
        assert_eq!(expression(&blob[..blob.len() - 1]), None);
        assert_eq!(expression(b"pmix[a]"), None);
        assert!(is_tagged(blob) && is_tagged(b"raw:") && !is_tagged(b"\x02"));
    }

    #[test]
    fn expressions_of_7_0_are_made_and_read() {
        let long = std::ffi::CString::new("node0001,".repeat(1000)).unwrap();
        for (input, kind) in [(c"a,b", c"raw"), (&long, c"compress")] {
            let (mut regex, mut output) = (CRegex2::zeroed(), ptr::null_mut());
            // SAFETY: the texts are strings, and each memory is freed once.
            unsafe {
                let at = &mut regex;
                assert_eq!(generate_regex2(input.as_ptr(), ptr::null(), 0, at), 0);
                assert_eq!(CStr::from_ptr(regex.r#type), kind);
                assert_eq!(parse_regex2(&regex, ptr::null(), 0, &mut output), 0);
                assert_eq!(CStr::from_ptr(output), input);
                memory::free(output);
                regex.destruct();
            }
        }
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut output = ptr::null_mut();
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(
                generate_regex2(ptr::null(), ptr::null(), 0, ptr::null_mut()),
                bad
            );
            assert_eq!(
                parse_regex2(&CRegex2::zeroed(), ptr::null(), 0, &mut output),
                bad
            );
            assert_eq!(parse_regex2(ptr::null(), ptr::null(), 0, &mut output), bad);
            assert_eq!(generate_regex(ptr::null(), &mut output), bad);
            assert_eq!(generate_ppn(c"0".as_ptr(), ptr::null_mut()), bad);
        }
    }
}
