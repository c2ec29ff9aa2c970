//! Maintenance windows: weekly and single ones, in minutes.
use std::time::{Duration, UNIX_EPOCH};

/// Day, in minutes.
const DAY: i64 = 24 * 60;
/// Week, in minutes.
const WEEK: i64 = 7 * DAY;
/// Weekday of the epoch, counted from Monday: a Thursday.
const EPOCH_DAY: i64 = 3;
/// Maximum number of adjoining windows that count as one; some plans never end.
const TOUCHING: usize = 64;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Weekly window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Weekly {
    /// Beginning, in minutes after the beginning of Monday.
    from: i64,
    length: i64,
}

/// All windows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    weekly: Vec<Weekly>,
    /// Single windows: beginnings and ends in minutes since the epoch, in local time.
    once: Vec<(i64, i64)>,
    /// Offset of local time from UTC.
    offset: i64,
}

impl Plan {
    /// Reads the settings `weekly`, `once` and `offset`, or returns a message about an invalid one.
    pub fn read(weekly: &[&str], once: &[&str], offset: &str) -> Result<Plan, String> {
        let offset = read_offset(offset)?;
        let weekly: Result<Vec<Vec<Weekly>>, String> =
            weekly.iter().map(|text| read_weekly(text)).collect();
        let once: Result<Vec<(i64, i64)>, String> =
            once.iter().map(|text| read_once(text)).collect();
        let plan = Plan {
            weekly: weekly?.concat(),
            once: once?,
            offset,
        };
        if plan.weekly.is_empty() && plan.once.is_empty() {
            return Err("there is no window: set \"weekly\" or \"once\"".to_owned());
        }
        Ok(plan)
    }

    /// Returns the end, in local time, of the window that is open at a time in milliseconds since
    /// the epoch; none if none is open. Adjoining windows count as one.
    pub fn closed_until(&self, now: u64) -> Option<i64> {
        let start = i64::try_from(now / 60_000).unwrap_or(i64::MAX / 2) + self.offset;
        let mut until = start;
        for _ in 0..TOUCHING {
            match self.end_at(until) {
                Some(end) => until = end,
                None => break,
            }
        }
        (until > start).then_some(until)
    }

    /// Returns the last end of the windows that are open in this minute.
    fn end_at(&self, minute: i64) -> Option<i64> {
        let weekly = self.weekly.iter().filter_map(|window| {
            let since = (minute + EPOCH_DAY * DAY - window.from).rem_euclid(WEEK);
            (since < window.length).then_some(minute - since + window.length)
        });
        let once = self
            .once
            .iter()
            .filter(|(from, to)| (*from..*to).contains(&minute))
            .map(|(_, to)| *to);
        weekly.chain(once).max()
    }

    /// Formats a minute of local time.
    pub fn written(&self, minute: i64) -> String {
        let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(minute * 60).unwrap_or_default());
        let text = humantime::format_rfc3339_seconds(time)
            .to_string()
            .replace('T', " ");
        let text = text.get(..16).unwrap_or(&text);
        match self.offset {
            0 => format!("{text} UTC"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                format!(
                    "{text} UTC{sign}{:02}:{:02}",
                    offset.abs() / 60,
                    offset.abs() % 60
                )
            }
        }
    }
}

/// Parses minutes of the day, as in `22:00`; `24:00` is its end.
fn read_time(text: &str) -> Option<i64> {
    let (hours, minutes) = text
        .split_once(':')
        .filter(|(_, minutes)| minutes.len() == 2)?;
    let hours = hours.parse::<u8>().ok()?;
    let minutes = minutes.parse::<u8>().ok()?;
    let time = i64::from(hours) * 60 + i64::from(minutes);
    (minutes < 60 && time <= DAY).then_some(time)
}

fn read_offset(text: &str) -> Result<i64, String> {
    let number = |sign: i64, rest| {
        read_time(rest)
            .filter(|time| *time <= 14 * 60)
            .map(|time| sign * time)
    };
    let read = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => number(1, rest),
        (_, Some(rest)) => number(-1, rest),
        _ => (text == "UTC").then_some(0),
    };
    read.ok_or_else(|| {
        format!(
            "the setting \"offset\" is {text:?}; it is UTC, or how far ahead of that, as in +01:00"
        )
    })
}

fn read_day(text: &str) -> Option<i64> {
    DAYS.iter()
        .zip(0..)
        .find(|(day, _)| **day == text)
        .map(|(_, number)| number)
}

/// Parses `Mon`, `Mon-Fri`, `Sat+Sun` or `daily`.
fn read_days(text: &str) -> Option<Vec<i64>> {
    if text == "daily" {
        return Some((0..7).collect());
    }
    if let Some((first, last)) = text.split_once('-') {
        let first = read_day(first)?;
        let last = read_day(last)?;
        return Some(
            (0..=(last - first).rem_euclid(7))
                .map(|after| (first + after) % 7)
                .collect(),
        );
    }
    text.split('+').map(read_day).collect()
}

