//! `cargo xtask demo`: a small job under Peal, whose events are handled by sandboxed components.
use crate::{c_programs, graphs, guests, mpi};
use anyhow::{Context, Result, ensure};
use std::{path::Path, process::Command};

/// Scene of the demo.
struct DemoCommand<'a> {
    /// Text before the scene.
    intro: &'a str,
    /// Arguments of `peal`, as typed at the root of the repository.
    arguments: String,
    /// Expected exit status.
    status: i32,
}

impl DemoCommand<'_> {
    fn play(&self, root: &Path) -> Result<()> {
        println!("\n{}\n\n$ peal {}", self.intro, self.arguments);
        let mut peal = Command::new(root.join("target/debug/peal"));
        let status = peal
            .current_dir(root)
            .args(self.arguments.split(' '))
            .status()
            .context("starting peal")?;
        ensure!(
            status.code() == Some(self.status),
            "peal ended with {status}, and not with status {}",
            self.status
        );
        Ok(())
    }
}

/// Builds the programs, and runs one scene after the other.
pub fn run(root: &Path) -> Result<()> {
    if !root.join("target/debug/peal").exists() {
        println!(
            "Building peal and the WebAssembly engine that it embeds. On two cores the first build takes some eight minutes and\n\
             2 GB of disk; later ones take seconds."
        );
    }
    graphs::build_programs(root)?;
    // Only the components and programs of the scenes are built; the others are for the tests.
    guests::build_rust(root)?;
    let job = if c_programs::build_hello(root)? {
        c_job()
    } else {
        own_job()
    };

    let wasm = "target/guests";
    let scenes = [
        DemoCommand {
            intro: "Four processes start under Peal, exchange data and raise events. Each event passes a chain of two\n\
                    sandboxed handlers: `report` logs it, then `complete` ends the chain.",
            arguments: format!(
                "run -n 4 --events --handler {wasm}/report.wasm --handler {wasm}/complete.wasm -- {job}"
            ),
            status: 0,
        },
        DemoCommand {
            intro: "The same with a handler that fails. The failure is recorded, the chain goes on, and the job is not affected.",
            arguments: format!(
                "run -n 2 --events --handler {wasm}/trap.wasm --handler {wasm}/complete.wasm -- {job}"
            ),
            status: 0,
        },
        DemoCommand {
            intro: "A program logs a line and requests the end of another job. docs/demo.toml loads two components:\n\
                    `stdio` writes log requests, and `same-user` decides about job control and gives the reason of a denial.",
            arguments: "run -n 1 --config docs/demo.toml -- target/debug/peal-test-requests"
                .to_owned(),
            status: 0,
        },
        DemoCommand {
            intro: "One of three processes is killed. The site's component `restart` starts it again from its checkpoint\n\
                    (docs/demo-restart.toml). Meanwhile the others go on, and the job succeeds.",
            arguments: "run -n 3 --config docs/demo-restart.toml -- sh docs/demo-restart.sh"
                .to_owned(),
            status: 0,
        },
    ];
    scenes.iter().try_for_each(|scene| scene.play(root))?;
    match mpi::program(root)? {
        Some(_) => mpi_scenes().iter().try_for_each(|scene| scene.play(root)),
        None => {
            println!(
                "\nWith Open MPI (mpicc) installed, the demo also shows an MPI job of which a rank dies."
            );
            Ok(())
        }
    }
}

/// Returns the scenes of an MPI job of which a rank dies.
fn mpi_scenes() -> [DemoCommand<'static>; 2] {
    let attach =
        "target/debug/peal attach --handler target/guests/complete.wasm -- target/c/mpi die";
    [
        DemoCommand {
            intro: "An MPI job of four ranks, of which one is killed. The site's component `log-abort` receives that event, logs it by\n\
                    the channel `stdio`, and requests that the job continues (docs/demo-continue.toml): the others work for another second.\n\
                    Open MPI 4.1 itself aborts at such an event, so the handler `complete` before each rank withholds it.",
            arguments: format!("run -n 4 --config docs/demo-continue.toml -- {attach} 1"),
            // 128 + 9: the rank was killed by SIGKILL.
            status: 137,
        },
        DemoCommand {
            intro: "The same, but `log-abort` requests the end of the job (docs/demo-terminate.toml). `--on-abort continue` would let\n\
                    the others go on, but the site's handler decides: all ranks are ended.",
            arguments: format!(
                "run -n 4 --on-abort continue --config docs/demo-terminate.toml -- {attach} 60"
            ),
            status: 137,
        },
    ]
}

/// Returns the job's program: one in C, linked with the real `libpmix`.
fn c_job() -> String {
    let name = c_programs::HELLO;
    println!("\nThe job is tests/c/{name}.c, an ordinary C program linked with libpmix.");
    format!("target/c/{name}")
}

/// Returns the job's program without `libpmix`: one with Peal's own client.
fn own_job() -> String {
    println!(
        "\nThe job uses Peal's own client. One in C with the real libpmix is {}.",
        c_programs::NOT_AVAILABLE
    );
    "target/debug/peal-example".to_owned()
}
