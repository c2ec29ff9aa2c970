//! Calls of functions that need no server, in random order and with random arguments: null pointers,
//! wrong counts, texts and keys without an end, values of any type that nest, packed bytes from
//! anywhere. A sanitizer, or the counts of the tests, tell what went wrong. Feature `fuzz` and tests
//! only.
mod choices;
mod values;

#[cfg(test)]
mod tests;

use choices::Choices;
use values::{Values, families};

/// Calls functions as the bytes choose, and frees everything in the end.
///
/// # Safety
///
/// There are no demands: the arguments are what the functions demand. It is unsafe since a mistake of
/// theirs may follow any pointer.
pub unsafe fn calls(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut values = Values::new();
    while !choices.is_empty() {
        let group = choices.byte();
        // SAFETY: the arguments are what the functions demand.
        unsafe {
            match group % 16 {
                0 | 1 => values.change(&mut choices),
                2 => values.read(&mut choices),
                3 => values.unload(&mut choices),
                4 | 5 => values.pack(&mut choices),
                6 | 7 => values.unpack(&mut choices),
                8 => values.buffer(&mut choices),
                9 => values.argv(&mut choices),
                10 => values.list(&mut choices),
                11 => values.record(&mut choices),
                12 => values::text(&mut choices),
                13 => values::expression(&mut choices),
                14 => families(&mut choices),
                _ => values.copy(&mut choices),
            }
        }
    }
    // SAFETY: the values own what they point to.
    unsafe { values.free() };
}
