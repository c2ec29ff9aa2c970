//! Bound of the nesting of a message, checked before the message is read: `rmp-serde` bounds the
//! nesting of arrays and structures, but not that of enumerations, of which a value is one.
use rmp::Marker;

/// Deepest nesting in a message. A value nests at most 16 levels deep on the PMIx wire
/// (`peal_wire::WireLimits`), and each takes up to six levels of MessagePack.
const MAX: usize = 128;

/// Contents of an element of MessagePack.
enum Contents {
    /// Bytes that are no elements.
    Bytes(u64),
    /// Further elements.
    Elements(u64),
}

/// Returns true if the first element of these bytes nests no deeper than a message may. Also true for
/// bytes that end too early: the reader reports that.
pub(crate) fn is_bounded(mut bytes: &[u8]) -> bool {
    // Number of elements that are missing at each level.
    let mut open: Vec<u64> = Vec::new();
    loop {
        let Some((marker, rest)) = bytes.split_first() else {
            return true;
        };
        let Some((contents, rest)) = contents(Marker::from_u8(*marker), rest) else {
            return true;
        };
        bytes = rest;
        match contents {
            Contents::Bytes(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                // A length beyond the end leaves no bytes, which ends the loop above.
                bytes = bytes.get(len..).unwrap_or_default();
            }
            Contents::Elements(count) => {
                if open.len() >= MAX {
                    return false;
                }
                // The element itself is missing no more when its contents are there.
                open.push(count.saturating_add(1));
            }
        }
        // The last element of a level completes the element that contains it, and so on.
        while let Some(missing) = open.last_mut() {
            *missing = missing.saturating_sub(1);
            if *missing > 0 {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return true;
        }
    }
}

/// Returns the contents of an element and the bytes behind its length; `None` if they end before.
fn contents(marker: Marker, bytes: &[u8]) -> Option<(Contents, &[u8])> {
    use Contents::{Bytes, Elements};
    let fixed = |len| Some((Bytes(len), bytes));
    match marker {
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => {
            fixed(0)
        }
        Marker::Reserved => fixed(0),
        Marker::U8 | Marker::I8 => fixed(1),
        Marker::U16 | Marker::I16 | Marker::FixExt1 => fixed(2),
        // The type of an extension takes a byte before its data.
        Marker::FixExt2 => fixed(3),
        Marker::U32 | Marker::I32 | Marker::F32 => fixed(4),
        Marker::FixExt4 => fixed(5),
        Marker::U64 | Marker::I64 | Marker::F64 => fixed(8),
        Marker::FixExt8 => fixed(9),
        Marker::FixExt16 => fixed(17),
        Marker::FixStr(len) => fixed(u64::from(len)),
        Marker::FixArray(count) => Some((Elements(u64::from(count)), bytes)),
        // A map has a key and a value for each entry.
        Marker::FixMap(count) => Some((Elements(2 * u64::from(count)), bytes)),
        Marker::Str8 | Marker::Bin8 => number::<1>(bytes).map(|(len, rest)| (Bytes(len), rest)),
        Marker::Str16 | Marker::Bin16 => number::<2>(bytes).map(|(len, rest)| (Bytes(len), rest)),
        Marker::Str32 | Marker::Bin32 => number::<4>(bytes).map(|(len, rest)| (Bytes(len), rest)),
        Marker::Ext8 => number::<1>(bytes).map(|(len, rest)| (Bytes(len + 1), rest)),
        Marker::Ext16 => number::<2>(bytes).map(|(len, rest)| (Bytes(len + 1), rest)),
        Marker::Ext32 => number::<4>(bytes).map(|(len, rest)| (Bytes(len + 1), rest)),
        Marker::Array16 => number::<2>(bytes).map(|(count, rest)| (Elements(count), rest)),
        Marker::Array32 => number::<4>(bytes).map(|(count, rest)| (Elements(count), rest)),
        Marker::Map16 => number::<2>(bytes).map(|(count, rest)| (Elements(2 * count), rest)),
        Marker::Map32 => number::<4>(bytes).map(|(count, rest)| (Elements(2 * count), rest)),
    }
}

/// Reads a number of that many bytes.
fn number<const BYTES: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<BYTES>()?;
    let number = digits
        .iter()
        .fold(0, |number, digit| (number << 8) | u64::from(*digit));
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_and_not_the_number_of_elements() {
        let depth = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert!(is_bounded(&depth(MAX)));
        assert!(!is_bounded(&depth(MAX + 1)));
        let wide = rmp_serde::to_vec(&vec![vec![vec![1_u64; 10]; 300]; 300]).unwrap();
        assert!(is_bounded(&wide));
        // What looks like arrays lies within a text.
        let text = rmp_serde::to_vec(&"\u{11}".repeat(1000)).unwrap();
        assert!(is_bounded(&text));
    }
}
