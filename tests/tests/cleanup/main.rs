//! Removal of the files that procs registered, after the end of the procs. The jobs are started by
//! the host environment or adopted by it. This is a program of its own: a host environment that starts
//! jobs adopts all children of its process, and would end those that other tests have started.
use peal_client::{CleanupRequest, Control};
use peal_core::choice::ControlGroups;
use peal_core::{
    job::JobSpec,
    job_control::{Cleanup, Depth, JobAction, JobControl, Subdirectories, TopDirectory},
};
use peal_launcher::{AppRequest, EmbeddedHostEnvironment, JobOptions, JobRequest};
use peal_model::{Nspace, Proc, Rank, UserIdentity, code};
use peal_server::{
    HostEnvironment, InProcessNetwork, Notices, ServerSettings, admin::JobRegistrar,
};
use peal_tests::{
    in_process::{Node, soon},
    until,
};
use rustix::process::{getegid, geteuid};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

fn me() -> UserIdentity {
    UserIdentity {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    }
}

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

fn behind(procs: &[Proc], files: &[&Path], directories: &[&Path]) -> Cleanup {
    let paths = |paths: &[&Path]| {
        paths
            .iter()
            .map(|path| path.to_path_buf())
            .collect::<BTreeSet<PathBuf>>()
    };
    Cleanup {
        procs: procs.to_vec(),
        files: paths(files),
        directories: paths(directories),
        depth: Depth::Recursive,
        subdirectories: Subdirectories::All,
        top: TopDirectory::Remove,
        ignored: BTreeSet::new(),
    }
}

#[tokio::test]
async fn adopted_job_is_cleaned_up_at_disconnection_or_its_removal() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    ["first", "second", "both"]
        .iter()
        .for_each(|name| fs::write(at(name), "").unwrap());
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let UserIdentity { uid, gid } = me();
    let job = Nspace::new("adopted").unwrap();
    host.adopt(&JobSpec::new(
        job.clone(),
        2,
        "node",
        UserIdentity { uid, gid },
    ));
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "adopted",
        2,
    )
    .await;
    let one = node.client(0).await;
    let other = node.client(1).await;
    let procs = [one.me().clone(), other.me().clone()];
    let register = |procs: &[Proc], name: &str| {
        host.register_cleanup(procs[0].clone(), me(), behind(procs, &[&at(name)], &[]))
    };
    register(&procs[..1], "first").await.unwrap();
    register(&procs[1..], "second").await.unwrap();
    register(&procs, "both").await.unwrap();
    let unknown = behind(&[proc("unknown", 0)], &[&at("both")], &[]);
    assert_eq!(
        host.register_cleanup(procs[0].clone(), me(), unknown).await,
        Err(code::PMIX_ERR_NOT_FOUND)
    );
    let conflicting = behind(&procs, &[], &[&at("both")]);
    let conflict = Err(code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES);
    assert_eq!(
        host.register_cleanup(procs[0].clone(), me(), conflicting)
            .await,
        conflict
    );

    soon("it leaves", one.finalize()).await.unwrap();
    soon("its registered files are gone", async {
        while at("first").exists() {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert!(at("second").exists() && at("both").exists());
    host.release(&job);
    soon("all is gone", async {
        while at("second").exists() || at("both").exists() {
            tokio::task::yield_now().await
        }
    })
    .await;
}

#[tokio::test]
async fn paths_that_a_client_registers_are_all_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let files = ["1", "2", "3"].map(at);
    let directories = ["4", "5", "6"].map(at);
    files.iter().for_each(|path| fs::write(path, "").unwrap());
    directories
        .iter()
        .for_each(|path| fs::create_dir(path).unwrap());
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    host.adopt(&JobSpec::new(
        Nspace::new("adopted").unwrap(),
        1,
        "node",
        me(),
    ));
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "adopted",
        1,
    )
    .await;
    let client = node.client(0).await;
    let request = |files: Vec<PathBuf>| CleanupRequest {
        files,
        directories: directories.to_vec(),
        ..Default::default()
    };
    let refused = client
        .control(&[], Control::Cleanup(request(vec![at("a,b")])))
        .await
        .unwrap_err();
    assert_eq!(
        refused.status(),
        code::PMIX_ERR_BAD_PARAM,
        "a comma would make two paths of it: {refused}"
    );
    client
        .control(&[], Control::Cleanup(request(files.to_vec())))
        .await
        .unwrap();
    soon("it leaves", client.finalize()).await.unwrap();
    soon("all of it is gone", async {
        while fs::read_dir(dir.path()).unwrap().count() > 0 {
            tokio::task::yield_now().await
        }
    })
    .await;
}

