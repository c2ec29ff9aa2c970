//! Settings of the module: groups with their shares.
use crate::usage::number;
use peal_sdk::{Config, UnixGroup};

/// Largest share.
const MOST: i64 = 1_000_000;

/// Name of the users without a group that has a share.
const OTHERS: &str = "others";

/// Group with a share.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Share {
    name: String,
    share: u64,
}

/// All settings. Groups have numbers; the last one is that of all other users.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    groups: Vec<Share>,
    /// Number of procs that all may have spawned recently.
    pub procs: u64,
    /// Time in which a count halves, in milliseconds.
    pub half_life: u64,
    /// Percentage of `procs` up to which a group may exceed its part.
    pub lend: u64,
    /// Users without limit.
    pub exempt: Vec<u32>,
}

impl Settings {
    /// Reads the settings.
    pub fn read(config: &Config) -> Result<Settings, String> {
        config.allow_only(&["shares", "others", "procs", "half_life", "lend", "exempt"])?;
        let texts = config.list("shares")?.unwrap_or_default();
        if texts.is_empty() {
            return Err(
                "the setting \"shares\" is missing; it should list groups, as in \"physics=3, chemistry=1\""
                    .to_owned(),
            );
        }
        let mut groups = texts
            .into_iter()
            .map(share)
            .collect::<Result<Vec<Share>, String>>()?;
        let number = |name, bounds, default| -> Result<u64, String> {
            let number = config.number(name, bounds)?;
            Ok(number
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(default))
        };
        groups.push(Share {
            name: OTHERS.to_owned(),
            share: number("others", 1..=MOST, 1)?,
        });
        for (place, group) in groups.iter().enumerate() {
            if groups
                .iter()
                .skip(place + 1)
                .any(|other| other.name == group.name)
            {
                return Err(format!(
                    "{:?} has two shares; it should have one",
                    group.name
                ));
            }
        }
        let user = |text: &str| {
            text.parse()
                .map_err(|_| format!("{text:?} in \"exempt\" is no user's number"))
        };
        let exempt = config.list("exempt")?.unwrap_or(vec!["0"]).into_iter();
        Ok(Settings {
            groups,
            procs: number("procs", 1..=1_000_000, 256)?,
            half_life: number("half_life", 1..=31_536_000, 3600)?.saturating_mul(1000),
            lend: number("lend", 0..=100, 50)?,
            exempt: exempt.map(user).collect::<Result<Vec<u32>, String>>()?,
        })
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the name of a group.
    pub fn name(&self, group: usize) -> &str {
        self.groups.get(group).map_or(OTHERS, |group| &group.name)
    }

    /// Returns the first of a requester's groups that has a share, or that of the others.
    pub fn group_of(&self, groups: &[UnixGroup]) -> usize {
        let last = self.groups.len().saturating_sub(1);
        let found = groups.iter().find_map(|group| {
            let gid = group.gid.to_string();
            let own = |share: &Share| share.name == gid || group.name.as_ref() == Some(&share.name);
            // The last one is no Unix group.
            self.groups.iter().take(last).position(own)
        });
        found.unwrap_or(last)
    }

    /// Returns the number of procs that a group may have spawned recently.
    pub fn part(&self, group: usize) -> f64 {
        let all: u64 = self.groups.iter().map(|group| group.share).sum();
        let own = self.groups.get(group).map_or(0, |group| group.share);
        number(self.procs) * number(own) / number(all.max(1))
    }
}

fn share(text: &str) -> Result<Share, String> {
    let wrong = || format!("{text:?} in \"shares\" is no GROUP=SHARE, as in \"physics=3\"");
    let (name, share) = text.split_once('=').ok_or_else(wrong)?;
    let (name, share) = (name.trim(), share.trim());
    let share: i64 = share.parse().map_err(|_| wrong())?;
    // A longer name has no room in a key of the state.
    let is_name = !name.is_empty() && name.len() <= 200;
    if !is_name || !(1..=MOST).contains(&share) {
        return Err(wrong());
    }
    Ok(Share {
        name: name.to_owned(),
        share: share.unsigned_abs(),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use peal_sdk::Info;

    /// Reads settings with these shares.
    pub fn settings(shares: &str) -> Settings {
        Settings::read(&Config::for_test([Info::new("shares", shares)])).unwrap()
    }

    #[test]
    fn first_group_with_share_counts() {
        let settings = settings("physics=3, 500=1");
        let group = |gid, name: Option<&str>| UnixGroup {
            gid,
            name: name.map(str::to_owned),
        };
        let users = group(100, Some("users"));
        let physics = group(7, Some("physics"));
        for (groups, number) in [
            (vec![users.clone(), physics.clone()], 0),
            (vec![users.clone(), group(500, None), physics], 1),
            (vec![group(9, Some("others"))], 2),
            (vec![users], 2),
        ] {
            assert_eq!(settings.group_of(&groups), number, "{groups:?}");
        }
        assert!((settings.part(0) - 256.0 * 3.0 / 5.0).abs() < 1e-9);
    }
}
