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
    fn times_have_few_digits_and_units() {
        for (shown, expected) in [
            (time_of_day(86_400_000 * 3 + 3_723_004), "01:02:03.004"),
            (uptime(59_999), "59s"),
            (uptime(3_720_000), "1h02m"),
            (uptime(90_000_000), "1d01h"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
