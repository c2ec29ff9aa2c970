//! Example that writes every recorded handshake and message as a seed of the fuzz targets: `seeds
//! FOLDER`. Each target gets a folder of its own.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only the recordings are read"
)]

#[path = "../tests/recording/mod.rs"]
mod recording;

use peal_wire::fuzz;
use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let corpus = env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or(io::Error::other("usage: seeds FOLDER"))?;
    let handshakes = corpus.join("handshake");
    let messages = corpus.join("message");
    fs::create_dir_all(&handshakes)?;
    fs::create_dir_all(&messages)?;
    for recording in recording::all() {
        let name = &recording.name;
        fs::write(
            handshakes.join(format!("{name}-client")),
            recording.hello().1,
        )?;
        if let Some((_, said)) = recording.welcome() {
            fs::write(handshakes.join(format!("{name}-server")), said)?;
        }
        for (number, message) in recording.messages().iter().enumerate() {
            let data = fuzz::data_of_message(&message.codec, message.kind, &message.frame.payload);
            fs::write(messages.join(format!("{name}-{number}")), data.unwrap())?;
        }
    }
    Ok(())
}
