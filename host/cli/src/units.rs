//! Amounts for people: rounded, with units. Programs get the plain numbers.

/// Units of bytes, each 1024 times the previous one.
const BYTES: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];

/// Formats an amount of bytes.
pub fn bytes(count: f64) -> String {
    let mut amount = count;
    let mut units = BYTES.iter().peekable();
    while let Some(unit) = units.next() {
        if amount.abs() < 1024.0 || units.peek().is_none() {
            return if *unit == "B" {
                format!("{amount:.0} B")
            } else {
                format!("{amount:.1} {unit}")
            };
        }
        amount /= 1024.0;
    }
    // Not reached: the last unit takes every amount.
    format!("{count:.0} B")
}

/// Formats an amount of megabytes, the unit of the Standard for memory.
pub fn megabytes(count: f64) -> String {
    bytes(count * 1024.0 * 1024.0)
}

/// Formats a whole number.
pub fn count(count: f64) -> String {
    format!("{count:.0}")
}

/// Formats a time in seconds.
pub fn seconds(count: f64) -> String {
    let whole = count.max(0.0) as u64;
    match whole {
        0..60 => format!("{count:.1} s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_and_have_units() {
        for (amount, shown) in [
            (bytes(0.0), "0 B"),
            (bytes(1023.0), "1023 B"),
            (bytes(1536.0), "1.5 kB"),
            (bytes(3.0 * 1024.0 * 1024.0 * 1024.0), "3.0 GB"),
            (megabytes(0.5), "512.0 kB"),
            (megabytes(2048.0), "2.0 GB"),
            (seconds(1.34), "1.3 s"),
            (seconds(75.0), "1m15s"),
            (seconds(7260.0), "2h01m"),
        ] {
            assert_eq!(amount, shown);
        }
    }
}
