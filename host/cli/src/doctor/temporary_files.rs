//! Directory of temporary files, by which programs and tools find a server.
use super::Finding;
use peal_config::Config;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    env, fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// Longest path of a Unix socket, in bytes (unix(7), without the final zero).
const MAX_SOCKET_PATH: usize = 107;

/// Permission bit of other users to write.
const OTHERS_WRITE: u32 = 0o002;

/// Permission bit by which users cannot remove each other's files.
const STICKY: u32 = 0o1000;

/// Examines the directory, and the length of the default socket.
pub fn examine(config: &Config) -> Vec<Finding> {
    let directory = env::temp_dir();
    let mut found = vec![finding(&directory)];
    let has_other_place = config.tools.session_dir.is_some();
    if directory != Path::new("/tmp") && !has_other_place {
        found.push(Finding::warning(
            format!("TMPDIR is {}, and programs look for the server there", directory.display()),
            "Programs with another TMPDIR do not find it: set PMIX_SYSTEM_TMPDIR for them, or unset TMPDIR.",
        ));
    }
    let socket = crate::admin::usual_socket();
    let length = socket.as_os_str().as_bytes().len();
    if config.admin.socket.is_none() && length > MAX_SOCKET_PATH {
        found.push(Finding::failed(
            format!("the path of the default admin socket has {length} bytes; {MAX_SOCKET_PATH} is the most"),
            "Set admin.socket, or XDG_RUNTIME_DIR or TMPDIR to a shorter path.",
        ));
    }
    found
}

fn finding(directory: &Path) -> Finding {
    let shown = directory.display();
    let advice = "Set TMPDIR to a directory that is there on all nodes, or unset it.";
    let metadata = match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => return Finding::failed(format!("{shown} is no directory"), advice),
        Err(error) => return Finding::failed(format!("{shown}: {error}"), advice),
    };
    let access = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = accessat(CWD, directory, access, AtFlags::EACCESS) {
        return Finding::failed(
            format!("this user cannot write {shown}: {error}"),
            format!("`chmod 1777 {shown}` opens it to all users"),
        );
    }
    let mode = metadata.mode();
    if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        return Finding::failed(
            format!("in {shown} users can replace each other's files, those of the server too"),
            format!("`chmod 1777 {shown}`"),
        );
    }
    Finding::ok(shown.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn directory_that_others_can_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let with_mode = |mode| {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            finding(directory.path())
        };
        assert_eq!(with_mode(0o1777).outcome, Outcome::Ok);
        assert_eq!(with_mode(0o700).outcome, Outcome::Ok);
        let open = with_mode(0o777);
        assert_eq!(open.outcome, Outcome::Failed);
        assert!(open.advice.unwrap().contains("chmod 1777"));
        let missing = finding(&directory.path().join("missing"));
        assert_eq!(missing.outcome, Outcome::Failed);
    }
}
