//! Time to register a job at a server, alone and while it compiles large components of a user.
use super::{arm::Values, launch::Scratch, programs::Programs, served::ServerDirectory};
use anyhow::{Context, Result, ensure};
use std::{fs, os::unix::fs::chown, path::Path, time::Instant};

/// Components that a user installs meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Installed {
    /// None.
    Nothing,
    /// Several large components, which are not compiled yet.
    LargeComponents,
}

/// Number of large components.
const COMPONENTS: u8 = 6;

/// Largest component that ships with Peal: an interpreter of Python, some 18 MB.
const LARGE: &str = "echo-python.wasm";

/// User that installs if root runs the server.
const USER: u32 = 65_531;

/// Measures the median time of this number of registrations, in milliseconds.
pub fn time(programs: &Programs, installed: Installed, count: u32) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let below = directory.path("users");
    let own = directory.path("users/own");
    fs::create_dir_all(&own)?;
    give(&own)?;
    let mut server = directory.start(&format!(
        "[deploy]\ndebounce_ms = 10\nuser_modules_dir = {below:?}\n"
    ))?;
    let is_compiling = || -> Result<bool> { Ok(directory.ask(&["status"])?.contains("compiling")) };
    if installed == Installed::LargeComponents {
        install(&programs.components.join(LARGE), &own)?;
        server.until("components are compiled", || {
            Ok(is_compiling()?.then_some(()))
        })?;
    }
    let mut times = Vec::new();
    for number in 0..count {
        let began = Instant::now();
        directory.ask(&["job", "register", &format!("job-{number}"), "-n", "1"])?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    ensure!(
        installed == Installed::Nothing || is_compiling()?,
        "all was compiled before the last job was registered"
    );
    directory.stop(server)?;
    times.sort_by(f64::total_cmp);
    let median = times
        .get(times.len() / 2)
        .context("nothing was registered")?;
    Ok(vec![("ms".to_owned(), *median)])
}

/// Installs a component several times, each with another empty custom section at its end, so that
/// all are compiled.
fn install(component: &Path, own: &Path) -> Result<()> {
    let component =
        fs::read(component).with_context(|| format!("reading {}", component.display()))?;
    for number in 0..COMPONENTS {
        let name = own.join(format!("large{number}"));
        let bytes = [component.as_slice(), &[0, 2, 1, b'0' + number]].concat();
        put(&name.with_extension("wasm"), &bytes)?;
        let toml = format!(
            "name = \"large{number}\"\npath = \"large{number}.wasm\"\ngrants = [\"logging\"]\n"
        );
        put(&name.with_extension("toml"), toml.as_bytes())?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    give(&new)?;
    Ok(fs::rename(new, path)?)
}

/// Gives a file to the user: modules of root belong into the configuration.
fn give(path: &Path) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(USER), None)?;
    }
    Ok(())
}
