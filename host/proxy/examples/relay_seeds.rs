//! Example that writes every recorded connection as a seed of the fuzz target `relay`: `relay_seeds
//! FOLDER`. The target gets a folder of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only the recordings are read"
)]

#[path = "../tests/recording/mod.rs"]
mod recording;

use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let corpus = env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or(io::Error::other("usage: relay_seeds FOLDER"))?;
    let connections = corpus.join("relay");
    fs::create_dir_all(&connections)?;
    recording::all()
        .into_iter()
        .try_for_each(|(name, data)| fs::write(connections.join(name), data))
}
