//! How long a job takes to be registered at a server, alone and while it has large components of a user compiled.
use super::{
    arm::Values,
    launch::{Running, Scratch},
    programs::Programs,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// What a user has installed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Installed {
    /// Nothing.
    Nothing,
    /// Several large components, which are not compiled yet.
    LargeComponents,
}

/// How many large components.
const COMPONENTS: u8 = 6;

/// The largest component that ships with Peal: an interpreter of Python, some 18 MB.
const LARGE: &str = "echo-python.wasm";

/// Who installs where root runs the server.
const USER: u32 = 65_531;

/// A server with a directory in which a user installs modules.
struct Place<'a> {
    programs: &'a Programs,
    scratch: &'a Scratch,
}

/// The median time of so many registrations, in milliseconds.
pub fn time(programs: &Programs, installed: Installed, count: u32) -> Result<Values> {
    let scratch = Scratch::new()?;
    let place = Place { programs, scratch: &scratch };
    let mut server = place.start()?;
    if installed == Installed::LargeComponents {
        place.install()?;
        server.until("components are compiled", || Ok(place.is_compiling()?.then_some(())))?;
    }
    let mut times = Vec::new();
    for number in 0..count {
        let began = Instant::now();
        place.ask(&["job", "register", &format!("job-{number}"), "-n", "1"])?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    ensure!(
        installed == Installed::Nothing || place.is_compiling()?,
        "all was compiled before the last job was registered"
    );
    place.ask(&["stop", "--wait"])?;
    server.finish(&scratch)?;
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).context("nothing was registered")?;
    Ok(vec![("ms".to_owned(), *median)])
}

impl Place<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn start(&self) -> Result<Running> {
        let (below, own) = (self.path("users"), self.path("users/own"));
        fs::create_dir_all(&own)?;
        self.give(&own)?;
        let (config, cache) = (self.path("peal.toml"), self.path("cache"));
        let text = format!(
            "[deploy]\nsettle_ms = 10\nuser_dir = {below:?}\n[sandbox]\ncache_dir = {cache:?}\n[wall]\nmode = \"off\"\n"
        );
        fs::write(&config, text)?;
        let mut serve = Command::new(&self.programs.peal);
        serve.arg("serve").arg("--config").arg(config).arg("--socket").arg(self.socket()).env_remove("PEAL_LOG");
        let mut server = Running::start(serve, self.scratch)?;
        server.until("it serves", || Ok(self.command(&["status"]).output()?.status.success().then_some(())))?;
        Ok(server)
    }

    fn socket(&self) -> PathBuf {
        self.path("run/admin.sock")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.peal);
        command.args(args).env("PEAL_ADMIN_SOCKET", self.socket()).env_remove("PEAL_LOG");
        command
    }

    fn ask(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output()?;
        ensure!(output.status.success(), "peal {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn is_compiling(&self) -> Result<bool> {
        Ok(self.ask(&["status"])?.contains("compiling"))
    }

    /// The same component several times, with an empty custom section of another name at the end of each.
    fn install(&self) -> Result<()> {
        let component = self.programs.components.join(LARGE);
        let component = fs::read(&component).with_context(|| format!("reading {}", component.display()))?;
        for number in 0..COMPONENTS {
            let name = self.path(&format!("users/own/large{number}"));
            let bytes = [component.as_slice(), &[0, 2, 1, b'0' + number]].concat();
            self.put(&name.with_extension("wasm"), &bytes)?;
            let toml = format!("name = \"large{number}\"\npath = \"large{number}.wasm\"\ngrants = [\"logging\"]\n");
            self.put(&name.with_extension("toml"), toml.as_bytes())?;
        }
        Ok(())
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, bytes)?;
        self.give(&new)?;
        Ok(fs::rename(new, path)?)
    }

    /// Root's own modules belong into the configuration.
    fn give(&self, path: &Path) -> Result<()> {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(USER), None)?;
        }
        Ok(())
    }
}
