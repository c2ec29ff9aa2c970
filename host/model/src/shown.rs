//! Rates and times in few digits, for tables that people read.

/// Formats a rate; a dash before there is one.
pub fn shown_rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate <= 0.0 => "0".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) if rate < 100_000.0 => format!("{rate:.0}"),
        Some(rate) => format!("{:.0}k", rate / 1000.0),
    }
}

/// Formats a time in microseconds with its unit.
pub fn shown_microseconds(time: f64) -> String {
    match time {
        time if time < 1000.0 => format!("{time:.0} us"),
        time if time < 10_000.0 => format!("{:.2} ms", time / 1000.0),
        time if time < 1_000_000.0 => format!("{:.0} ms", time / 1000.0),
        time => format!("{:.1} s", time / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_few_digits() {
        assert_eq!(
            [None, Some(0.0), Some(0.25), Some(1234.4), Some(1_234_567.0)].map(shown_rate),
            ["-", "0", "0.2", "1234", "1235k"]
        );
    }

    #[test]
    fn times_have_few_digits_and_a_unit() {
        assert_eq!(
            [12.4, 1234.0, 123_456.0, 2_500_000.0].map(shown_microseconds),
            ["12 us", "1.23 ms", "123 ms", "2.5 s"]
        );
    }
}
