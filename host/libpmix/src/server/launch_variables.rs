//! Environment variables of this process that the procs of an application need, as the C library's
//! components for programming models choose them.
use peal_model::{Envar, Info, Infos, KeyName, Text, Value, key};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Longest file of parameters that is read, in bytes. A longer one is left out.
const MAX_FILE: u64 = 1 << 20;

/// Prefix of the library's own parameters, which every application gets.
const LIBRARY: &str = "PMIX_MCA_";

/// Programming model with variables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgrammingModel {
    OpenMpi,
    OpenShmem,
}

impl ProgrammingModel {
    const ALL: [ProgrammingModel; 2] = [ProgrammingModel::OpenMpi, ProgrammingModel::OpenShmem];

    /// Returns true if a description names the model. Releases are parts of the name of Open MPI, as in
    /// `ompi5`.
    fn is_named(self, description: &str) -> bool {
        match self {
            ProgrammingModel::OpenMpi => description.contains("ompi"),
            ProgrammingModel::OpenShmem => description.split(',').any(|name| name == "oshmem"),
        }
    }

    /// Returns the prefixes of its variables.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            ProgrammingModel::OpenMpi => &["OMPI_"],
            ProgrammingModel::OpenShmem => &["SHMEM_", "SMA_"],
        }
    }
}

/// Environment of a process, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct LaunchEnvironment {
    variables: Vec<(Text, Text)>,
    /// Installation of Open MPI.
    installation: Option<PathBuf>,
    /// Home directory of the process's user.
    home: Option<PathBuf>,
    user: u32,
}

impl LaunchEnvironment {
    /// Reads the environment of this process.
    pub(super) fn of_this_process() -> LaunchEnvironment {
        // SAFETY: the call has no conditions.
        let user = unsafe { libc::geteuid() };
        LaunchEnvironment::new(std::env::vars_os(), user)
    }

    fn new(variables: impl Iterator<Item = (OsString, OsString)>, user: u32) -> LaunchEnvironment {
        let mut environment = LaunchEnvironment {
            user,
            ..LaunchEnvironment::default()
        };
        for (name, value) in variables {
            match name.as_bytes() {
                b"OMPIHOME" => environment.installation = Some(PathBuf::from(&value)),
                b"HOME" => environment.home = Some(PathBuf::from(&value)),
                _ => {}
            }
            let text = |text: &OsString| Text::from_bytes(text.as_bytes());
            environment.variables.push((text(&name), text(&value)));
        }
        environment
    }

    /// Returns the variables that an application with this description needs, each as a
    /// `PMIX_SET_ENVAR`.
    pub(super) fn for_application(&self, infos: &[Info]) -> Vec<Info> {
        let mut chosen = ChosenVariables::default();
        if infos.value_of(key::PMIX_SETUP_APP_ENVARS).is_some() {
            for model in ProgrammingModel::ALL {
                if names(infos, model) {
                    self.choose_for(model, infos, &mut chosen);
                }
            }
        }
        self.choose(&[LIBRARY], &mut chosen);
        chosen.into_infos()
    }

    fn choose_for(&self, model: ProgrammingModel, infos: &[Info], chosen: &mut ChosenVariables) {
        if model == ProgrammingModel::OpenMpi {
            if let Some(installation) = &self.installation {
                chosen.add_file(&installation.join("etc/openmpi-mca-params.conf"));
                chosen.set("OPAL_SYS_PARAMS_GIVEN".into(), "1".into());
            }
            let user = infos.value_of(key::PMIX_USERID).and_then(Value::as_u32);
            // A file of another user could be a link to one that the user may not read.
            if let Some(home) = &self.home
                && user.unwrap_or(self.user) == self.user
            {
                chosen.add_file(&home.join(".openmpi/mca-params.conf"));
                chosen.set("OPAL_USER_PARAMS_GIVEN".into(), "1".into());
            }
        }
        self.choose(model.prefixes(), chosen);
    }

    fn choose(&self, prefixes: &[&str], chosen: &mut ChosenVariables) {
        for (name, value) in &self.variables {
            let begins = |prefix: &&str| name.as_bytes().starts_with(prefix.as_bytes());
            if prefixes.iter().any(begins) {
                chosen.set(name.clone(), value.clone());
            }
        }
    }
}

/// Returns true if a description names Open MPI.
pub(super) fn names_open_mpi(infos: &[Info]) -> bool {
    names(infos, ProgrammingModel::OpenMpi)
}

/// Returns true if a description of an application names a programming model.
fn names(infos: &[Info], model: ProgrammingModel) -> bool {
    let keys: [KeyName; 2] = [key::PMIX_PROGRAMMING_MODEL, key::PMIX_PERSONALITY];
    infos
        .iter()
        .filter(|info| keys.iter().any(|key| info.key == *key))
        .filter_map(|info| info.value.as_str())
        .any(|description| model.is_named(description))
}

