//! Numbers on the command line, and what is said of one that cannot be used.
use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// The highest process id that Linux gives.
pub(super) const MAX_PID: u32 = 1 << 22;

/// A parser of whole numbers in a range. What it refuses is told with the range, where `value_parser!` would speak of digits.
///
/// # Errors
/// A sentence that names the range.
pub(super) fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!(
                "a whole number from {} to {} is wanted",
                range.start(),
                range.end()
            )
        })
    }
}
