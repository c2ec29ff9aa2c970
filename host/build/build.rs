//! Bundles the SDKs and the contract into the crate, as a table of paths and contents.
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Bundled directories, below the root of the repository.
const CARRIED: [&str; 7] = [
    "sdk/rust",
    "sdk/c",
    "sdk/cpp",
    "sdk/go",
    "sdk/python",
    "sdk/js",
    "wit",
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..").canonicalize()?;
    let mut files = Vec::new();
    for dir in CARRIED {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
        collect(&root.join(dir), &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut table = String::from("&[\n");
    for (at, file) in files.iter().enumerate() {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        // A copy, since checkouts may share build output, and this one may be gone when it is used.
        let copy = format!("carried-{at}");
        // Written anew: copying into a file that other checkouts share by a hard link changes
        // theirs.
        match fs::remove_file(out.join(&copy)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::copy(file, out.join(&copy))?,
        };
        table += &format!("    ({name:?}, include_str!({copy:?})),\n");
    }
    table += "]\n";
    fs::write(out.join("carried.rs"), table)
}

/// Collects the files below a directory, except for those that tools leave there.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !["target", "__pycache__", "node_modules"].contains(&name.as_str()) {
                collect(&path, files)?;
            }
        } else if name != "Cargo.lock" {
            files.push(path);
        }
    }
    Ok(())
}
