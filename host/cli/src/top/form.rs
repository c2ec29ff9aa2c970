//! Numbers, times and trends as `peal top` shows them.
use peal_server::admin::RateTrend;

/// Characters of trends and bars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glyphs {
    /// Blocks of Unicode.
    Unicode,
    /// Characters of ASCII, for terminals with another encoding.
    Ascii,
}

impl Glyphs {
    /// Returns the steps of a trend, the lowest first.
    fn steps(self) -> &'static [char] {
        match self {
            Glyphs::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Glyphs::Ascii => &['_', '.', '-', '=', '+', '*', '#', '@'],
        }
    }

    /// Returns the character of bars.
    fn bar(self) -> char {
        match self {
            Glyphs::Unicode => '█',
            Glyphs::Ascii => '#',
        }
    }

    /// Returns the mark of a text that was cut.
    pub fn cut(self) -> char {
        match self {
            Glyphs::Unicode => '…',
            Glyphs::Ascii => '~',
        }
    }

    /// Returns the marks of ascending and descending columns.
    pub fn sorted(self) -> (char, char) {
        match self {
            Glyphs::Unicode => ('▲', '▼'),
            Glyphs::Ascii => ('^', 'v'),
        }
    }

    /// Draws the latest rates, the highest as a full character. A rate of zero is a space.
    pub fn trend(self, trend: &RateTrend, width: usize) -> String {
        let rates: Vec<f64> = trend.last(width).collect();
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let steps = self.steps();
        let glyph = |rate: f64| {
            if rate <= 0.0 || highest <= 0.0 {
                return ' ';
            }
            let step = (rate / highest * steps.len() as f64).ceil() as usize;
            let at = step.clamp(1, steps.len()) - 1;
            steps.get(at).copied().unwrap_or(' ')
        };
        let drawn: String = rates.into_iter().map(glyph).collect();
        format!("{drawn:>width$}")
    }

    /// Draws a part of a whole as a bar.
    pub fn part(self, part: f64, whole: f64, width: usize) -> String {
        let cells = if whole > 0.0 {
            (part / whole * width as f64).ceil() as usize
        } else {
            0
        };
        self.bar().to_string().repeat(cells.min(width))
    }
}

/// Formats a rate.
pub fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate <= 0.0 => "0".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) if rate < 100_000.0 => format!("{rate:.0}"),
        Some(rate) => format!("{:.0}k", rate / 1000.0),
    }
}

/// Formats a time in microseconds.
pub fn micros(time: f64) -> String {
    match time {
        time if time < 1000.0 => format!("{time:.0} us"),
        time if time < 10_000.0 => format!("{:.2} ms", time / 1000.0),
        time if time < 1_000_000.0 => format!("{:.0} ms", time / 1000.0),
        time => format!("{:.1} s", time / 1_000_000.0),
    }
}

/// Formats the time of day (UTC) of milliseconds since the epoch.
pub fn time_of_day(at_ms: u64) -> String {
    let day = at_ms % 86_400_000;
    let (seconds, millis) = (day / 1000, day % 1000);
    format!(
        "{:02}:{:02}:{:02}.{millis:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Formats a time since a start.
pub fn uptime(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_units() {
        for (shown, expected) in [
            (rate(None), "-"),
            (rate(Some(0.0)), "0"),
            (rate(Some(0.25)), "0.2"),
            (rate(Some(1234.4)), "1234"),
            (rate(Some(1_234_567.0)), "1235k"),
            (micros(12.4), "12 us"),
            (micros(1234.0), "1.23 ms"),
            (micros(123_456.0), "123 ms"),
            (micros(2_500_000.0), "2.5 s"),
            (time_of_day(86_400_000 * 3 + 3_723_004), "01:02:03.004"),
            (uptime(59_999), "59s"),
            (uptime(3_720_000), "1h02m"),
            (uptime(90_000_000), "1d01h"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
