//! `cargo xtask soak`: searches for faults that the tests do not find, for a chosen time.
use crate::{
    c_programs,
    command::{cargo, run},
    fuzz, libpmix, needs, test_servers,
};
use anyhow::Result;
use std::path::Path;

const CASES: u32 = 20_000;
const KILLS: u32 = 100;
const FLOOD: u32 = 1_000_000;
const HANDOVERS: u32 = 50;
const GROUPS: u32 = 100_000;
const CLUSTERS: u32 = 5_000;
const FENCES: u32 = 1_000;
const SERVERS: u32 = 1_000;
const FAULTS: u32 = 50;
const OUTAGE_SECONDS: u32 = 30;
const NATS_SERVERS: [u32; 2] = [1, 3];

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Soak {
    /// Run each fuzz target, random calls of the C library's functions, and an attack by fuzzed
    /// requests, for this time in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Start the random numbers here; a run prints its seed, by which it can be repeated
    #[arg(long)]
    seed: Option<u32>,
}

impl Soak {
    /// Fuzzes the code that reads bytes from outside, starting with recorded messages. Then attacks
    /// servers with fuzzed requests, and runs the property tests with many cases.
    pub fn run(&self, root: &Path) -> Result<()> {
        let seed = self.seed.map_or_else(fuzz::seed_of_the_moment, Ok)?;
        println!("seed {seed}");
        fuzz::all(root, self.seconds, seed)?;
        println!("\n== fuzzed requests for {} s, seed {seed}", self.seconds);
        let mut requests = cargo(root);
        requests
            .env("PEAL_FUZZ_SECONDS", self.seconds.to_string())
            .env("PEAL_FUZZ_SEED", seed.to_string());
        run(requests.args([
            "test",
            "--package",
            "peal-tests",
            "--test",
            "security",
            "request_fuzz",
        ]))?;
        let programs = c_programs::build(root)?;
        let test_servers = test_servers::get(root)?;
        libpmix::build(root, libpmix::LibraryProfile::Debug)?;
        // After the builds: a test that needs the programs is ignored if the record lacks them.
        needs::record(root)?;
        if let Some(programs) = programs {
            println!("\n== {FLOOD} events before a proc that they are for connects");
            flood(root, &programs, "retention::client_connecting_after_flood")?;
            println!("\n== {FLOOD} events without a pause on Peal's libpmix");
            flood(root, &programs, "floods::")?;
            println!("\n== {HANDOVERS} handovers of a server under load");
            let mut handovers = cargo(root);
            handovers
                .env("PEAL_HANDOVERS", HANDOVERS.to_string())
                .env("PEAL_C_PROGRAMS", &programs)
                .env("PEAL_TEST_SERVERS", &test_servers);
            run(handovers.args([
                "test",
                "--package",
                "peal-tests",
                "--test",
                "commands",
                "--",
                "--nocapture",
                "handovers_under_load",
            ]))?;
            println!(
                "\n== random calls on Peal's libpmix for {} s, seed {seed}",
                self.seconds
            );
            let mut calls = cargo(root);
            calls
                .env("PEAL_CALLS_SECONDS", self.seconds.to_string())
                .env("PEAL_CALLS_SEED", seed.to_string())
                .env("PEAL_C_PROGRAMS", programs);
            run(calls.args([
                "test",
                "--package",
                "peal-tests",
                "--test",
                "jobs",
                "--",
                "--nocapture",
                "random_calls::",
            ]))?;
        }
        println!(
            "\n== {KILLS} servers with an audit trail, and {KILLS} of each process of such a server, killed at any \
             moment, seed {seed}"
        );
        let mut kills = cargo(root);
        kills
            .env("PEAL_KILLS", KILLS.to_string())
            .env("PEAL_KILL_SEED", seed.to_string());
        run(kills.args([
            "test",
            "--package",
            "peal-tests",
            "--test",
            "logging",
            "--",
            "--nocapture",
            "are_in_trail_after",
        ]))?;
        println!("\n== {GROUPS} simulations of groups in which procs and servers die, seed {seed}");
        let mut groups = cargo(root);
        groups
            // Each case runs in three orders.
            .env("PEAL_GROUP_CASES", GROUPS.div_ceil(3).to_string())
            .env("PEAL_GROUP_SEED", seed.to_string())
            .env("PEAL_GROUP_SERVERS", SERVERS.to_string());
        run(groups.args([
            "test",
            "--package",
            "peal-core",
            "--test",
            "group",
            "--",
            "participants",
            "messages_equal_servers",
        ]))?;
        println!("\n== {FENCES} simulations of fences whose procs and servers are lost");
        let mut fences = cargo(root);
        fences
            .env("PEAL_CLUSTER_CASES", FENCES.to_string())
            .env("PEAL_CLUSTER_SEED", seed.to_string());
        run(fences.args([
            "test",
            "--package",
            "peal-core",
            "--test",
            "over_servers",
            "--",
            "fences_equal_the_counts",
            "fences_after_timeouts",
            "fences_end_once",
            "fence_ends_alike",
        ]))?;
        println!(
            "\n== {CLUSTERS} simulations of servers that join and die, and {SERVERS} servers of one job"
        );
        let mut clusters = cargo(root);
        clusters
            .env("PEAL_CLUSTER_CASES", CLUSTERS.to_string())
            .env("PEAL_CLUSTER_SEED", seed.to_string())
            .env("PEAL_CLUSTER_SERVERS", SERVERS.to_string());
        run(clusters.args([
            "test",
            "--package",
            "peal-core",
            "--test",
            "over_servers",
            "--",
            "--nocapture",
            "fences_and_events_hold",
            "table_of_the_docs",
        ]))?;
        for servers in NATS_SERVERS {
            println!(
                "\n== {FAULTS} faults of servers that meet on NATS servers, {servers} of them, and of these, seed {seed}"
            );
            let mut faults = cargo(root);
            faults
                .env("PEAL_FAULT_ROUNDS", FAULTS.to_string())
                .env("PEAL_FAULT_SEED", seed.to_string())
                .env("PEAL_FAULT_OUTAGE", OUTAGE_SECONDS.to_string())
                .env("PEAL_FAULT_NATS_SERVERS", servers.to_string())
                .env("PEAL_TEST_SERVERS", &test_servers);
            run(faults.args([
                "test",
                "--package",
                "peal-tests",
                "--test",
                "events",
                "--",
                "--nocapture",
                "cluster_faults",
            ]))?;
        }
        println!(
            "\n== Open MPI, on Peal's library as well: 100 starts in a row, and the tests of mpi4py"
        );
        let mut mpi = cargo(root);
        mpi.env("PEAL_MPI_WHOLE", "1")
            .env("PEAL_TEST_SERVERS", test_servers);
        run(mpi.args([
            "test",
            "--package",
            "peal-tests",
            "--test",
            "jobs",
            "--",
            "mpi::",
            "--test-threads",
            "1",
        ]))?;
        println!("\n== property tests, {CASES} cases each, seed {seed}");
        let mut properties = cargo(root);
        properties
            .env("PROPTEST_CASES", CASES.to_string())
            .env("PROPTEST_RNG_SEED", seed.to_string());
        run(properties.args([
            "test",
            "--package",
            "peal-wire",
            "--package",
            "peal-core",
            "--package",
            "peal-cluster",
        ]))?;
        println!("\nnothing found; seed {seed}");
        Ok(())
    }
}

/// Runs the tests of this name with as many events as a soak has.
fn flood(root: &Path, programs: &Path, tests: &str) -> Result<()> {
    run(cargo(root)
        .env("PEAL_FLOOD", FLOOD.to_string())
        .env("PEAL_C_PROGRAMS", programs)
        .args(["test", "--package", "peal-tests", "--test", "events"])
        .args(["--", "--nocapture", tests]))
}
