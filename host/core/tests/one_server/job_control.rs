//! Reads job-control requests: every directive of the RFC, right and wrong.
use peal_core::job_control::{
    CheckpointMethod, CheckpointOrder, Cleanup, Declaration, Depth, GRACE, JobAction,
    JobControlError, JobControlOperation, PREEMPT, ParsedJobControl, PreemptionOrder,
    RequestSelector, RequestedAction, Subdirectories, TopDirectory, read,
};
use peal_core::targets::JobRanks;
use peal_model::{
    DataArray, Info, InfoFlags, KeyName, Nspace, Proc, Rank, Status, Value, code, key, rank,
};
use std::{collections::BTreeSet, time::Duration};

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

fn all(job: &str) -> Proc {
    Proc::all(Nspace::new(job).unwrap())
}

/// Two jobs: "mine" with three procs and "other" with two.
fn ranks(nspace: &Nspace) -> Option<JobRanks> {
    let size = match nspace.as_str() {
        "mine" => 3,
        "other" => 2,
        _ => return None,
    };
    Some(JobRanks {
        local: (0..size).map(Rank).collect(),
        size: None,
    })
}

fn ask(targets: &[Proc], directives: Vec<Info>) -> Result<ParsedJobControl, JobControlError> {
    read(Some(&proc("mine", 1)), targets, directives, ranks)
}

fn action(directives: &[Info]) -> RequestedAction {
    ask(&[], directives.to_vec()).unwrap().action
}

fn yes(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

fn text(key: KeyName, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn number(key: KeyName, number: i32) -> Info {
    Info::new(key, Value::Int(number))
}

fn mine() -> Vec<Proc> {
    vec![proc("mine", 0), proc("mine", 1), proc("mine", 2)]
}

#[test]
fn each_action_by_its_directive() {
    for (directive, action) in [
        (yes(key::PMIX_JOB_CTRL_TERMINATE), JobAction::Terminate),
        (yes(key::PMIX_JOB_CTRL_KILL), JobAction::Kill),
        (yes(key::PMIX_JOB_CTRL_PAUSE), JobAction::Pause),
        (yes(key::PMIX_JOB_CTRL_RESUME), JobAction::Resume),
        (number(key::PMIX_JOB_CTRL_SIGNAL, 10), JobAction::Signal(10)),
        (
            Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::Uint8(64)),
            JobAction::Signal(64),
        ),
        (
            Info::new(key::PMIX_JOB_CTRL_KILL, Value::Undef),
            JobAction::Kill,
        ),
        (number(key::PMIX_JOB_CTRL_KILL, 1), JobAction::Kill),
        (text(key::PMIX_JOB_CTRL_KILL, "yes"), JobAction::Kill),
        (
            text(key::PMIX_JOB_CTRL_RESTART, "ck.1"),
            JobAction::Restart {
                checkpoint: Some("ck.1".to_owned()),
            },
        ),
        (
            text(key::PMIX_JOB_CTRL_RESTART, ""),
            JobAction::Restart { checkpoint: None },
        ),
        (
            Info::new(key::PMIX_JOB_CTRL_RESTART, Value::String(None)),
            JobAction::Restart { checkpoint: None },
        ),
    ] {
        let id = text(key::PMIX_JOB_CTRL_ID, "mine");
        let asked = ask(&[], vec![id, directive.clone()]).unwrap();
        let acts = JobControlOperation::Act(action);
        assert_eq!(operation(asked.action), (acts, mine()), "{directive:?}");
        assert_eq!(
            (asked.name.as_deref(), asked.directives.len()),
            (Some("mine"), 2),
            "hosts see all of them"
        );
    }
}

/// Returns the operation of a request, and its procs of this node.
fn operation(asked: RequestedAction) -> (JobControlOperation, Vec<Proc>) {
    match asked {
        RequestedAction::Operate { operation, targets } => (operation, targets.local),
        other => panic!("{other:?}"),
    }
}

#[test]
fn targets_none_procs_wildcards_and_several_jobs_each_proc_once() {
    let kill = |targets: &[Proc]| match ask(targets, vec![yes(key::PMIX_JOB_CTRL_KILL)])
        .unwrap()
        .action
    {
        RequestedAction::Operate { targets, .. } => targets.local,
        other => panic!("{other:?}"),
    };
    assert_eq!(kill(&[]), mine());
    assert_eq!(kill(&[all("mine"), proc("mine", 2)]), mine());
    let local = Proc::new(Nspace::new("other").unwrap(), rank::PMIX_RANK_LOCAL_PEERS);
    let both = kill(&[proc("mine", 2), local, proc("mine", 2)]);
    assert_eq!(both, [proc("mine", 2), proc("other", 0), proc("other", 1)]);
    let nobody = read(None, &[], vec![yes(key::PMIX_JOB_CTRL_KILL)], ranks).unwrap_err();
    assert_eq!(
        (nobody.clone(), nobody.status()),
        (JobControlError::NoTargets, code::PMIX_ERR_BAD_PARAM)
    );
}

#[test]
fn checkpoint_number_of_a_signal_is_the_signal_else_the_time() {
    let ckpt = text(key::PMIX_JOB_CTRL_CHECKPOINT, "ck");
    let two = key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL;
    assert_eq!(two, key::PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT);
    let event = number(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, -3500);
    let time = |seconds| Some(Duration::from_secs(seconds));
    let usr2 = Some(CheckpointMethod::Signal(12));
    for (more, method, timeout) in [
        (vec![], None, None),
        (
            vec![event.clone()],
            Some(CheckpointMethod::Event(Status(-3500))),
            None,
        ),
        (
            vec![yes(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT)],
            Some(CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT)),
            None,
        ),
        (vec![number(two, 12)], usr2, None),
        (vec![number(two, 65)], None, time(65)),
        (vec![number(two, 12), number(two, 30)], usr2, time(30)),
        (
            vec![event, number(two, 12)],
            Some(CheckpointMethod::Event(Status(-3500))),
            time(12),
        ),
        (
            vec![number(two, 12), number(key::PMIX_TIMEOUT, 7)],
            usr2,
            time(7),
        ),
    ] {
        let order = CheckpointOrder {
            checkpoint: "ck".to_owned(),
            method,
            timeout,
        };
        let asked = action(&[vec![ckpt.clone()], more.clone()].concat());
        let makes = JobControlOperation::Checkpoint(order);
        assert_eq!(operation(asked), (makes, mine()), "{more:?}");
    }
}

