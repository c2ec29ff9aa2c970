//! Labs that stay when the command that started them ends, for work by hand. A file of the repository's target
//! directory has the first process of each.
use crate::{
    ClientLibrary, Lab, LabLibraries, LabSetup, MpirunLab, ServerLibrary, SlurmLab, SlurmSettings,
    lab::{LabLifetime, wait_until},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Launcher of a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabLauncher {
    /// Slurm with `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    Mpirun,
}

impl LabLauncher {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            LabLauncher::Slurm => "slurm",
            LabLauncher::Mpirun => "mpirun",
        }
    }
}

/// Record of a lab that stays until it is ended by hand.
#[derive(Debug)]
pub struct DetachedLab {
    record: PathBuf,
    launcher: LabLauncher,
}

impl DetachedLab {
    /// Returns the record of the lab of this launcher and name. The lab need not exist.
    pub fn new(directory: &Path, launcher: LabLauncher, name: &str) -> DetachedLab {
        DetachedLab {
            record: directory.join(format!("{}-{name}", launcher.name())),
            launcher,
        }
    }

    /// Starts the lab.
    ///
    /// # Errors
    ///
    /// Fails if it exists, or says which step failed.
    pub fn start(&self, setup: LabSetup, settings: &SlurmSettings) -> Result<()> {
        ensure!(
            self.pid().is_none(),
            "this lab is up; take it down first, or choose another --name"
        );
        let client = setup.libraries.client.clone();
        let server = setup.libraries.server.clone();
        let lab = match self.launcher {
            LabLauncher::Slurm => SlurmLab::start_for(setup, settings, LabLifetime::Unlimited)?.lab,
            LabLauncher::Mpirun => MpirunLab::start_for(setup, LabLifetime::Unlimited)?.lab,
        };
        let text = |path: Option<PathBuf>| path.unwrap_or_default().display().to_string();
        let client = text(match client {
            ClientLibrary::Stock => None,
            ClientLibrary::Directory(path) | ClientLibrary::DirectoryOnOddRanks(path) => Some(path),
        });
        let server = text(match server {
            ServerLibrary::Stock => None,
            ServerLibrary::File(path) => Some(path),
        });
        fs::write(lab.path("libraries"), format!("{server}\n{client}\n"))
            .context("writing the libraries of the lab")?;
        let pid = lab.keep();
        let parent = self.record.parent().unwrap_or(Path::new(""));
        let started = start_time(pid).context("the lab ended at once")?;
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&self.record, format!("{pid} {started}\n")))
            .with_context(|| format!("writing {}", self.record.display()))
    }

    /// Opens the running lab.
    ///
    /// # Errors
    ///
    /// Fails if it is not up.
    pub fn open(&self) -> Result<Lab> {
        let launcher = self.launcher.name();
        let pid = self.pid().with_context(|| {
            format!("the lab is not up: run `cargo xtask labs {launcher} up` first")
        })?;
        let lab = Lab::open(pid, LabSetup::new(1))?;
        let text = fs::read_to_string(lab.path("libraries"))
            .context("reading the libraries of the lab")?;
        let mut lines = text
            .lines()
            .map(|line| Some(line).filter(|line| !line.is_empty()));
        let mut next = || lines.next().flatten().map(PathBuf::from);
        let libraries = LabLibraries {
            server: next().map_or(ServerLibrary::Stock, ServerLibrary::File),
            client: next().map_or(ClientLibrary::Stock, ClientLibrary::Directory),
        };
        Lab::open(pid, LabSetup::new(1).with_libraries(libraries))
    }

    /// Ends the lab, and waits for its end. Returns false if it was not up.
    ///
    /// # Errors
    ///
    /// Fails if it does not end.
    pub fn end(&self) -> Result<bool> {
        let pid = self.pid();
        if let Some(pid) = pid {
            let started = start_time(pid);
            Lab::open(pid, LabSetup::new(1))?.end()?;
            wait_until("the lab ends", || {
                Ok((start_time(pid) == started && started.is_some())
                    .then(|| format!("process {pid} lives")))
            })?;
        }
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.record.display()))
            }
            _ => Ok(pid.is_some()),
        }
    }

    /// Returns the first process of the lab, if that very process still lives.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(&self.record).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        let pid = pid.parse().ok()?;
        (start_time(pid)? == started).then_some(pid)
    }
}

/// Returns the time at which a process started, in the kernel's units; `None` if it has ended.
fn start_time(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may have spaces. The state follows as the first word.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let is_zombie = words.next() == Some("Z");
    words.nth(18).filter(|_| !is_zombie).map(str::to_owned)
}
