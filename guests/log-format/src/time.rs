//! Points of time in readable form.
use humantime::format_rfc3339_seconds;
use std::{
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

/// Formats seconds since the epoch by RFC 3339 in UTC; none beyond the year 9999.
pub fn rfc3339(seconds: u64) -> Option<String> {
    let moment = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    let mut text = String::new();
    write!(text, "{}", format_rfc3339_seconds(moment)).ok()?;
    Some(text)
}

/// Formats any seconds since the epoch; those beyond the calendar as a number.
pub fn shown(seconds: u64) -> String {
    rfc3339(seconds).unwrap_or_else(|| format!("@{seconds}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_calendar_has_is_shown_in_seconds() {
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(shown(253_402_300_799), "9999-12-31T23:59:59Z");
        assert_eq!(shown(253_402_300_800), "@253402300800");
        assert_eq!(shown(u64::MAX), format!("@{}", u64::MAX));
        assert_eq!(rfc3339(u64::MAX), None);
    }
}
