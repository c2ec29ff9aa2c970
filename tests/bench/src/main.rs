//! `peal-bench`: the measuring programs of `cargo xtask bench` that are written in Rust. Each
//! prints lines `NAME VALUE`. `tests/c/bench/client.c` does the same with the C library.
#![allow(clippy::print_stdout, reason = "the program prints its measurements")]
mod arrivals;
mod bare;
mod chain;
mod flood;
mod floor;
mod procs;
mod relay;
mod times;
mod under_load;

use clap::Parser;

/// Measures; run by `cargo xtask bench`.
#[derive(Parser)]
enum Args {
    /// A chain of one component, in this process
    Chain(chain::Chain),
    /// A proc of a job, with Peal's own client; run it under a PMIx server
    Proc(procs::Proc),
    /// Messages of procs to a thread that answers each, in this process
    Floor(floor::Floor),
    /// Messages through a thread that only forwards them, in this process
    Relay(relay::Relay),
}

fn main() -> anyhow::Result<()> {
    match Args::parse() {
        Args::Chain(chain) => chain.run(),
        Args::Proc(proc) => proc.run(),
        Args::Floor(floor) => floor.run(),
        Args::Relay(relay) => relay.run(),
    }
}