#[test]
fn requests_without_action_on_own_procs_are_parsed() {
    let methods = |infos: Vec<Info>| {
        Info::new(
            key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
            Value::DataArray(DataArray::infos(infos)),
        )
    };
    // As in the example of the RFC.
    let both = methods(vec![
        number(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, 12),
        Info::new(
            key::PMIX_JOB_CTRL_CHECKPOINT_EVENT,
            Value::Status(code::PMIX_JCTRL_CHECKPOINT),
        ),
    ]);
    let declared = vec![
        CheckpointMethod::Signal(12),
        CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT),
    ];
    let declaration = Declaration {
        preemptible: Some(true),
        methods: Some(declared),
    };
    let declares = RequestedAction::Declare {
        declaration,
        cleanup: None,
    };
    // Targets do not matter for it, not even such as do not exist.
    let asked = ask(
        &[proc("gone", 0)],
        vec![yes(key::PMIX_JOB_CTRL_PREEMPTIBLE), both],
    )
    .unwrap();
    assert_eq!(asked.action, declares);

    let cancel = |value| action(&[Info::new(key::PMIX_JOB_CTRL_CANCEL, value)]);
    assert_eq!(
        cancel(Value::string("ck")),
        RequestedAction::Cancel(RequestSelector::Named("ck".to_owned()))
    );
    assert_eq!(
        [cancel(Value::String(None)), cancel(Value::Undef)],
        [
            RequestedAction::Cancel(RequestSelector::All),
            RequestedAction::Cancel(RequestSelector::All)
        ]
    );

    let nodes = text(key::PMIX_JOB_CTRL_PROVISION, "node[01-16]");
    let image = text(key::PMIX_JOB_CTRL_PROVISION_IMAGE, "c7");
    let provision = |image: Option<&str>| RequestedAction::Provision {
        nodes: "node[01-16]".to_owned(),
        image: image.map(str::to_owned),
    };
    assert_eq!(action(std::slice::from_ref(&nodes)), provision(None));
    assert_eq!(action(&[nodes, image]), provision(Some("c7")));

    let preempt = action(&[text(PREEMPT, "pause"), number(GRACE, 5)]);
    let grace = Some(Duration::from_secs(5));
    let order = PreemptionOrder {
        action: JobAction::Pause,
        grace,
    };
    let preempts = JobControlOperation::Preempt(order);
    assert_eq!(operation(preempt), (preempts, mine()));
}

