//! Work done with the rights of another user, on a separate thread that has that user's
//! credentials.
use peal_model::UserIdentity;
use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};
use std::{io, thread};

/// Runs `work` with the uid and gid of `identity` and no supplementary groups, and waits for it.
/// The kernel permits access to files as it does for that user. Work for the own user runs on the
/// calling thread with unchanged credentials.
///
/// Blocks: must not be called on tokio's worker threads.
///
/// # Errors
/// No thread could be started, or this process may not switch to that user (`EPERM`, unless it is
/// root). `work` has not run then. A panic of `work` is an error, too.
pub fn run<T: Send>(identity: UserIdentity, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if identity.uid == geteuid().as_raw() {
        return Ok(work());
    }
    thread::scope(|scope| {
        let switched = move || {
            switch_user(identity)?;
            Ok(work())
        };
        // The thread ends with the work, so its former credentials are never restored.
        let thread = thread::Builder::new()
            .name("as-user".to_owned())
            .spawn_scoped(scope, switched)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("work run as another user panicked")))
    })
}

fn switch_user(UserIdentity { uid, gid }: UserIdentity) -> rustix::io::Result<()> {
    // The system calls take minus one as "leave unchanged".
    if uid == u32::MAX || gid == u32::MAX {
        return Err(rustix::io::Errno::INVAL);
    }
    set_thread_groups(&[])?;
    set_thread_res_gid(None, Gid::from_raw(gid), None)?;
    // Keep the real and the saved uid: a user may signal a thread that has the user's own uid in
    // either of them, and the signal would end the whole process.
    set_thread_res_uid(None, Uid::from_raw(uid), None)?;
    // The kernel drops effective capabilities by itself only when the effective uid was root's.
    let permitted = capabilities(None)?.permitted;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted,
            inheritable: none,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_needs::needs;
    use rustix::{process::getgroups, thread::gettid};
    use std::{
        fs,
        os::unix::{
            fs::{MetadataExt, PermissionsExt, chown},
            process::CommandExt,
        },
        process::Command,
        sync::mpsc,
    };

    const OTHER_USER: UserIdentity = UserIdentity {
        uid: 54_321,
        gid: 54_322,
    };

    #[needs(root)]
    #[test]
    fn files_are_opened_as_user_and_other_threads_stay_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let secret = dir.path().join("secret");
        let made = dir.path().join("made");
        fs::write(&secret, "").unwrap();
        // The group of the file is one of root's groups.
        chown(
            &secret,
            Some(0),
            getgroups().unwrap().first().map(|gid| gid.as_raw()),
        )
        .unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o660)).unwrap();
        let (read, owner) = run(OTHER_USER, || {
            fs::write(&made, "").unwrap();
            (
                fs::read(&secret),
                fs::metadata(&made).map(|made| (made.uid(), made.gid())),
            )
        })
        .unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(owner.unwrap(), (OTHER_USER.uid, OTHER_USER.gid));
        assert!(
            fs::read(&secret).is_ok(),
            "the calling thread has changed its user"
        );
    }

    #[needs(root)]
    #[test]
    fn user_cannot_end_thread_acting_for_it() {
        let ((tell, told), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
        thread::scope(|scope| {
            scope.spawn(|| {
                run(OTHER_USER, move || {
                    tell.send(gettid().as_raw_nonzero()).unwrap();
                    let _ = ended.recv();
                    assert!(
                        capabilities(None).unwrap().effective.is_empty(),
                        "the thread has effective capabilities"
                    );
                })
                .unwrap();
            });
            let thread = told.recv().unwrap();
            let signal = format!("kill -0 {thread}");
            let done = Command::new("sh")
                .args(["-c", &signal])
                .uid(OTHER_USER.uid)
                .gid(OTHER_USER.gid)
                .output();
            assert!(
                !done.unwrap().status.success(),
                "the user may signal the thread"
            );
            drop(end);
        });
    }

    #[needs(no_root)]
    #[test]
    fn other_users_are_out_of_reach_without_root() {
        assert_eq!(
            run(OTHER_USER, || ()).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn own_user_needs_no_switch_and_unknown_user_is_none() {
        let me = UserIdentity {
            uid: geteuid().as_raw(),
            gid: 9,
        };
        assert_eq!(run(me, || geteuid().as_raw()).unwrap(), me.uid);
        let unknown = UserIdentity {
            uid: u32::MAX,
            gid: 0,
        };
        assert_eq!(run(unknown, || ()).unwrap_err().raw_os_error(), Some(22));
    }
}