/// Parses `DAYS FROM-TO`, where the end may be on the next day, or `DAY FROM-DAY TO`.
fn read_weekly(text: &str) -> Result<Vec<Weekly>, String> {
    let read = || {
        let parts: Vec<&str> = text.split_whitespace().collect();
        match parts.as_slice() {
            [days, times] => {
                let (from, to) = times.split_once('-')?;
                let from = read_time(from)?;
                let to = read_time(to)?;
                let length = if to > from {
                    to - from
                } else {
                    to + DAY - from
                };
                let window = |day| Weekly {
                    from: day * DAY + from,
                    length,
                };
                Some(read_days(days)?.into_iter().map(window).collect())
            }
            [first, middle, to] => {
                let (from, last) = middle.split_once('-')?;
                let from = read_day(first)? * DAY + read_time(from)?;
                let length = (read_day(last)? * DAY + read_time(to)? - from).rem_euclid(WEEK);
                (length > 0).then(|| vec![Weekly { from, length }])
            }
            _ => None,
        }
    };
    read().ok_or_else(|| {
        format!("{text:?} in \"weekly\" is no window, as in \"Mon-Fri 22:00-06:00\" or \"Sat 22:00-Mon 06:00\"")
    })
}

/// Parses `DATE TIME/DATE TIME`.
fn read_once(text: &str) -> Result<(i64, i64), String> {
    let minute = |text: &str| {
        let time = humantime::parse_rfc3339_weak(&format!("{}:00", text.trim())).ok()?;
        i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs() / 60).ok()
    };
    let read = || {
        let (from, to) = text.split_once('/')?;
        Some((minute(from)?, minute(to)?)).filter(|(from, to)| from < to)
    };
    read().ok_or_else(|| {
        format!("{text:?} in \"once\" is no window, as in \"2026-12-24 12:00/2026-12-27 06:00\", the end behind the beginning")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn until(plan: &Plan, now: &str) -> Option<String> {
        let now = humantime::parse_rfc3339_weak(now)
            .unwrap()
            .duration_since(UNIX_EPOCH)
            .unwrap();
        plan.closed_until(u64::try_from(now.as_millis()).unwrap())
            .map(|minute| plan.written(minute))
    }

    #[test]
    fn a_night_ends_on_the_next_day_and_a_weekend_on_monday() {
        let plan = Plan::read(&["Mon-Fri 22:00-06:00", "Sat 22:00-Mon 06:00"], &[], "UTC").unwrap();
        assert_eq!(until(&plan, "2026-11-16 21:59:59"), None);
        assert_eq!(
            until(&plan, "2026-11-16 22:00:00").as_deref(),
            Some("2026-11-17 06:00 UTC")
        );
        assert_eq!(
            until(&plan, "2026-11-21 05:59:00").as_deref(),
            Some("2026-11-21 06:00 UTC"),
            "Friday's"
        );
        assert_eq!(until(&plan, "2026-11-21 06:00:00"), None);
        assert_eq!(
            until(&plan, "2026-11-22 12:00:00").as_deref(),
            Some("2026-11-23 06:00 UTC")
        );
    }

    #[test]
    fn the_clock_is_the_local_one_and_windows_that_touch_are_one() {
        let plan = Plan::read(&["Sun 23:00-24:00", "Mon 00:00-01:00"], &[], "+01:00").unwrap();
        assert_eq!(
            until(&plan, "2026-11-22 22:30:00").as_deref(),
            Some("2026-11-23 01:00 UTC+01:00")
        );
        assert_eq!(until(&plan, "2026-11-23 00:00:00"), None);
        let once = Plan::read(
            &["Thu 11:00-13:00"],
            &["2026-12-24 12:00/2026-12-27 06:00"],
            "-05:30",
        )
        .unwrap();
        assert_eq!(
            until(&once, "2026-12-24 17:00:00").as_deref(),
            Some("2026-12-27 06:00 UTC-05:30")
        );
        let always = Plan::read(&["daily 00:00-24:00"], &[], "UTC").unwrap();
        assert!(until(&always, "2026-12-24 17:00:00").is_some());
    }

    #[test]
    fn invalid_window_is_refused_with_example() {
        for (weekly, once, offset, says) in [
            (
                &["Mon 22-06"][..],
                &[][..],
                "UTC",
                "\"Mon 22-06\" in \"weekly\" is no window",
            ),
            (
                &["Mo 22:00-06:00"],
                &[],
                "UTC",
                "as in \"Mon-Fri 22:00-06:00\"",
            ),
            (&["Sat 22:00-Sat 22:00"], &[], "UTC", "is no window"),
            (
                &[],
                &["2026-12-24 12:00/2026-12-24 12:00"],
                "UTC",
                "the end behind the beginning",
            ),
            (
                &[],
                &["2026-13-24 12:00/2026-12-24 12:00"],
                "UTC",
                "in \"once\" is no window",
            ),
            (
                &["Mon 22:00-06:00"],
                &[],
                "CET",
                "the setting \"offset\" is \"CET\"",
            ),
            (&[], &[], "UTC", "there is no window"),
        ] {
            let error = Plan::read(weekly, once, offset).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        /// A week has as many closed minutes as its windows define, wherever it begins, and opens
        /// at the announced time.
        #[test]
        fn every_week_is_the_same(from in 0i64..DAY, length in 1i64..DAY, day in 0i64..7, week in 1i64..4000, offset in -840i64..840) {
            let window = Weekly { from: day * DAY + from, length };
            let plan = Plan { weekly: vec![window], once: Vec::new(), offset };
            let now = |minute: i64| u64::try_from((week * WEEK + minute) * 60_000).unwrap();
            let closed = (0..WEEK).filter_map(|minute| plan.closed_until(now(minute)).map(|end| (minute, end)));
            let closed: Vec<(i64, i64)> = closed.collect();
            prop_assert_eq!(closed.len(), usize::try_from(length).unwrap());
            for (minute, end) in closed {
                let left = end - offset - (week * WEEK + minute);
                prop_assert!(left >= 1 && left <= length);
                prop_assert_eq!(plan.closed_until(now(minute + left)), None);
            }
        }
    }
}
