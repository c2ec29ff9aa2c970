//! Releases of `libpmix` in a lab: the one of the launcher's servers and the one of programs.
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Library of the launcher's PMIx servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerLibrary {
    /// The one that is installed on this machine.
    Stock,
    /// This file, `libpmix.so.2` of another project. It is mounted where the launcher looks.
    File(PathBuf),
}

/// Library of programs that the launcher starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientLibrary {
    /// The one that is installed on this machine.
    Stock,
    /// The one in this directory, by `LD_LIBRARY_PATH`.
    Directory(PathBuf),
    /// The one in this directory for ranks with odd numbers, and the installed one for the others.
    DirectoryOnOddRanks(PathBuf),
}

/// Libraries on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabLibraries {
    /// Library of the launcher's servers.
    pub server: ServerLibrary,
    /// Library of programs.
    pub client: ClientLibrary,
}

impl LabLibraries {
    /// The installed library on both sides.
    pub const STOCK: LabLibraries = LabLibraries {
        server: ServerLibrary::Stock,
        client: ClientLibrary::Stock,
    };
}

impl ClientLibrary {
    /// Returns words before a program that make it use this library. They undo a library path that the
    /// launcher was given.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let variable = |directory: &Path| {
            let mut variable = OsString::from("LD_LIBRARY_PATH=");
            variable.push(directory);
            variable
        };
        match self {
            ClientLibrary::Stock => ["env", "-u", "LD_LIBRARY_PATH"].map(OsString::from).into(),
            ClientLibrary::Directory(directory) => vec!["env".into(), variable(directory)],
            ClientLibrary::DirectoryOnOddRanks(directory) => {
                let script = "library=$1; shift; [ $((PMIX_RANK % 2)) = 1 ] || library=; \
                              exec env -u LD_LIBRARY_PATH ${library:+\"$library\"} \"$@\"";
                let mut words: Vec<OsString> =
                    ["sh", "-c", script, "sh"].map(OsString::from).into();
                words.push(variable(directory));
                words
            }
        }
    }
}