/// Variables in the order in which they were chosen. A later value replaces an earlier one.
#[derive(Debug, Default)]
struct ChosenVariables {
    order: Vec<Text>,
    values: BTreeMap<Text, Text>,
}

impl ChosenVariables {
    fn set(&mut self, name: Text, value: Text) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push(name);
        }
    }

    /// Adds the parameters of Open MPI in a file. One that cannot be read has none, as for Open MPI.
    fn add_file(&mut self, path: &Path) {
        let Some(text) = read(path) else { return };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            if let Some((name, value)) = line.split_once('=')
                && !name.trim().is_empty()
            {
                let name = format!("OMPI_MCA_{}", name.trim());
                self.set(name.as_str().into(), value.trim().into());
            }
        }
    }

    fn into_infos(self) -> Vec<Info> {
        let ChosenVariables { order, mut values } = self;
        let infos = order.into_iter().map(|name| {
            let variable = Envar {
                value: values.remove(&name),
                name: Some(name),
                separator: b':',
            };
            Info::new(key::PMIX_SET_ENVAR, Value::Envar(Box::new(variable)))
        });
        infos.collect()
    }
}

fn read(path: &Path) -> Option<String> {
    // A file without an end, such as a device, must not be read.
    let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    if length > MAX_FILE {
        tracing::warn!(path = %path.display(), length, "file of parameters left out: too long");
        return None;
    }
    let mut text = String::new();
    let mut file = File::open(path).ok()?.take(MAX_FILE);
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::InfoFlags;

    fn chosen(environment: &LaunchEnvironment, infos: &[Info]) -> Vec<String> {
        let infos = environment.for_application(infos);
        let texts = infos.iter().map(|info| match &info.value {
            Value::Envar(variable) => {
                assert!(info.key == key::PMIX_SET_ENVAR && info.flags == InfoFlags::default());
                let text = |text: &Option<Text>| text.clone().unwrap().as_str().unwrap().to_owned();
                format!("{}={}", text(&variable.name), text(&variable.value))
            }
            other => panic!("{other:?} is no variable"),
        });
        texts.collect()
    }

    fn environment(variables: &[(&str, &str)]) -> LaunchEnvironment {
        let variables = variables.iter();
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        LaunchEnvironment::new(variables, 1000)
    }

    fn of_model(model: &str) -> [Info; 2] {
        [
            Info::new(key::PMIX_PERSONALITY, Value::string(model)),
            Info::new(key::PMIX_SETUP_APP_ENVARS, Value::Bool(true)),
        ]
    }

    #[test]
    fn each_programming_model_gets_its_own_variables() {
        let environment = environment(&[
            ("OMPI_MCA_btl", "tcp"),
            ("PMIX_MCA_gds", "hash"),
            ("SHMEM_DEBUG", "1"),
            ("SMA_SIZE", "2"),
            ("PATH", "/bin"),
        ]);
        let own = "PMIX_MCA_gds=hash";
        assert_eq!(chosen(&environment, &[]), [own]);
        assert_eq!(
            chosen(&environment, &of_model("ompi5")),
            ["OMPI_MCA_btl=tcp", own]
        );
        assert_eq!(
            chosen(&environment, &of_model("x,oshmem")),
            ["SHMEM_DEBUG=1", "SMA_SIZE=2", own]
        );
        let [model, _] = of_model("ompi");
        assert_eq!(chosen(&environment, &[model]), [own], "none were requested");
    }

    #[test]
    fn parameters_of_files_are_overridden_by_variables() {
        let place = tempfile::tempdir().unwrap();
        let (site, user) = (place.path().join("ompi"), place.path().join("home"));
        fs::create_dir_all(site.join("etc")).unwrap();
        fs::create_dir_all(user.join(".openmpi")).unwrap();
        let site_file = site.join("etc/openmpi-mca-params.conf");
        fs::write(site_file, "# of the site\nbtl = tcp # fast\nmca\npml=ob1\n").unwrap();
        fs::write(user.join(".openmpi/mca-params.conf"), "btl=self\n").unwrap();
        let environment = environment(&[
            ("OMPIHOME", site.to_str().unwrap()),
            ("HOME", user.to_str().unwrap()),
            ("OMPI_MCA_pml", "ucx"),
        ]);
        let mut infos = of_model("ompi").to_vec();
        let both = [
            "OMPI_MCA_btl=self",
            "OMPI_MCA_pml=ucx",
            "OPAL_SYS_PARAMS_GIVEN=1",
            "OPAL_USER_PARAMS_GIVEN=1",
        ];
        assert_eq!(chosen(&environment, &infos), both);
        // The file of another user is not read.
        infos.push(Info::new(key::PMIX_USERID, Value::Uint32(1001)));
        let site = [
            "OMPI_MCA_btl=tcp",
            "OMPI_MCA_pml=ucx",
            "OPAL_SYS_PARAMS_GIVEN=1",
        ];
        assert_eq!(chosen(&environment, &infos), site);
    }
}
