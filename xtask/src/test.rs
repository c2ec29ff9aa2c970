//! `cargo xtask prepare` and `cargo xtask test`: set up what the tests need, and run them.
use crate::{
    binaries, c_programs,
    command::{self, cargo, step},
    graphs, guests,
    ignored::Ignored,
    libpmix, needs, packages, test_servers,
};
use anyhow::{Result, ensure};
use std::{ffi::OsString, path::Path, process::Command, time::Instant};

/// Variables by which tests find the files that were built for them.
type Variables = Vec<(&'static str, OsString)>;

/// Builds and gets everything that the tests need, and records what this machine lacks. Afterwards
/// a bare `cargo test` works.
pub fn prepare(root: &Path) -> Result<()> {
    prepare_variables(root)?;
    println!(
        "\nprepared: `cargo test` runs the tests whose needs are met, and reports the others as ignored"
    );
    Ok(())
}

fn prepare_variables(root: &Path) -> Result<Variables> {
    let components = step("components", || guests::build(root))?;
    step("packages of the SDKs", || {
        packages::build(root).or_else(|error| {
            println!("not available: packages of the SDKs: {error:#}");
            Ok(())
        })
    })?;
    let programs = step("C programs", || c_programs::build(root))?;
    step("third-party programs", || {
        provide(
            "chromium-headless-shell",
            &["chromium-headless-shell", "chromium"],
        );
        provide("libpmix-bin", &["pattrs"]);
        provide("valgrind", &["valgrind"]);
        provide("iproute2", &["ip"]);
        provide("hwloc-nox", &["lstopo-no-graphics"]);
        // Releases differ in how they format.
        provide("clang-format-19", &["clang-format-19"]);
        Ok(())
    })?;
    let test_servers = step("test-servers", || test_servers::get(root))?;
    let mut variables = vec![
        ("PEAL_GUESTS", components.into_os_string()),
        ("PEAL_TEST_SERVERS", test_servers.into_os_string()),
    ];
    variables.extend(programs.map(|programs| ("PEAL_C_PROGRAMS", programs.into_os_string())));
    step("programs", || graphs::build_programs(root))?;
    step("Peal as the C library", || {
        libpmix::build(root, libpmix::LibraryProfile::Debug)
    })?;
    // This precedes the compilation of tests: the record decides which tests are ignored.
    step("needs of the tests", || needs::record(root))?;
    Ok(variables)
}

/// Runs all tests; with arguments, only the host's tests with these arguments.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let variables = prepare_variables(root)?;
    if !args.is_empty() {
        let ignored = step("tests of the host", || {
            // One run reports all failures.
            Ignored::count(
                cargo(root)
                    .args(["test", "--workspace", "--no-fail-fast"])
                    .args(args)
                    .envs(variables),
            )
        })?;
        tell_end(&ignored, start);
        return Ok(());
    }
    let binaries = step("tests of the host, compiled", || binaries::build(root))?;
    // Before the tests of the host: after them, cargo compiled all crates of the workspace once more for this.
    let mut ignored = step("examples in documentation", || {
        Ignored::count(cargo(root).args(["test", "--workspace", "--doc"]))
    })?;
    step("tests of the SDK and the guests", || {
        command::run(guests::cargo_on_host(root).args(["test", "--quiet", "--workspace"]))
    })?;
    ignored += step("tests of the host", || {
        binaries::run_all(root, binaries, &variables)
    })?;
    ensure!(
        !ignored.has_unrecorded_needs(),
        "tests were compiled before their needs were recorded\n{ignored}"
    );
    tell_end(&ignored, start);
    Ok(())
}

fn tell_end(ignored: &Ignored, start: Instant) {
    println!(
        "\n{ignored}\nall others passed in {} s",
        start.elapsed().as_secs()
    );
}

/// Installs a package that has one of these programs, if they are missing. Without it, the tests
/// that need one are ignored.
fn provide(package: &str, programs: &[&str]) {
    let is_there = |name: &&str| {
        Command::new(name)
            .arg(if *name == "ip" {
                "-Version"
            } else {
                "--version"
            })
            .output()
            .is_ok_and(|said| said.status.success())
    };
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
