//! Measured values, round by round.
use super::arm::Values;
use std::collections::BTreeMap;

/// Median and range of several numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of these numbers; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_unstable_by(f64::total_cmp);
        let min = *values.first()?;
        let max = *values.last()?;
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = if values.len().is_multiple_of(2) {
            *values.get(middle.saturating_sub(1))?
        } else {
            upper
        };
        Some(Spread {
            median: f64::midpoint(lower, upper),
            min,
            max,
        })
    }
}

/// Values by arm and name, one for each round in which the arm did not fail.
#[derive(Default)]
pub struct Samples {
    rounds: usize,
    values: BTreeMap<(String, String), BTreeMap<usize, f64>>,
    failures: BTreeMap<String, String>,
}

impl Samples {
    /// Adds the values of an arm in this round.
    pub fn add(&mut self, arm: &str, values: Values) {
        for (name, value) in values {
            self.values
                .entry((arm.to_owned(), name))
                .or_default()
                .insert(self.rounds, value);
        }
    }

    /// Notes that an arm failed in this round.
    pub fn fail(&mut self, arm: &str, why: &str) {
        self.failures.insert(arm.to_owned(), why.to_owned());
    }

    /// Ends the round.
    pub fn end_round(&mut self) {
        self.rounds += 1;
    }

    /// Returns the failed arms with their last errors.
    pub fn failures(&self) -> &BTreeMap<String, String> {
        &self.failures
    }

    /// Returns all values: arm, name, and the value of each round that has one.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, Vec<f64>)> {
        self.values.iter().map(|((arm, name), rounds)| {
            (
                arm.as_str(),
                name.as_str(),
                rounds.values().copied().collect(),
            )
        })
    }

    /// Returns the spread of one value over the rounds.
    pub fn spread(&self, arm: &str, name: &str) -> Option<Spread> {
        Spread::of(self.rounds_of(arm, name)?.values().copied().collect())
    }

    /// Returns the spread of the ratio of two values of the same round: disturbances of both cancel
    /// out.
    pub fn ratio(&self, ours: (&str, &str), peer: (&str, &str)) -> Option<Spread> {
        let ours = self.rounds_of(ours.0, ours.1)?;
        let peer = self.rounds_of(peer.0, peer.1)?;
        let ratio = |(round, ours): (&usize, &f64)| Some(ours / peer.get(round)?);
        Spread::of(
            ours.iter()
                .filter_map(ratio)
                .filter(|ratio| ratio.is_finite())
                .collect(),
        )
    }

    /// Returns the spread of the ratio of a value to that of other samples in the same round.
    pub fn ratio_to(&self, base: &Samples, (arm, name): (&str, &str)) -> Option<Spread> {
        let base = base.rounds_of(arm, name)?;
        let ratio = |(round, now): (&usize, &f64)| Some(now / base.get(round)?);
        let ratios = self.rounds_of(arm, name)?.iter().filter_map(ratio);
        Spread::of(ratios.filter(|ratio| ratio.is_finite()).collect())
    }

    fn rounds_of(&self, arm: &str, name: &str) -> Option<&BTreeMap<usize, f64>> {
        self.values.get(&(arm.to_owned(), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(
            spread(&[3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            spread(&[4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut samples = Samples::default();
        for (ours, peer) in [(Some(2.0), 4.0), (None, 1.0), (Some(30.0), 10.0)] {
            if let Some(ours) = ours {
                samples.add("a", vec![("us".to_owned(), ours)]);
            }
            samples.add("b", vec![("us".to_owned(), peer)]);
            samples.end_round();
        }
        assert_eq!(
            samples.ratio(("a", "us"), ("b", "us")),
            Spread::of(vec![0.5, 3.0])
        );
        assert_eq!(samples.ratio(("a", "us"), ("c", "us")), None);
    }
}
