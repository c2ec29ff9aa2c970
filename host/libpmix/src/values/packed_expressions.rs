//! Packed regular expressions: unlike all other elements they have no length before them.
use super::{
    pack::with_codec,
    regex::{expression, is_tagged, regex_bytes},
};
use crate::{convert::text_to_c, memory};
use peal_model::{Status, Text, Value, code, data_type as dt};
use peal_wire::Codec;
use std::{ffi::c_char, ptr};

/// Returns the bytes of expressions: their number, and each with its end but without a length.
///
/// # Safety
///
/// `first` begins an array of `count` expressions, or is null if there are none.
pub(super) unsafe fn pack_expressions(
    first: *const *const c_char,
    count: usize,
) -> Result<Vec<u8>, Status> {
    let counted = Value::Int(i32::try_from(count).map_err(|_| code::PMIX_ERR_BAD_PARAM)?);
    // A field of one number begins with its count, 1, in one byte; the rest is the number itself.
    let number = with_codec(dt::PMIX_INT, |codec| {
        codec.encode_field(dt::PMIX_INT, &[counted])
    })?;
    let mut bytes = number.get(1..).unwrap_or_default().to_vec();
    for at in 0..count {
        // SAFETY: the caller guarantees expressions.
        let text = unsafe { regex_bytes(*first.add(at)) }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        if is_tagged(text) {
            bytes.extend_from_slice(text);
        } else {
            let list = Value::String(Some(Text::from_bytes(text)));
            let field = |codec: &Codec| codec.encode_field(dt::PMIX_STRING, &[list]);
            bytes.extend(with_codec(dt::PMIX_STRING, field)?);
        }
    }
    Ok(bytes)
}

/// Unpacks expressions into pointers of the caller. Returns their number and their length.
///
/// # Safety
///
/// `first` begins memory for `max` pointers.
pub(super) unsafe fn unpack_expressions(
    bytes: &[u8],
    first: *mut *mut c_char,
    max: usize,
) -> Result<(usize, usize), Status> {
    // The number alone, behind a count of 1 that a field would have.
    let field = [&[2], bytes].concat();
    let number = with_codec(dt::PMIX_INT, |codec| {
        codec.decode_field(dt::PMIX_INT, 1, &field)
    })?;
    let Some(Value::Int(count)) = number.values.first() else {
        return Err(code::PMIX_ERR_UNPACK_FAILURE);
    };
    let count = usize::try_from(*count).map_err(|_| code::PMIX_ERR_UNPACK_FAILURE)?;
    let mut len = number.len.saturating_sub(1);
    for at in 0..count.min(max) {
        let copy = unpack_expression(bytes.get(len..).unwrap_or_default(), &mut len);
        let copy = copy.inspect_err(|_| {
            for read in 0..at {
                // SAFETY: these pointers were written below.
                unsafe { memory::free(ptr::replace(first.add(read), ptr::null_mut())) };
            }
        })?;
        // SAFETY: the caller guarantees memory for the pointers.
        unsafe { *first.add(at) = copy };
    }
    Ok((count, len))
}

/// Copies the expression at the beginning of these bytes, and adds its length.
fn unpack_expression(rest: &[u8], len: &mut usize) -> Result<*mut c_char, Status> {
    if is_tagged(rest) {
        let text = expression(rest).ok_or(code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER)?;
        *len = len.saturating_add(text.len());
        return Ok(memory::copy_bytes(text)?);
    }
    let field = |codec: &Codec| codec.decode_field(dt::PMIX_STRING, 1, rest);
    let field = with_codec(dt::PMIX_STRING, field)?;
    *len = len.saturating_add(field.len);
    match field.values.first() {
        Some(Value::String(text)) => Ok(text_to_c(text.as_ref())?),
        _ => Err(code::PMIX_ERR_UNPACK_FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        abi::{CByteObject, CDataBuffer},
        convert::element::REGEX,
        destruct::Destruct,
        memory::{self, counter},
        values::{
            buffer::data_embed,
            pack::{data_pack, data_unpack},
        },
    };
    use peal_model::code;
    use std::{ffi::c_char, ptr};

    #[test]
    fn expressions_keep_their_bytes() {
        let before = counter::live();
        let texts = [c"pmix[n[1:1-3]]", c"raw:a,b", c"a,b"].map(|text| text.as_ptr());
        let (mut buffer, mut read, mut count) =
            (CDataBuffer::zeroed(), [ptr::null_mut::<c_char>(); 3], 3);
        let regex = REGEX.0;
        // SAFETY: the arrays have as many pointers.
        unsafe {
            assert_eq!(
                data_pack(ptr::null(), &mut buffer, texts.as_ptr().cast(), 3, regex),
                0
            );
            let to = read.as_mut_ptr().cast();
            assert_eq!(
                data_unpack(ptr::null(), &mut buffer, to, &mut count, regex),
                0
            );
            for (read, text) in read.into_iter().zip(texts) {
                assert_eq!(libc::strcmp(read, text), 0);
                memory::free(read);
            }
            buffer.destruct();
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn expressions_before_a_damaged_one_are_not_leaked() {
        let before = counter::live();
        // Three expressions, of which the last one has no end.
        let bytes = b"\x06pmix[a]\0raw:b\0pmix[".map(u8::cast_signed);
        let (mut read, mut count) = ([ptr::null_mut::<c_char>(); 3], 3);
        let payload = CByteObject {
            bytes: bytes.as_ptr().cast_mut().cast(),
            size: bytes.len(),
        };
        let mut buffer = CDataBuffer::zeroed();
        // SAFETY: the payload has as many bytes, and the array as many pointers.
        unsafe {
            assert_eq!(data_embed(&mut buffer, &payload), 0);
            let to = read.as_mut_ptr().cast();
            let status = data_unpack(ptr::null(), &mut buffer, to, &mut count, REGEX.0);
            let past = code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER.0;
            assert_eq!((status, count, read), (past, 0, [ptr::null_mut(); 3]));
            buffer.destruct();
        }
        assert_eq!(counter::live(), before);
    }
}
