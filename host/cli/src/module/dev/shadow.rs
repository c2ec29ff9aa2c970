//! Component of a project as a shadow at a running server: its file in a directory of modules.
use crate::{
    args::ServerArgs,
    module::{deployed, sign::replace},
};
use anyhow::{Context, Result, bail};
use peal_sandbox::Digest;
use peal_server::admin::ModuleStatus;
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Longest wait for the server to take a component.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two questions to the server.
const PAUSE: Duration = Duration::from_millis(100);

/// Installed shadow. Its files are removed when this is dropped, if they were created for it.
pub struct Shadow {
    component: PathBuf,
    settings: PathBuf,
    name: String,
    server: ServerArgs,
    origin: SettingsOrigin,
}

/// Origin of the settings beside the component.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingsOrigin {
    /// They are the author's, and stay.
    Author,
    /// They were written here.
    Written,
}

impl Shadow {
    /// Prepares the directory of modules for a component of this name.
    ///
    /// # Errors
    ///
    /// Fails if the directory has settings for a module of this name that is no shadow.
    pub fn prepare(directory: &Path, name: &str, server: ServerArgs) -> Result<Shadow> {
        let settings = directory.join(format!("{name}.toml"));
        let component = directory.join(format!("{name}.wasm"));
        let origin = match fs::read_to_string(&settings) {
            Ok(text) => {
                let table: toml::Table = text
                    .parse()
                    .with_context(|| settings.display().to_string())?;
                if table.get("mode").and_then(toml::Value::as_str) != Some("shadow") {
                    bail!(
                        "{} is of a module in force: set mode = \"shadow\" there, or name another directory",
                        settings.display()
                    );
                }
                SettingsOrigin::Author
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => SettingsOrigin::Written,
            Err(error) => return Err(error).with_context(|| settings.display().to_string()),
        };
        Ok(Shadow {
            component,
            settings,
            name: name.to_owned(),
            server,
            origin,
        })
    }

    /// Installs a component, and waits until the server has taken or refused it. Returns its state there.
    ///
    /// # Errors
    ///
    /// Fails if the files cannot be written, or the server does not answer.
    pub fn install(&self, bytes: &[u8]) -> Result<String> {
        replace(&self.component, bytes)?;
        if self.origin == SettingsOrigin::Written {
            let file = self.component.file_name().unwrap_or_default();
            let text = format!(
                "name = {:?}\npath = {:?}\nmode = \"shadow\"\n",
                self.name,
                file.to_string_lossy()
            );
            replace(&self.settings, text.as_bytes())?;
        }
        let digest = Digest::of(bytes).to_string();
        let since = Instant::now();
        loop {
            let list = deployed::modules(self.server.clone())?;
            // A user's module has the user's number before its name.
            let is_own =
                |name: &str| name == self.name || name.ends_with(&format!("/{}", self.name));
            let mut own = list.modules.iter().filter(|module| is_own(&module.name));
            if let Some(module) = own.find(|module| module.sha256 == digest) {
                return Ok(state(module));
            }
            let mut refused = list.refused.iter().map(ToString::to_string);
            if let Some(refused) = refused.find(|text| text.contains(&self.name)) {
                return Ok(format!("refused: {refused}"));
            }
            if since.elapsed() > PATIENCE {
                bail!(
                    "the server has not taken {} within {PATIENCE:?}: is {} a directory of modules that it watches?",
                    self.component.display(),
                    self.component.parent().unwrap_or(Path::new(".")).display()
                );
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if self.origin == SettingsOrigin::Written {
            // Settings first: a server that looks between the two misses no component. They may not be
            // there yet.
            let _ = fs::remove_file(&self.settings);
            let _ = fs::remove_file(&self.component);
        }
    }
}

fn state(module: &ModuleStatus) -> String {
    match &module.failure {
        Some(failure) => format!("{}; the last failure: {failure}", module.state),
        None => module.state.to_string(),
    }
}
