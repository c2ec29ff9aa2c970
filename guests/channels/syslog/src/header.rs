//! Header of a syslog message. Each value that a requester chooses becomes exactly one field of it.
use peal_log_format::rfc3339;
use peal_sdk::Proc;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// Maximum lengths: name of an application in RFC 5424, tag in RFC 3164.
const LONGEST: [usize; 2] = [48, 32];
/// Message id in RFC 5424, and tag in RFC 3164 if the requester is unknown.
const KIND: &str = "pmix";

/// Values of the header.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// Severity and facility.
    pub priority: u8,
    /// Time of the request, in seconds since the epoch.
    pub seconds: u64,
    /// Hostname, if it is to be included.
    pub hostname: Option<&'a str>,
    /// Requester.
    pub source: Option<&'a Proc>,
}

impl Head<'_> {
    /// Formats the header by RFC 5424; none for a time that it cannot express. The application is
    /// the namespace, the process the rank.
    pub fn rfc5424(&self) -> Option<String> {
        let time = rfc3339(self.seconds)?;
        let host = self.hostname.unwrap_or("-");
        let [longest, _] = LONGEST;
        let (application, process) = match self.source {
            Some(Proc { nspace, rank }) => (
                name(nspace, longest, |byte| byte.is_ascii_graphic()),
                rank.to_string(),
            ),
            None => ("-".to_owned(), "-".to_owned()),
        };
        Some(format!(
            "<{}>1 {time} {host} {application} {process} {KIND} - ",
            self.priority
        ))
    }

    /// Formats the header by RFC 3164, in UTC; none for a time that it cannot express. Without a
    /// hostname it is the form that C libraries send to a local syslog.
    pub fn rfc3164(&self) -> Option<String> {
        let time = rfc3339(self.seconds)?;
        let (date, clock) = time.trim_end_matches('Z').split_once('T')?;
        let mut parts = date.split('-').skip(1);
        let month = MONTHS.get(parts.next()?.parse::<usize>().ok()?.checked_sub(1)?)?;
        let day: u8 = parts.next()?.parse().ok()?;
        let host = self
            .hostname
            .map_or_else(String::new, |host| format!("{host} "));
        let [_, longest] = LONGEST;
        let is_of_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let tag = match self.source {
            Some(Proc { nspace, rank }) => format!("{}[{rank}]", name(nspace, longest, is_of_tag)),
            None => KIND.to_owned(),
        };
        Some(format!(
            "<{}>{month} {day:2} {clock} {host}{tag}: ",
            self.priority
        ))
    }
}

/// Converts a namespace to a field: other characters become `_`, and excess length is cut.
fn name(nspace: &str, longest: usize, allowed: impl Fn(u8) -> bool) -> String {
    let one = |character: char| {
        u8::try_from(character)
            .ok()
            .filter(|byte| allowed(*byte))
            .map_or('_', char::from)
    };
    let name: String = nspace.chars().map(one).take(longest).collect();
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_767_603_600;

    fn head<'a>(source: &'a Proc, hostname: Option<&'a str>) -> Head<'a> {
        Head {
            priority: 14,
            seconds: TIME,
            hostname,
            source: Some(source),
        }
    }

    #[test]
    fn both_forms_follow_their_rfc() {
        let proc = Proc::new("solver", 3);
        let head = head(&proc, Some("node7"));
        assert_eq!(
            head.rfc5424().unwrap(),
            "<14>1 2026-01-05T09:00:00Z node7 solver 3 pmix - "
        );
        assert_eq!(
            head.rfc3164().unwrap(),
            "<14>Jan  5 09:00:00 node7 solver[3]: "
        );
        let late = Head {
            seconds: 1_767_225_599,
            ..head
        };
        assert_eq!(
            late.rfc3164().unwrap(),
            "<14>Dec 31 23:59:59 node7 solver[3]: "
        );
    }

    #[test]
    fn unknown_header_fields_have_nil_value() {
        let head = Head {
            priority: 191,
            seconds: TIME,
            hostname: None,
            source: None,
        };
        assert_eq!(
            head.rfc5424().unwrap(),
            "<191>1 2026-01-05T09:00:00Z - - - pmix - "
        );
        assert_eq!(head.rfc3164().unwrap(), "<191>Jan  5 09:00:00 pmix: ");
        let never = Head {
            seconds: u64::MAX,
            ..head
        };
        assert_eq!((never.rfc5424(), never.rfc3164()), (None, None));
    }

    #[test]
    fn a_namespace_is_one_field() {
        let proc = Proc::new("a 0 pmix - \n<0>1 ü[1]:x]", 7);
        let head = head(&proc, None);
        assert_eq!(
            head.rfc5424().unwrap(),
            "<14>1 2026-01-05T09:00:00Z - a_0_pmix_-__<0>1__[1]:x] 7 pmix - "
        );
        assert_eq!(
            head.rfc3164().unwrap(),
            "<14>Jan  5 09:00:00 a_0_pmix_-___0_1___1__x_[7]: "
        );
        let long = Proc::new("n".repeat(300), 0);
        let none = Proc::new("", 0);
        assert!(
            self::head(&long, None)
                .rfc5424()
                .unwrap()
                .contains(&format!(" {} 0 ", "n".repeat(48)))
        );
        assert!(
            self::head(&long, None)
                .rfc3164()
                .unwrap()
                .contains(&format!(" {}[0]", "n".repeat(32)))
        );
        assert!(
            self::head(&none, None)
                .rfc5424()
                .unwrap()
                .contains(" _ 0 pmix")
        );
    }
}
