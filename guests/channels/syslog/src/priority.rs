//! Priority of a syslog message: severity and facility, the number at its beginning.
use crate::settings::Settings;
use peal_sdk::{LogRequest, key, status};

/// Severity of a message that requests no other.
const INFO: u8 = 6;
/// Bits of the severity; the facility is in the higher ones.
const SEVERITIES: u8 = 8;

/// Returns the requested priority. Facility zero is the kernel's and counts as not given.
pub fn priority(request: &LogRequest, settings: &Settings) -> Result<u8, i32> {
    let Some(priority) = request.get(key::PMIX_LOG_SYSLOG_PRI) else {
        return Ok(settings.facility * SEVERITIES + INFO);
    };
    let priority = priority
        .as_u64()
        .and_then(|number| u8::try_from(number).ok())
        .ok_or(status::PMIX_ERR_BAD_PARAM)?;
    match (priority / SEVERITIES, priority % SEVERITIES) {
        (0, severity) => Ok(settings.facility * SEVERITIES + severity),
        (24.., _) => Err(status::PMIX_ERR_BAD_PARAM),
        (facility, _)
            if facility == settings.facility || settings.facilities.contains(&facility) =>
        {
            Ok(priority)
        }
        _ => Err(status::PMIX_ERR_NO_PERMISSIONS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use peal_sdk::{Info, Value};

    fn parsed(value: impl Into<Value>) -> Result<u8, i32> {
        let request = LogRequest::for_test(key::PMIX_LOG_SYSLOG)
            .with_directive(key::PMIX_LOG_SYSLOG_PRI, value);
        priority(&request, &settings([]).unwrap())
    }

    #[test]
    fn priority_is_info_of_the_admins_facility_by_default() {
        let request = LogRequest::for_test(key::PMIX_LOG_SYSLOG);
        assert_eq!(priority(&request, &settings([]).unwrap()), Ok(14));
        let daemon = settings([Info::new("facility", "daemon")]).unwrap();
        assert_eq!(priority(&request, &daemon), Ok(3 * 8 + 6));
        let alert = request.with_directive(key::PMIX_LOG_SYSLOG_PRI, 1i32);
        assert_eq!(priority(&alert, &daemon), Ok(3 * 8 + 1));
    }

    #[test]
    fn severities_of_any_integer_type_are_read() {
        assert_eq!(
            (
                parsed(0i32),
                parsed(7u32),
                parsed(Value::Int(3)),
                parsed(3u8)
            ),
            (Ok(8), Ok(15), Ok(11), Ok(11))
        );
        for value in [
            Value::from(-1i32),
            192i32.into(),
            u64::MAX.into(),
            "err".into(),
            true.into(),
            Value::Undef,
        ] {
            assert_eq!(
                parsed(value.clone()),
                Err(status::PMIX_ERR_BAD_PARAM),
                "{value:?}"
            );
        }
    }

    #[test]
    fn facilities_are_those_that_the_admin_allows() {
        assert_eq!(
            (parsed(8 + 3), parsed(16 * 8 + 2), parsed(191)),
            (Ok(11), Ok(130), Ok(191))
        );
        assert_eq!(
            parsed(4 * 8 + 6),
            Err(status::PMIX_ERR_NO_PERMISSIONS),
            "auth"
        );
        let all = settings([
            Info::new("facilities", "auth"),
            Info::new("facility", "cron"),
        ])
        .unwrap();
        let with = |number: i32| {
            let request = LogRequest::for_test(key::PMIX_LOG_SYSLOG)
                .with_directive(key::PMIX_LOG_SYSLOG_PRI, number);
            priority(&request, &all)
        };
        assert_eq!((with(38), with(9 * 8)), (Ok(38), Ok(72)));
        assert_eq!(with(16 * 8), Err(status::PMIX_ERR_NO_PERMISSIONS));
    }
}