#[test]
fn cleanup_directives_are_parsed() {
    let files = key::PMIX_REGISTER_CLEANUP;
    let dirs = key::PMIX_REGISTER_CLEANUP_DIR;
    let plain = Cleanup {
        procs: mine(),
        files: ["/tmp/a", "/tmp/b"].map(Into::into).into(),
        directories: BTreeSet::new(),
        depth: Depth::Flat,
        subdirectories: Subdirectories::All,
        top: TopDirectory::Remove,
        ignored: BTreeSet::new(),
    };
    let cleanup = |directives: &[Info]| match action(directives) {
        RequestedAction::Declare {
            cleanup: Some(cleanup),
            ..
        } => cleanup,
        other => panic!("{other:?}"),
    };
    assert_eq!(cleanup(&[text(files, "/tmp/a,,/tmp/b")]), plain);
    let every = cleanup(&[
        text(dirs, "/tmp/d"),
        yes(key::PMIX_CLEANUP_RECURSIVE),
        yes(key::PMIX_CLEANUP_EMPTY),
        yes(key::PMIX_CLEANUP_LEAVE_TOPDIR),
        text(key::PMIX_CLEANUP_IGNORE, "keep,me"),
    ]);
    let files_of_none = BTreeSet::new();
    let directories = ["/tmp/d".into()].into();
    let depth = Depth::Recursive;
    let subdirectories = Subdirectories::OnlyEmpty;
    let top = TopDirectory::Leave;
    let ignored = ["keep", "me"].map(Into::into).into();
    let procs = mine();
    assert_eq!(
        every,
        Cleanup {
            procs,
            files: files_of_none,
            directories,
            depth,
            subdirectories,
            top,
            ignored
        }
    );
}

