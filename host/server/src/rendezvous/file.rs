//! Contents of a rendezvous file.
use super::SERVED_VERSION;
use peal_model::UserIdentity;
use peal_wire::ServerUri;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the lines of a file: URI of the server, release, process id, user and group, and start
/// time.
pub(super) fn contents(
    uri: &ServerUri,
    pid: u32,
    owner: UserIdentity,
    started: SystemTime,
) -> String {
    let seconds = started
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    format!(
        "{uri}\n{SERVED_VERSION}\n{pid}\n{}:{}\n{}\n\n",
        owner.uid,
        owner.gid,
        ctime(seconds)
    )
}

/// Returns the process id that a file contains.
pub(super) fn pid(contents: &str) -> Option<u32> {
    contents.lines().nth(2)?.trim().parse().ok()
}

/// Formats a time like `ctime`, in UTC.
fn ctime(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut days = seconds / 86_400;
    let second = seconds % 86_400;
    // The first of January 1970 was a Thursday.
    let weekday = DAYS
        .into_iter()
        .cycle()
        .nth((days % 7) as usize)
        .unwrap_or_default();
    let mut year = 1970;
    while days >= length_of(year) {
        days -= length_of(year);
        year += 1;
    }
    let february = length_of(year) - 337;
    let mut months = MONTHS
        .into_iter()
        .zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
    let month = months.find(|(_, length)| {
        let here = days < *length;
        days -= if here { 0 } else { *length };
        here
    });
    let month = month.unwrap_or_default().0;
    let hour = second / 3600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!(
        "{weekday} {month} {:>2} {hour:02}:{minute:02}:{second:02} {year}",
        days + 1
    )
}

/// Returns the number of days of a year.
fn length_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_c_library() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_226_724, "Sat Nov 21 02:05:24 2026"),
            (4_107_542_399, "Sun Feb 28 23:59:59 2100"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
        ] {
            assert_eq!(ctime(seconds), text);
        }
    }

    #[test]
    fn rendezvous_file_equals_that_of_c_library() {
        let uri: ServerUri = "labserver.0;tcp4://127.0.0.1:54661".parse().unwrap();
        let started = UNIX_EPOCH + Duration::from_secs(1_795_226_724);
        let contents = contents(&uri, 2095, UserIdentity { uid: 0, gid: 5 }, started);
        let wanted = "labserver.0;tcp4://127.0.0.1:54661\n4.2.2peal\n2095\n0:5\nSat Nov 21 02:05:24 2026\n\n";
        assert_eq!(contents, wanted);
        assert_eq!(pid(&contents), Some(2095));
        for torn in [
            "",
            "labserver.0;tcp4://127.0.0.1:54661\n4.2.2peal\n",
            "a\nb\nc\n",
        ] {
            assert_eq!(pid(torn), None);
        }
    }
}
