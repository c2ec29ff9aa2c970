//! `cargo xtask test`: sets up what the tests need and runs them.
use crate::{
    c_programs,
    command::{self, cargo, step},
    graphs, guests,
    ignored::Ignored,
    needs, peers,
};
use anyhow::Result;
use std::{path::Path, process::Command, time::Instant};

/// Runs everything; with arguments, the tests of the host with those.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let components = step("guests", || guests::build(root))?;
    let programs = step("C programs", || c_programs::build(root))?;
    step("programs of others", || {
        provide("chromium-headless-shell", &["chromium-headless-shell", "chromium"]);
        provide("libpmix-bin", &["pattrs"]);
        Ok(())
    })?;
    let peers = step("peers", || peers::get(root))?;
    step("what tests need", || needs::record(root))?;
    if args.is_empty() {
        step("tests of the SDK and the guests", || {
            command::run(guests::cargo_on_host(root).args(["test", "--quiet", "--workspace"]))
        })?;
    }
    step("programs", || graphs::build_programs(root))?;
    let ignored = step("tests of the host", || {
        let mut tests = cargo(root);
        // One run tells of all that fails.
        tests
            .args(["test", "--workspace", "--no-fail-fast"])
            .args(args)
            .env("PEAL_GUESTS", &components)
            .env("PEAL_PEERS", &peers);
        match &programs {
            Some(programs) => tests.env("PEAL_C_PROGRAMS", programs),
            None => tests.env_remove("PEAL_C_PROGRAMS"),
        };
        Ignored::count(&mut tests)
    })?;
    println!("\n{ignored}\nall others passed in {} s", start.elapsed().as_secs());
    Ok(())
}

/// A package that has one of these programs. Without it the tests that need one are ignored.
fn provide(package: &str, programs: &[&str]) {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success());
    if programs.iter().any(is_there) {
        return;
    }
    let installed = peal_build::apt_is_available()
        && peal_build::apt_install(&[package], &mut |words| println!("{words}"))
            .inspect_err(|error| println!("not installed: {error}"))
            .is_ok();
    if !installed {
        println!("not available: install {package}");
    }
}
