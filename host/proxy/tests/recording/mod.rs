//! The recorded connections of `data/wire-vectors` as what `peal_proxy::fuzz::streams` reads.
use peal_proxy::{ProxySide, fuzz};
use std::{fs, path::Path};

/// The name of each and its streams, in the pieces in which they came.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/wire-vectors");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let recordings =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "hex"));
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    recordings
        .map(|path| (name(&path), streams(&fs::read_to_string(&path).unwrap())))
        .collect()
}

fn streams(recording: &str) -> Vec<u8> {
    let chunks = recording
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap());
    let sides = chunks
        .filter(|(_, hex)| *hex != "EOF")
        .map(|(side, hex)| match side {
            "c" => (ProxySide::Client, unhex(hex)),
            "s" => (ProxySide::Server, unhex(hex)),
            other => panic!("{other} is no side"),
        });
    let pieces: Vec<(ProxySide, Vec<u8>)> = sides.collect();
    fuzz::data_of_streams(pieces.iter().map(|(side, bytes)| (*side, bytes.as_slice())))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
