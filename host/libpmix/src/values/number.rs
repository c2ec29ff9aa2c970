//! Numbers out of values, whatever their types (`PMIx_Value_get_number`).
use crate::{
    abi::{CStatus, CValue},
    border,
};
use peal_model::{DataType, Status, code, data_type as dt};
use std::ffi::c_void;

/// A number of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ValueNumber {
    Integer(i128),
    Real(f64),
}

/// Returns the number in a value; `None` if its type is none of a number.
fn number_of(value: &CValue) -> Option<ValueNumber> {
    use ValueNumber::{Integer, Real};
    let data = &value.data;
    // SAFETY: the type says which member of the union is valid; all of these are numbers.
    Some(unsafe {
        match DataType(value.r#type) {
            dt::PMIX_SIZE => Integer(data.size as i128),
            dt::PMIX_INT => Integer(data.integer.into()),
            dt::PMIX_INT8 => Integer(data.int8.into()),
            dt::PMIX_INT16 => Integer(data.int16.into()),
            dt::PMIX_INT32 => Integer(data.int32.into()),
            dt::PMIX_INT64 => Integer(data.int64.into()),
            dt::PMIX_UINT => Integer(data.uint.into()),
            dt::PMIX_UINT8 => Integer(data.uint8.into()),
            dt::PMIX_UINT16 => Integer(data.uint16.into()),
            dt::PMIX_UINT32 => Integer(data.uint32.into()),
            dt::PMIX_UINT64 => Integer(data.uint64.into()),
            dt::PMIX_PID => Integer(data.pid.into()),
            dt::PMIX_STATUS => Integer(data.status.into()),
            dt::PMIX_PROC_RANK => Integer(data.rank.into()),
            dt::PMIX_FLOAT => Real(data.fval.into()),
            dt::PMIX_DOUBLE => Real(data.dval),
            _ => return None,
        }
    })
}

/// Returns the smallest and largest integer of a type; `None` if it has no integers.
fn range(data_type: DataType) -> Option<(i128, i128)> {
    macro_rules! of {
        ($type:ty) => {
            (i128::from(<$type>::MIN), i128::from(<$type>::MAX))
        };
    }
    Some(match data_type {
        dt::PMIX_INT8 => of!(i8),
        dt::PMIX_INT16 => of!(i16),
        dt::PMIX_INT | dt::PMIX_INT32 | dt::PMIX_PID | dt::PMIX_STATUS => of!(i32),
        dt::PMIX_INT64 => of!(i64),
        dt::PMIX_UINT8 => of!(u8),
        dt::PMIX_UINT16 => of!(u16),
        dt::PMIX_UINT | dt::PMIX_UINT32 | dt::PMIX_PROC_RANK => of!(u32),
        dt::PMIX_UINT64 | dt::PMIX_SIZE => of!(u64),
        _ => return None,
    })
}

/// Returns the bytes of a number as a type. The fraction of a real number is dropped.
///
/// # Errors
///
/// Fails with `PMIX_ERR_CHANGE_SIGN` for a negative number as an unsigned one, with
/// `PMIX_ERR_LOST_PRECISION` for one out of range, and with `PMIX_ERR_BAD_PARAM` for a type of no
/// number.
fn bytes_as(number: ValueNumber, data_type: DataType) -> Result<Vec<u8>, Status> {
    if data_type == dt::PMIX_DOUBLE || data_type == dt::PMIX_FLOAT {
        let real = match number {
            ValueNumber::Integer(integer) => integer as f64,
            ValueNumber::Real(real) => real,
        };
        if data_type == dt::PMIX_DOUBLE {
            return Ok(real.to_ne_bytes().to_vec());
        }
        let single = real as f32;
        if single.is_infinite() && real.is_finite() {
            return Err(code::PMIX_ERR_LOST_PRECISION);
        }
        return Ok(single.to_ne_bytes().to_vec());
    }
    let (min, max) = range(data_type).ok_or(code::PMIX_ERR_BAD_PARAM)?;
    let integer = match number {
        ValueNumber::Integer(integer) => integer,
        ValueNumber::Real(real) if real < 0.0 && min == 0 => {
            return Err(code::PMIX_ERR_CHANGE_SIGN);
        }
        ValueNumber::Real(real) if real.is_nan() => return Err(code::PMIX_ERR_LOST_PRECISION),
        // Numbers beyond the range become its end, which is out of range of every type.
        ValueNumber::Real(real) => real as i128,
    };
    if integer < 0 && min == 0 {
        return Err(code::PMIX_ERR_CHANGE_SIGN);
    }
    if integer < min || integer > max {
        return Err(code::PMIX_ERR_LOST_PRECISION);
    }
    // As many low bytes as the type has; on a little-endian machine these are the first.
    let size = crate::convert::element::layout(data_type).map_or(0, |layout| layout.size);
    let bytes = integer.to_le_bytes();
    let mut low = bytes.get(..size).unwrap_or_default().to_vec();
    if cfg!(target_endian = "big") {
        low.reverse();
    }
    Ok(low)
}

/// `PMIx_Value_get_number`: writes the number of a value as another type.
///
/// # Safety
///
/// `value` is null or points to a value; `target` is null or points to memory for the type, which
/// needs no alignment.
#[unsafe(export_name = "PMIx_Value_get_number")]
pub unsafe extern "C" fn value_get_number(
    value: *const CValue,
    target: *mut c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Value_get_number", || {
        // SAFETY: the caller guarantees a value or null.
        let value = unsafe { value.as_ref() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        if target.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let number = number_of(value).ok_or(code::PMIX_ERR_BAD_PARAM)?;
        let bytes = bytes_as(number, DataType(data_type))?;
        // SAFETY: the caller guarantees memory for the type, which has as many bytes.
        unsafe {
            target
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{abi::CValueData, destruct::Destruct, values::value::number_value};
    use std::ptr;

    #[test]
    fn numbers_change_type_but_not_sign_or_size() {
        let value = number_value(dt::PMIX_INT64, CValueData { int64: -1 });
        let mut small: i8 = 0;
        let mut real: f64 = 0.0;
        // SAFETY: the targets are of the types.
        unsafe {
            let small: *mut i8 = &mut small;
            assert_eq!(value_get_number(&value, small.cast(), dt::PMIX_INT8.0), 0);
            assert_eq!(*small, -1);
            let real: *mut f64 = &mut real;
            assert_eq!(value_get_number(&value, real.cast(), dt::PMIX_DOUBLE.0), 0);
            assert!((*real + 1.0).abs() < 1e-9);
            let sign = code::PMIX_ERR_CHANGE_SIGN.0;
            assert_eq!(
                value_get_number(&value, small.cast(), dt::PMIX_UINT8.0),
                sign
            );
            let large = number_value(dt::PMIX_DOUBLE, CValueData { dval: 1e300 });
            let lost = code::PMIX_ERR_LOST_PRECISION.0;
            assert_eq!(
                value_get_number(&large, small.cast(), dt::PMIX_INT8.0),
                lost
            );
            assert_eq!(
                value_get_number(&large, real.cast(), dt::PMIX_FLOAT.0),
                lost
            );
            let bad = code::PMIX_ERR_BAD_PARAM.0;
            assert_eq!(
                value_get_number(&value, small.cast(), dt::PMIX_STRING.0),
                bad
            );
            assert_eq!(value_get_number(&CValue::zeroed(), small.cast(), 7), bad);
            assert_eq!(value_get_number(ptr::null(), small.cast(), 7), bad);
            assert_eq!(value_get_number(&value, ptr::null_mut(), 7), bad);
        }
    }
}
