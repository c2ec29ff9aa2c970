//! Watchers of the activity beyond the share of their user.
use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
};

/// Request for reports.
const REQUEST: &[u8] = b"{\"peal\": 1, \"call\": {\"verb\": \"activity\", \"interval_ms\": 100}}\n";

/// Starts this number of watchers, prints how many were admitted and the first refusal, and reads nothing
/// until it is killed.
pub fn attack(socket: &Path, count: usize) -> Result<()> {
    let mut admitted = Vec::new();
    let mut refusal = None;
    for _ in 0..count {
        let (stream, reply) = loop {
            let mut stream = UnixStream::connect(socket).context("connecting")?;
            stream.write_all(REQUEST)?;
            let mut reader = BufReader::new(stream);
            let mut reply = String::new();
            reader.read_line(&mut reply)?;
            // That is another limit, on calls at the same time.
            if !reply.contains("open calls") {
                break (reader, reply);
            }
        };
        if reply.contains("reporting") {
            admitted.push(stream);
        } else {
            let reply: serde_json::Value = serde_json::from_str(&reply)?;
            refusal.get_or_insert(reply["reason"].as_str().unwrap_or_default().to_owned());
        }
    }
    println!(
        "{} watchers, then: {}",
        admitted.len(),
        refusal.unwrap_or_default()
    );
    loop {
        thread::park();
    }
}
