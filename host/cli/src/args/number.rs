//! Numbers on the command line, and the error for an invalid one.
use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// Highest process id of Linux.
pub(super) const MAX_PID: u32 = 1 << 22;

/// Returns a parser of whole numbers in a range. Its errors name the range, unlike those of
/// `value_parser!`.
///
/// # Errors
/// A sentence with the range.
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
                "it should be a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}
