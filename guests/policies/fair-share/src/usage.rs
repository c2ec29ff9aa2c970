//! Counts that halve with time, and the comparison with the part of a group.
use crate::settings::Settings;

/// Procs that a group spawned, as of a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Usage {
    procs: f64,
    time: u64,
}

impl Usage {
    /// Creates a count as of a time in milliseconds.
    pub fn new(procs: f64, time: u64) -> Usage {
        Usage { procs, time }
    }

    /// Returns the count at a time. A clock that is set back does not raise it.
    pub fn at(self, now: u64, half_life: u64) -> f64 {
        let age = number(now.saturating_sub(self.time));
        self.procs * (-age / number(half_life.max(1))).exp2()
    }

    /// Returns the count for the state.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (procs, time) = bytes.split_at_mut(8);
        procs.copy_from_slice(&self.procs.to_le_bytes());
        time.copy_from_slice(&self.time.to_le_bytes());
        bytes
    }

    /// Reads a count of the state; what is malformed counts as none.
    pub fn from_bytes(bytes: &[u8]) -> Usage {
        let Some((procs, time)) = bytes.split_at_checked(8) else {
            return Usage::default();
        };
        let procs = procs.try_into().map(f64::from_le_bytes);
        let time = time.try_into().map(u64::from_le_bytes);
        match (procs, time) {
            (Ok(procs), Ok(time)) if procs.is_finite() && procs >= 0.0 => Usage { procs, time },
            _ => Usage::default(),
        }
    }
}

/// Request that exceeds the part of its group.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Refusal {
    used: f64,
    part: f64,
    /// Milliseconds after which the request fits; `None` if it never does.
    wait: Option<f64>,
}

impl Refusal {
    /// Returns the reason in words.
    pub fn text(&self, group: &str, procs: u64) -> String {
        let wait = match self.wait {
            Some(wait) => format!("try again in {:.0} s", (wait / 1000.0).ceil()),
            None => "the request is larger than that part".to_owned(),
        };
        let (used, part) = (self.used, self.part);
        format!(
            "group {group} has used {used:.0} of its {part:.0} procs, and requests {procs}: {wait}"
        )
    }
}

/// Compares a request with the part of its group and the use of all.
pub fn check(settings: &Settings, part: f64, own: f64, all: f64, procs: u64) -> Option<Refusal> {
    let wanted = number(procs);
    let lent = number(settings.procs) * number(settings.lend) / 100.0;
    if own + wanted <= part || all + wanted <= lent {
        return None;
    }
    let room = part - wanted;
    let wait = (room > 0.0).then(|| number(settings.half_life) * (own / room).log2());
    Some(Refusal {
        used: own,
        part,
        wait,
    })
}

/// Converts a number; large ones are rounded.
#[allow(clippy::cast_precision_loss)]
pub fn number(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn count_halves_with_time_and_survives_the_state() {
        let usage = Usage::new(8.0, 1000);
        assert_eq!(Usage::from_bytes(&usage.to_bytes()), usage);
        for (now, procs) in [(1000, 8.0), (2000, 4.0), (4000, 1.0), (0, 8.0)] {
            assert!((usage.at(now, 1000) - procs).abs() < 1e-9, "{now}");
        }
        for malformed in [&[][..], &[1; 8], &[255; 16], &[0; 17]] {
            assert_eq!(Usage::from_bytes(malformed), Usage::default());
        }
    }

    #[test]
    fn group_beyond_part_waits_unless_node_is_idle() {
        // 256 procs in all, of which 128 are lent; the group has half of them.
        let settings = settings("physics=1");
        let check = |own, all, procs| check(&settings, 128.0, own, all, procs);
        assert_eq!(check(120.0, 256.0, 8), None, "within its part");
        assert_eq!(check(60.0, 60.0, 68), None, "idle");
        let refusal = check(128.0, 200.0, 64).unwrap();
        assert_eq!(
            refusal.text("physics", 64),
            "group physics has used 128 of its 128 procs, and requests 64: try again in 3600 s"
        );
        let refusal = check(0.0, 0.0, 129).unwrap();
        assert!(
            refusal
                .text("physics", 129)
                .ends_with("larger than that part")
        );
    }
}
