//! C library `libpmix.so.2` that programs load: Peal's, that of OpenPMIx, or none.
use super::Finding;
use rustix::process::geteuid;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Name by which programs load the library.
const SONAME: &str = "libpmix.so.2";

/// Program that is there on all systems, with which the loader is asked for the library alone.
const ANY_PROGRAM: &str = "/bin/true";

/// Loaders of the C library of GNU: processor and path.
const LOADERS: [(&str, &str); 2] = [
    ("x86_64", "/lib64/ld-linux-x86-64.so.2"),
    ("aarch64", "/lib/ld-linux-aarch64.so.1"),
];

/// Beginning of the version that both libraries have in them (`PMIx_Get_version`).
const MARK: &[u8] = b"OpenPMIx ";

/// Largest library that is read, in bytes.
const MAX_LIBRARY: u64 = 64 << 20;

/// Longest version that is shown, in bytes.
const MAX_VERSION: usize = 60;

/// Examines the library that these programs load, or any program if there are none.
pub fn examine(programs: &[PathBuf]) -> Vec<Finding> {
    let mut loaders = LOADERS.iter();
    let loader = loaders.find(|(processor, _)| *processor == std::env::consts::ARCH);
    let Some((_, loader)) = loader.filter(|(_, path)| Path::new(path).exists()) else {
        return vec![Finding::skipped("the loader of this system is not known")];
    };
    if programs.is_empty() {
        return vec![of_any(loader)];
    }
    programs.iter().map(|program| of(loader, program)).collect()
}

fn of_any(loader: &str) -> Finding {
    let mut command = Command::new(loader);
    command.args(["--preload", SONAME, "--list", ANY_PROGRAM]);
    match loaded(&mut command) {
        Ok(Some(library)) => described("programs load ", &library),
        // The loader ignores what it cannot load before others.
        Ok(None) | Err(_) => Finding::skipped(format!(
            "programs find no {SONAME} without a path of their own; Peal's own clients need none"
        )),
    }
}

fn of(loader: &str, program: &Path) -> Finding {
    let shown = program.display();
    let advice = "Give the path of an executable file for this system.";
    let path = match fs::canonicalize(program) {
        Ok(path) => path,
        Err(error) => return Finding::failed(format!("{shown}: {error}"), advice),
    };
    // The loader runs code that a program may name (DT_AUDIT).
    match fs::metadata(&path).map(|found| found.uid()) {
        Ok(owner) if owner == 0 || owner == geteuid().as_raw() => {}
        Ok(owner) => {
            let owner = crate::users::shown(owner);
            return Finding::skipped(format!(
                "{shown} belongs to user {owner}, who can examine it: the loader would run code of the program"
            ));
        }
        Err(error) => return Finding::failed(format!("{shown}: {error}"), advice),
    }
    match loaded(Command::new(loader).arg("--list").arg(path)) {
        Ok(Some(library)) => described(&format!("{shown} loads "), &library),
        Ok(None) => Finding::skipped(format!(
            "{shown} is not linked with {SONAME}; it may load the library later"
        )),
        Err(error) => Finding::failed(format!("{shown}: {error}"), advice),
    }
}

/// Returns the path of the library in a list of the loader.
fn loaded(command: &mut Command) -> io::Result<Option<PathBuf>> {
    let said = command.output()?;
    let list = String::from_utf8_lossy(&said.stdout);
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(io::Error::other(why.trim().to_owned()));
    }
    Ok(path_in(&list))
}

/// Returns the path in a line such as `libpmix.so.2 => /usr/lib/libpmix.so.2 (0x00007f)`. A library that
/// is loaded before others has its own path as its name.
fn path_in(list: &str) -> Option<PathBuf> {
    list.lines().find_map(|line| {
        let (name, rest) = line.trim().split_once(' ')?;
        let target = rest.strip_prefix("=> ").unwrap_or(name);
        let target = target.split(" (0x").next()?;
        let path = Path::new(target);
        let is_it = name == SONAME || path.file_name()?.to_str()?.starts_with(SONAME);
        (is_it && target.contains('/')).then(|| path.to_owned())
    })
}

fn described(prefix: &str, library: &Path) -> Finding {
    let real = fs::canonicalize(library).unwrap_or_else(|_| library.to_owned());
    let version = match read_bounded(&real).map(|bytes| version_in(&bytes)) {
        Ok(Some(version)) => version,
        Ok(None) => "of unknown version".to_owned(),
        Err(error) => {
            return Finding::failed(
                format!("{prefix}{}: {error}", real.display()),
                "Make the library readable for all users.",
            );
        }
    };
    Finding::ok(format!("{prefix}{} ({version})", real.display()))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_LIBRARY)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the version that a library has in it, up to the list of standards.
fn version_in(library: &[u8]) -> Option<String> {
    let mut windows = library.windows(MARK.len()).enumerate();
    windows.find_map(|(start, window)| {
        let text = (window == MARK).then(|| library.get(start..))??;
        let is_end =
            |byte: &u8| *byte == 0 || *byte == b'(' || !(byte.is_ascii_graphic() || *byte == b' ');
        let end = text.iter().take(MAX_VERSION).position(is_end)?;
        let version = str::from_utf8(text.get(..end)?)
            .ok()?
            .trim_end_matches([' ', ',']);
        // Other texts of the library begin with the name, too.
        let has_number = version
            .get(MARK.len()..)?
            .starts_with(|first: char| first.is_ascii_digit());
        has_number.then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_is_found_in_the_list_of_the_loader() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                    \tlibpmix.so.2 => /usr/lib/x86_64-linux-gnu/libpmix.so.2 (0x00007f10)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)\n";
        let found = path_in(list).unwrap();
        assert_eq!(found, Path::new("/usr/lib/x86_64-linux-gnu/libpmix.so.2"));
        let before = "\t/opt/peal/libpmix.so.2 (0x00007f10)\n";
        assert_eq!(
            path_in(before).unwrap(),
            Path::new("/opt/peal/libpmix.so.2")
        );
        assert_eq!(path_in("\tlibpmix.so.2 => not found\n"), None);
        assert_eq!(path_in("\tstatically linked\n"), None);
    }

    #[test]
    fn version_is_read_up_to_the_standards() {
        let library = b"\0OpenPMIx is\0OpenPMIx 4.2.2, Peal 0.1.0 (PMIx Standard: 4.2)\0";
        assert_eq!(version_in(library).unwrap(), "OpenPMIx 4.2.2, Peal 0.1.0");
        let other = b"OpenPMIx 5.0.3, repo rev: v5.0.3 (PMIx Standard: 5.0)\0";
        assert_eq!(
            version_in(other).unwrap(),
            "OpenPMIx 5.0.3, repo rev: v5.0.3"
        );
        assert_eq!(version_in(b"nothing"), None);
    }
}