#[test]
fn cleanup_paths_of_several_directives_all_count() {
    let files = key::PMIX_REGISTER_CLEANUP;
    let dirs = key::PMIX_REGISTER_CLEANUP_DIR;
    let cleanup = |directives: Vec<Info>| match ask(&[], directives).map(|asked| asked.action) {
        Ok(RequestedAction::Declare {
            cleanup: Some(cleanup),
            ..
        }) => Ok(cleanup),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    let ignore = |names: &str| text(key::PMIX_CLEANUP_IGNORE, names);
    let each = [
        text(files, "/a"),
        text(dirs, "/d"),
        ignore("x"),
        text(files, "/b,/c"),
        text(dirs, "/e"),
        ignore("y"),
    ];
    let read = cleanup(each.to_vec()).unwrap();
    assert_eq!(read.files, ["/a", "/b", "/c"].map(Into::into).into());
    assert_eq!(read.directories, ["/d", "/e"].map(Into::into).into());
    assert_eq!(read.ignored, ["x", "y"].map(Into::into).into());

    let most = |count: u32| {
        (0..count)
            .map(|at| text(files, &format!("/tmp/{at}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(cleanup(most(65_536)).unwrap().files.len(), 65_536);
    let error = cleanup(most(65_537)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one request registers at most 65536"),
        "{error}"
    );
    // What contradicts itself does so in whichever of them it stands.
    let twice = cleanup(vec![text(files, "/a"), text(files, "/b"), text(dirs, "/a")]).unwrap_err();
    assert_eq!(
        twice.status(),
        code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES
    );
    let kept = cleanup(vec![text(dirs, "/a"), ignore("a"), ignore("b")]).unwrap_err();
    assert_eq!(kept.status(), code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES);
}

#[test]
fn invalid_requests_are_refused_with_reason() {
    let kill = yes(key::PMIX_JOB_CTRL_KILL);
    let term = yes(key::PMIX_JOB_CTRL_TERMINATE);
    let required = |key| Info {
        flags: InfoFlags::REQUIRED,
        ..yes(key)
    };
    let unknown = KeyName("site.own");
    let bad = code::PMIX_ERR_BAD_PARAM;
    let none = code::PMIX_ERR_NOT_FOUND;
    let signal = |number_of| number(key::PMIX_JOB_CTRL_SIGNAL, number_of);
    let methods = key::PMIX_JOB_CTRL_CHECKPOINT_METHOD;
    let array = |infos: Vec<Info>| Info::new(methods, Value::DataArray(DataArray::infos(infos)));
    let dir = key::PMIX_REGISTER_CLEANUP_DIR;
    let file = key::PMIX_REGISTER_CLEANUP;
    let conflict = code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES;
    let ckpt = || text(key::PMIX_JOB_CTRL_CHECKPOINT, "ck");
    let two = key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL;
    let long = "x".repeat(300);
    for (directives, status, words) in [
        (vec![], bad, "the request has no action"),
        (
            vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(false))],
            bad,
            "the request has no action",
        ),
        (vec![yes(unknown)], bad, "the request has no action"),
        (
            vec![kill.clone(), term],
            bad,
            "the request has both pmix.jctrl.kill and pmix.jctrl.term",
        ),
        (
            vec![signal(10), signal(12)],
            bad,
            "the request has both pmix.jctrl.sig and pmix.jctrl.sig",
        ),
        (
            vec![kill.clone(), ckpt()],
            bad,
            "the request has both pmix.jctrl.kill and pmix.jctrl.ckpt",
        ),
        (
            vec![kill.clone(), yes(key::PMIX_JOB_CTRL_PREEMPTIBLE)],
            bad,
            "pmix.jctrl.kill and pmix.jctrl.preempt",
        ),
        (
            vec![kill.clone(), text(file, "/tmp/x")],
            bad,
            "pmix.jctrl.kill and pmix.reg.cleanup",
        ),
        (
            vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Pointer)],
            bad,
            "pmix.jctrl.kill should be a PMIX_BOOL",
        ),
        (
            vec![text(key::PMIX_JOB_CTRL_PAUSE, "maybe")],
            bad,
            "pmix.jctrl.pause should be a PMIX_BOOL",
        ),
        (
            vec![yes(key::PMIX_JOB_CTRL_SIGNAL)],
            bad,
            "pmix.jctrl.sig should be the number of a signal",
        ),
        (
            vec![signal(0)],
            bad,
            "pmix.jctrl.sig should be the number of a signal",
        ),
        (
            vec![signal(65)],
            bad,
            "pmix.jctrl.sig should be the number of a signal",
        ),
        (
            vec![signal(-9)],
            bad,
            "pmix.jctrl.sig should be the number of a signal",
        ),
        (
            vec![text(key::PMIX_JOB_CTRL_SIGNAL, "9")],
            bad,
            "pmix.jctrl.sig should be",
        ),
        (
            vec![kill.clone(), yes(key::PMIX_JOB_CTRL_ID)],
            bad,
            "pmix.jctrl.id should be a PMIX_STRING",
        ),
        (
            vec![kill.clone(), text(key::PMIX_JOB_CTRL_ID, "a\nb")],
            bad,
            "pmix.jctrl.id should be",
        ),
        (
            vec![kill.clone(), text(key::PMIX_JOB_CTRL_ID, &long)],
            bad,
            "pmix.jctrl.id should be",
        ),
        (
            vec![kill.clone(), required(unknown)],
            code::PMIX_ERR_NOT_SUPPORTED,
            "site.own",
        ),
        (
            vec![text(key::PMIX_JOB_CTRL_CHECKPOINT, "")],
            bad,
            "pmix.jctrl.ckpt should be a name",
        ),
        (
            vec![ckpt(), number(two, -1)],
            bad,
            "pmix.jctrl.ckptsig should be",
        ),
        (
            vec![ckpt(), number(two, 90), number(two, 5)],
            bad,
            "the number of a signal, from 1 to 64, and after it",
        ),
        (
            vec![ckpt(), number(two, 1), number(two, 5), number(two, 6)],
            bad,
            "the request has both",
        ),
        (
            vec![ckpt(), number(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, 5)],
            bad,
            "pmix.jctrl.ckptev should be the code",
        ),
        (
            vec![kill.clone(), number(two, 12)],
            bad,
            "pmix.jctrl.ckptsig means nothing without pmix.jctrl.ckpt",
        ),
        (
            vec![kill.clone(), number(GRACE, 1)],
            bad,
            "peal.jctrl.grace means nothing without peal.jctrl.preempt",
        ),
        (
            vec![text(PREEMPT, "hug")],
            bad,
            "peal.jctrl.preempt should be pause, terminate or kill",
        ),
        (
            vec![kill.clone(), text(key::PMIX_JOB_CTRL_PROVISION_IMAGE, "i")],
            bad,
            "means nothing without pmix.jctrl.pvn",
        ),
        (
            vec![text(key::PMIX_JOB_CTRL_PROVISION, "")],
            bad,
            "pmix.jctrl.pvn should be a description of nodes",
        ),
        (
            vec![array(vec![])],
            bad,
            "pmix.jctrl.ckmethod should be an array of 1 to 16 infos",
        ),
        (
            vec![array(vec![yes(unknown)])],
            bad,
            "pmix.jctrl.ckmethod should be an array",
        ),
        (
            vec![yes(methods)],
            bad,
            "pmix.jctrl.ckmethod should be an array",
        ),
        (
            vec![array(vec![number(two, 70)])],
            bad,
            "pmix.jctrl.ckptsig should be the number of a signal",
        ),
        (
            vec![text(file, "relative")],
            bad,
            "pmix.reg.cleanup should be absolute paths",
        ),
        (
            vec![text(file, "/tmp/../etc")],
            bad,
            "pmix.reg.cleanup should be",
        ),
        (vec![text(dir, "/")], bad, "pmix.reg.cleanupdir should be"),
        (vec![text(dir, "")], bad, "pmix.reg.cleanupdir should be"),
        (vec![yes(file)], bad, "pmix.reg.cleanup should be"),
        (
            vec![text(file, "/tmp/x"), yes(key::PMIX_CLEANUP_RECURSIVE)],
            bad,
            "means nothing without pmix.reg.cleanupdir",
        ),
        (
            vec![text(dir, "/tmp/x"), text(key::PMIX_CLEANUP_IGNORE, "a/b")],
            bad,
            "pmix.clnup.ignore should be",
        ),
        (
            vec![text(dir, "/tmp/x"), text(key::PMIX_CLEANUP_IGNORE, "x")],
            conflict,
            "among those that are ignored",
        ),
        (
            vec![text(dir, "/tmp/x"), text(file, "/tmp/x")],
            conflict,
            "as a file and as a directory",
        ),
        (
            vec![yes(key::PMIX_LOG_EMAIL), kill.clone()],
            bad,
            "pmix.log.email should be an array",
        ),
        (
            vec![required(key::PMIX_JOB_CTRL_DEFINE_PSET), kill.clone()],
            code::PMIX_ERR_NOT_SUPPORTED,
            "defpset",
        ),
    ] {
        let error = ask(&[], directives.clone()).unwrap_err();
        assert_eq!(error.status(), status, "{directives:?}");
        assert!(
            error.to_string().contains(words),
            "{error} should tell of {words}"
        );
    }
    for (targets, words) in [
        (vec![proc("gone", 0)], "there is no namespace \"gone\" here"),
        (vec![proc("mine", 3)], "mine:3 does not exist"),
        (vec![all("mine"), proc("mine", 3)], "mine:3 does not exist"),
    ] {
        let error = ask(&targets, vec![kill.clone()]).unwrap_err();
        assert_eq!(
            (error.status(), error.to_string().contains(words)),
            (none, true),
            "{error}"
        );
    }
    // An optional directive that nobody knows is passed by, and the same action twice is one.
    let kills = JobControlOperation::Act(JobAction::Kill);
    let asked = action(&[yes(unknown), kill.clone(), kill]);
    assert_eq!(operation(asked), (kills, mine()));
}
