//! `cargo xtask demo`: a small job under Peal, with its events handled by sandboxed components.
use crate::{
    c_programs,
    command::{self, cargo},
    guests,
};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// One thing to look at.
struct Scene<'a> {
    /// What the newcomer is about to see.
    intro: &'a str,
    /// The arguments of `peal`, as typed from the root of the repository.
    args: &'a [&'a str],
}

/// Builds everything, then shows one scene after the other.
pub fn run(root: &Path) -> Result<()> {
    println!("building peal (first time: some minutes)");
    command::run(cargo(root).args(["build", "--quiet", "--package", "peal", "--package", "peal-tests", "--bins"]))?;
    guests::build(root)?;
    let programs = c_programs::build(root)?;
    let job = job(programs.map(|programs| programs.join("hello")));

    let report = "target/guests/report.wasm";
    let complete = "target/guests/complete.wasm";
    let trap = "target/guests/trap.wasm";
    let scenes = [
        Scene {
            intro: "Four processes start under Peal, exchange data and raise events. Each event passes a chain of two\n\
                    sandboxed handlers: `report` logs what it sees, `complete` then ends the chain.",
            args: &["run", "-n", "4", "--events", "--handler", report, "--handler", complete, "--", &job],
        },
        Scene {
            intro: "The same with a handler that fails. It is dropped, the chain goes on, and the job does not notice.",
            args: &["run", "-n", "2", "--events", "--handler", trap, "--handler", complete, "--", &job],
        },
        Scene {
            intro: "A program logs a line and asks for the end of a job that is not its own. docs/demo.toml puts two components in\n\
                    the way: `stdio` writes what is logged, and `same-user` decides who may control what, and says why not.",
            args: &["run", "-n", "1", "--config", "docs/demo.toml", "--", "target/debug/peal-asker"],
        },
    ];
    for scene in scenes {
        println!("\n{}\n\n$ peal {}", scene.intro, scene.args.join(" "));
        command::run(std::process::Command::new(root.join("target/debug/peal")).current_dir(root).args(scene.args))?;
    }
    Ok(())
}

/// The program to run: one in C, linked with the real `libpmix`, or else one that uses Peal's own client.
fn job(c_program: Option<PathBuf>) -> String {
    match c_program {
        Some(_) => {
            println!("\nThe job is tests/c/hello.c, an ordinary C program linked with libpmix.");
            "target/c/hello".to_owned()
        }
        None => {
            println!(
                "\nThe job uses Peal's own client. One in C with the real libpmix is {}.",
                c_programs::NOT_AVAILABLE
            );
            "target/debug/peal-example".to_owned()
        }
    }
}
