//! The environment of a registered job as lines for `env $(..)`.
use anyhow::{Result, bail};
use peal_server::admin::JobRegistration;
use std::io::{self, Write};

/// Prints the environment of these ranks, with a heading for each where there are several.
///
/// # Errors
/// Nothing is printed where a shell would take a line apart.
pub fn print(out: &mut impl Write, job: &JobRegistration, rank: Option<u32>) -> Result<()> {
    let ranks = match rank {
        Some(rank) => rank..rank.saturating_add(1),
        None => 0..job.size,
    };
    for (name, value) in ranks.clone().take(1).flat_map(|rank| job.of_rank(rank)) {
        if let Some(character) = value.chars().find(|character| is_special(*character)) {
            bail!(
                "{name} of job {:?} is {value:?}; a shell that reads it by `env $(..)` would misread its {character:?}: \
                 use --json",
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

/// Whether the shell does something about a character in what a command printed: it divides words and completes names of files.
pub fn is_special(character: char) -> bool {
    character.is_whitespace()
        || character.is_control()
        || matches!(character, '*' | '?' | '[' | '\\')
}
