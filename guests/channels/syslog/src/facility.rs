//! Facilities of syslog messages, by their standard names.

/// All facilities, in the order of their numbers.
const NAMES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// Facilities that requesters may name unless the admin configures others: those for programs of
/// users.
pub const FOR_ANYBODY: [&str; 9] = [
    "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// Returns the number of a facility. The kernel's is reserved.
///
/// # Errors
/// A message for the admin about the invalid name.
pub fn number(name: &str) -> Result<u8, String> {
    let known = (0..).zip(NAMES).skip(1).find(|(_, known)| *known == name);
    let there_are = || {
        format!(
            "{name:?} is no facility; there are {}",
            NAMES
                .split_first()
                .map_or(String::new(), |(_, rest)| rest.join(", "))
        )
    };
    known.map(|(number, _)| number).ok_or_else(there_are)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facilities_have_the_numbers_of_the_rfc() {
        let numbers =
            ["user", "authpriv", "ftp", "local0", "local7"].map(|name| number(name).unwrap());
        assert_eq!(numbers, [1, 10, 11, 16, 23]);
        for name in ["kern", "", "USER", "local8"] {
            assert!(
                number(name).unwrap_err().contains("there are user, mail"),
                "{name}"
            );
        }
        assert!(FOR_ANYBODY.iter().all(|name| number(name).is_ok()));
    }
}
