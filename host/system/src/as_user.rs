//! What is done for somebody else with no more rights than they have: on a thread of its own, which the kernel takes for theirs.
use peal_model::UserIdentity;
use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};
use std::{io, thread};

/// Runs this as somebody, with their user and group and no other group, and waits for it; of what it does to files the kernel
/// allows what it allows them. What is ours already, it runs as we are.
///
/// An error means that it was not run: no thread could be had, or we may not become them (`EPERM`, unless we are root).
/// Blocks: not for tokio's own threads.
pub fn run<T: Send>(somebody: UserIdentity, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if somebody.uid == geteuid().as_raw() {
        return Ok(work());
    }
    thread::scope(|scope| {
        let switched = move || {
            become_somebody(somebody)?;
            Ok(work())
        };
        // The thread ends with the work, so nobody need become who we were.
        let thread = thread::Builder::new()
            .name("as-user".to_owned())
            .spawn_scoped(scope, switched)?;
        thread.join().unwrap_or_else(|_| {
            Err(io::Error::other(
                "what was run as somebody else has panicked",
            ))
        })
    })
}

fn become_somebody(UserIdentity { uid, gid }: UserIdentity) -> rustix::io::Result<()> {
    // Minus one stands for whoever it is now.
    if uid == u32::MAX || gid == u32::MAX {
        return Err(rustix::io::Errno::INVAL);
    }
    set_thread_groups(&[])?;
    set_thread_res_gid(None, Gid::from_raw(gid), None)?;
    // The real and the saved user stay ours: whoever is somebody's thread in those, may be killed by them, and we with it.
    set_thread_res_uid(None, Uid::from_raw(uid), None)?;
    // The kernel does that for root alone.
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

    const SOMEBODY: UserIdentity = UserIdentity {
        uid: 54_321,
        gid: 54_322,
    };

    #[needs(root)]
    #[test]
    fn files_are_opened_as_user_and_other_threads_stay_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (secret, made) = (dir.path().join("secret"), dir.path().join("made"));
        fs::write(&secret, "").unwrap();
        // Of the groups that root has, the file's is one.
        chown(
            &secret,
            Some(0),
            getgroups().unwrap().first().map(|gid| gid.as_raw()),
        )
        .unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o660)).unwrap();
        let (read, owner) = run(SOMEBODY, || {
            fs::write(&made, "").unwrap();
            (
                fs::read(&secret),
                fs::metadata(&made).map(|made| (made.uid(), made.gid())),
            )
        })
        .unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(owner.unwrap(), (SOMEBODY.uid, SOMEBODY.gid));
        assert!(fs::read(&secret).is_ok(), "we are who we were");
    }

    #[needs(root)]
    #[test]
    fn user_cannot_end_thread_acting_for_it() {
        let ((tell, told), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
        thread::scope(|scope| {
            scope.spawn(|| {
                run(SOMEBODY, move || {
                    tell.send(gettid().as_raw_nonzero()).unwrap();
                    let _ = ended.recv();
                    assert!(
                        capabilities(None).unwrap().effective.is_empty(),
                        "nothing is left of root's power"
                    );
                })
                .unwrap();
            });
            let thread = told.recv().unwrap();
            let signal = format!("kill -0 {thread}");
            let done = Command::new("sh")
                .args(["-c", &signal])
                .uid(SOMEBODY.uid)
                .gid(SOMEBODY.gid)
                .output();
            assert!(
                !done.unwrap().status.success(),
                "somebody may send the thread signals"
            );
            drop(end);
        });
    }

    #[needs(no_root)]
    #[test]
    fn other_users_are_out_of_reach_without_root() {
        assert_eq!(
            run(SOMEBODY, || ()).unwrap_err().kind(),
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
        let nobody = UserIdentity {
            uid: u32::MAX,
            gid: 0,
        };
        assert_eq!(run(nobody, || ()).unwrap_err().raw_os_error(), Some(22));
    }
}
