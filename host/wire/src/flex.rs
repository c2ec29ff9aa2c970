//! Flexible integers of OpenPMIx: seven bits a byte, low bits first, and a ninth byte with eight
//! bits.

/// Number of bytes that hold seven bits of the number and a flag for more.
const GROUPS: u32 = 8;

/// Appends a number as one to nine bytes.
pub(crate) fn put(out: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    for _ in 0..GROUPS {
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        if rest == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
    // The groups took 56 bits, so at most eight are left and the cast loses none.
    out.push(rest as u8);
}

/// Returns the number at the start of the bytes and the bytes after it; `None` if they end too
/// soon.
#[inline]
pub(crate) fn take(data: &[u8]) -> Option<(u64, &[u8])> {
    match data {
        // Nearly all numbers take one byte.
        [byte @ ..0x80, rest @ ..] => Some((u64::from(*byte), rest)),
        _ => take_long(data),
    }
}

fn take_long(data: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    let mut rest = data;
    for group in 0..GROUPS {
        let (byte, after) = rest.split_first()?;
        rest = after;
        number |= u64::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
    }
    // The ninth byte has no flag: all of its bits belong to the number.
    let (byte, after) = rest.split_first()?;
    Some((number | u64::from(*byte) << (7 * GROUPS), after))
}

/// Returns a signed number as an unsigned one that is small for numbers near zero: 0, -1, 1, -2
/// become 0, 1, 2, 3.
pub(crate) fn fold(number: i64) -> u64 {
    // The arithmetic shift is all ones for a negative number, so XOR inverts its bits.
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// Reverses [`fold`].
pub(crate) fn unfold(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, number);
        assert_eq!(take(&out), Some((number, &[][..])));
        out
    }

    #[test]
    fn the_table_of_section_4_3() {
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [0x7f]);
        assert_eq!(bytes(128), [0x80, 0x01]);
        assert_eq!(bytes(0xffff_fffe), [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(bytes(1_700_000_000), [0x80, 0xe2, 0xcf, 0xaa, 0x06]);
        assert_eq!(
            bytes(0x0123_4567_89ab_cdef),
            [0xef, 0x9b, 0xaf, 0xcd, 0xf8, 0xac, 0xd1, 0x91, 0x01]
        );
        assert_eq!(bytes(u64::MAX), [0xff; 9]);
        assert_eq!(bytes(fold(-3005)), [0xf9, 0x2e]);
        assert_eq!(
            bytes(fold(i64::from(i32::MIN))),
            [0xff, 0xff, 0xff, 0xff, 0x0f]
        );
    }

    #[test]
    fn signed_numbers_fold_and_unfold() {
        for (number, folded) in [
            (0, 0),
            (-1, 1),
            (1, 2),
            (-2, 3),
            (i64::MAX, u64::MAX - 1),
            (i64::MIN, u64::MAX),
        ] {
            assert_eq!(fold(number), folded);
            assert_eq!(unfold(folded), number);
        }
    }

    #[test]
    fn a_number_cut_short_is_no_number() {
        assert_eq!(take(&[]), None);
        assert_eq!(take(&[0x80]), None);
        assert_eq!(take(&[0xff; 8]), None);
    }
}
