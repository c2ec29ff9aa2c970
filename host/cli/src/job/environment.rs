//! Environment of a registered job, as lines for `env $(..)`.
use anyhow::{Result, bail};
use peal_server::admin::JobRegistration;
use std::io::{self, Write};

/// Prints the environment of these ranks, with a heading for each if there are several.
///
/// # Errors
///
/// Fails, without output, if a shell would split a line.
pub fn print(out: &mut impl Write, job: &JobRegistration, rank: Option<u32>) -> Result<()> {
    let ranks = match rank {
        Some(rank) => rank..rank.saturating_add(1),
        None => 0..job.size,
    };
    // One rank is enough: those of a job differ only in the number of the rank.
    for (name, value) in ranks.clone().take(1).flat_map(|rank| job.of_rank(rank)) {
        if let Some(character) = value.chars().find(|character| is_special(*character)) {
            bail!(
                "{name} of job {:?} is {value:?}; a shell that reads it by `env $(..)` would misread its {character:?}: \
                 use -o json",
                job.nspace
            );
        }
    }
    for of in ranks {
        if rank.is_none() {
            writeln!(out, "# rank {of}")?;
        }
        write_rank(out, job, of)?;
    }
    Ok(())
}

fn write_rank(out: &mut impl Write, job: &JobRegistration, rank: u32) -> io::Result<()> {
    job.of_rank(rank)
        .try_for_each(|(name, value)| writeln!(out, "{name}={value}"))
}

/// Returns true for a character that the shell interprets in the output of a command: it splits
/// words and expands file names.
pub fn is_special(character: char) -> bool {
    character.is_whitespace()
        || character.is_control()
        || matches!(character, '*' | '?' | '[' | '\\')
}