/// The only test of this process that starts processes.
#[tokio::test(flavor = "multi_thread")]
async fn launched_job_is_cleaned_up_at_exit_but_not_at_restart() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("shared/sub")).unwrap();
    fs::write(at("own"), "").unwrap();
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "other",
        1,
    )
    .await;
    let script = "echo > shared/sub/$PMIX_RANK; echo $PEAL_CHECKPOINT >> started-$PMIX_RANK; \
                  until [ -e go-$PMIX_RANK ]; do sleep 0.01; done";
    let args = [
        "-c".into(),
        format!("cd {} && {script}", dir.path().display()).into(),
    ];
    let keeping = JobOptions {
        control_groups: ControlGroups::Off,
        ..JobOptions::default()
    };
    let request = JobRequest {
        options: keeping,
        ..JobRequest::new(
            Nspace::new("started").unwrap(),
            AppRequest::new("sh", args.into(), 3),
            "node",
        )
    };
    host.serve(node.server.handle());
    host.launch_at(&node.server.uri().to_string());
    let mut job = host.launch(request).await.unwrap();
    let procs = [proc("started", 0), proc("started", 1)];
    let started = |rank: u32| {
        fs::read_to_string(at(&format!("started-{rank}")))
            .unwrap_or_default()
            .lines()
            .count()
    };
    until("all run", || (0..3).all(|rank| started(rank) == 1));
    host.register_cleanup(
        procs[0].clone(),
        me(),
        behind(&procs, &[], &[&at("shared")]),
    )
    .await
    .unwrap();
    host.register_cleanup(
        procs[0].clone(),
        me(),
        behind(&procs[..1], &[&at("own")], &[]),
    )
    .await
    .unwrap();

    let killed = proc("started", 2);
    fs::write(at("killed"), "").unwrap();
    host.register_cleanup(
        killed.clone(),
        me(),
        behind(std::slice::from_ref(&killed), &[&at("killed")], &[]),
    )
    .await
    .unwrap();
    let kill = JobControl {
        action: JobAction::Kill,
        targets: vec![killed],
        directives: Vec::new(),
    };
    assert_eq!(
        soon(
            "it is killed",
            host.job_control(Some(procs[0].clone()), kill)
        )
        .await
        .unwrap(),
        vec![]
    );
    until("its registered files are gone", || !at("killed").exists());
    assert!(
        at("own").exists() && at("shared/sub/2").exists(),
        "the others go on"
    );

    let again = JobControl {
        action: JobAction::Restart {
            checkpoint: Some("one".to_owned()),
        },
        targets: procs[..1].to_vec(),
        directives: Vec::new(),
    };
    let done = soon(
        "it starts again",
        host.job_control(Some(procs[1].clone()), again),
    )
    .await
    .unwrap();
    assert_eq!(done, vec![]);
    until("it runs again", || started(0) == 2);
    assert_eq!(fs::read_to_string(at("started-0")).unwrap(), "\none\n");
    assert!(at("own").exists(), "a restarted proc has not ended");

    fs::write(at("go-0"), "").unwrap();
    until("the proc's own files are gone", || !at("own").exists());
    assert!(
        at("shared/sub/0").exists(),
        "the other one may still need it"
    );
    fs::write(at("go-1"), "").unwrap();
    assert_eq!(soon("the job ends", job.ended()).await.exit_status, 0);
    assert!(!at("shared").exists(), "it is gone when the job is");
    assert!(at("started-0").exists());
}
