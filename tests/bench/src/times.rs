//! Times of many repetitions, and the lines that report them.
use std::time::Duration;

/// Times of the repetitions that count.
pub struct Times {
    warm: u32,
    seen: u32,
    times: Vec<Duration>,
}

impl Times {
    /// Creates an empty set that leaves out the first `warm` times.
    pub fn new(warm: u32, count: u32) -> Times {
        Times {
            warm,
            seen: 0,
            times: Vec::with_capacity(count as usize),
        }
    }

    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        self.seen += 1;
        if self.seen > self.warm {
            self.times.push(time);
        }
    }

    /// Prints the median and the 99th percentile, in microseconds, and returns the median.
    pub fn print(self) -> Duration {
        self.print_as("us")
    }

    /// Prints only the median.
    pub fn print_median(mut self) {
        let [median] = self.percentiles([50]);
        println!("us {:.3}", median.as_secs_f64() * 1e6);
    }

    /// Prints both under another name, and returns the median.
    pub fn print_as(mut self, name: &str) -> Duration {
        let [median, rare] = self.percentiles([50, 99]);
        println!(
            "{name} {:.3}\n{name}_p99 {:.3}",
            median.as_secs_f64() * 1e6,
            rare.as_secs_f64() * 1e6
        );
        median
    }

    fn percentiles<const N: usize>(&mut self, per_cent: [usize; N]) -> [Duration; N] {
        self.times.sort_unstable();
        per_cent.map(|per_cent| {
            self.times
                .get(self.times.len() * per_cent / 100)
                .copied()
                .unwrap_or_default()
        })
    }
}
