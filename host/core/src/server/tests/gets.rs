//! Answers to gets that programs of some releases make.
use super::*;
use peal_model::{DataArray, InfoFlags, JobEntry};

fn told(actions: &[Action]) -> Vec<RankData> {
    match actions {
        [
            Action::Reply {
                reply: Reply::Data { ranks, .. },
                ..
            },
        ] => ranks.iter().map(|data| (**data).clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unset_reserved_key_is_not_found_at_once() {
    let mut stage = Stage::of(2);
    stage.commit(1, Scope::Global, A, 1);
    assert!(value(&stage.get(0, proc(1), A, &[]).1, A).is_some());
    for (of, key) in [
        (proc(0), key::PMIX_PARENT_ID),
        (proc(1), key::PMIX_PSET_NAMES),
    ] {
        assert_eq!(
            status(&stage.get(0, of, key, &[]).1),
            code::PMIX_ERR_NOT_FOUND,
            "{key:?}"
        );
    }
    assert!(
        stage.get(0, proc(1), B, &[]).1.is_empty(),
        "a key of its own, it may yet put"
    );
    stage
        .server
        .define_process_set("both".into(), vec![proc(0), proc(1)])
        .unwrap();
    let names = value(
        &stage.get(0, proc(1), key::PMIX_PSET_NAMES, &[]).1,
        key::PMIX_PSET_NAMES,
    );
    assert_eq!(
        names,
        Some(Value::DataArray(DataArray::strings(["both".into()])))
    );
    stage.server.delete_process_set(&"both".into(), &[nspace()]);
    assert_eq!(
        status(&stage.get(0, proc(1), key::PMIX_PSET_NAMES, &[]).1),
        code::PMIX_ERR_NOT_FOUND,
        "the set is deleted"
    );
}

#[test]
fn get_of_a_rank_key_from_the_job_returns_all_job_data() {
    let mut stage = Stage::of(2);
    let all = told(
        &stage
            .get(0, Proc::all(nspace()), key::PMIX_LOCAL_RANK, &[])
            .1,
    );
    assert_eq!(
        all.iter().map(|data| data.proc.clone()).collect::<Vec<_>>(),
        [Proc::all(nspace()), proc(0), proc(1)]
    );
    assert!(
        all[2]
            .kvals
            .contains(&Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(1)))
    );
    // What the host says of the job, or of the node, takes no more than the job's own.
    for key in [key::PMIX_JOB_SIZE, key::PMIX_LOCALLDR] {
        let of_job = told(&stage.get(0, Proc::all(nspace()), key, &[]).1);
        assert_eq!(
            of_job
                .iter()
                .map(|data| data.proc.clone())
                .collect::<Vec<_>>(),
            [Proc::all(nspace())],
            "{key:?}"
        );
    }
    assert_eq!(
        status(&stage.get(0, Proc::all(nspace()), A, &[]).1),
        code::PMIX_ERR_NOT_FOUND
    );
}

#[test]
fn get_waits_for_the_value_with_its_qualifiers() {
    let mut stage = Stage::of(2);
    let side = |word: &str| Info {
        flags: InfoFlags::QUALIFIER,
        ..Info::new(B, Value::string(word))
    };
    let put = |word: &str| {
        let infos = [Info::new(A, Value::string(word)), side(word)];
        Kval::new(
            key::PMIX_QUALIFIED_VALUE,
            Value::DataArray(DataArray::infos(infos)),
        )
    };
    let commit = |stage: &mut Stage, word| {
        let commit = Commit {
            scope: Scope::Global,
            kvals: vec![put(word)],
        };
        stage.ask(1, Request::Commit(vec![commit])).1
    };
    let get = |infos| Request::Get {
        proc: proc(1),
        infos,
        key: Some(A.0.into()),
    };
    let (right, actions) = stage.ask(0, get(vec![side("right")]));
    assert!(actions.is_empty());
    assert_eq!(
        statuses(&commit(&mut stage, "left")).len(),
        1,
        "another value of the same key does not answer it"
    );
    let answered = commit(&mut stage, "right");
    assert_eq!(statuses(&answered)[1], (right, code::PMIX_SUCCESS));
    let all = told(&answered[1..]);
    let both = [put("left"), put("right")];
    assert!(
        both.iter().all(|kval| all[0].kvals.contains(kval)),
        "{all:?}"
    );
    assert!(
        stage.ask(0, get(Vec::new())).1.is_empty(),
        "none was put without qualifiers"
    );
}

#[test]
fn started_and_restarted_ranks_have_their_process_id() {
    let mut stage = Stage::of(2);
    let facts = |stage: &mut Stage| {
        let told = told(&stage.get(0, proc(1), key::PMIX_REINCARNATION, &[]).1);
        let of = |key: KeyName| {
            told[0]
                .kvals
                .iter()
                .find(|kval| kval.key == key)
                .map(|kval| kval.value.clone())
        };
        (of(key::PMIX_REINCARNATION), of(key::PMIX_PROC_PID))
    };
    assert_eq!(facts(&mut stage), (Some(Value::Uint32(0)), None));
    for (again, pid) in [(0, 17), (1, 18)] {
        stage
            .server
            .procs_started(&nspace(), &[(Rank(1), pid)].into());
        assert_eq!(
            facts(&mut stage),
            (Some(Value::Uint32(again)), Some(Value::Pid(pid)))
        );
        stage.server.proc_restarts(&proc(1), None, MonotonicTime(0));
        assert_eq!(facts(&mut stage).1, None, "until it has started");
    }
}

#[test]
fn procs_are_told_at_start_what_differs_from_a_first_start() {
    let mut stage = Stage::of(2);
    let initial = |stage: &mut Stage| {
        let (_, actions) = stage.ask(0, Request::JobData);
        let info = actions.iter().find_map(|action| match action {
            Action::Reply {
                reply: Reply::JobData(info),
                ..
            } => Some(info.clone()),
            _ => None,
        });
        let info = info.unwrap();
        let of_rank = info.entries.iter().filter_map(|entry| match entry {
            JobEntry::Rank(Rank(1), kvals) => Some(kvals),
            _ => None,
        });
        let of_rank: Vec<Kval> = of_rank.flatten().cloned().collect();
        [
            key::PMIX_PROC_PID,
            key::PMIX_REINCARNATION,
            key::PMIX_LOCALITY_STRING,
        ]
        .map(|key| of_rank.iter().any(|kval| kval.key == key))
    };
    let start = |stage: &mut Stage, pid| {
        let pids = [(Rank(1), pid)].into();
        stage.server.procs_started(&nspace(), &pids);
    };
    start(&mut stage, 17);
    assert_eq!(initial(&mut stage), [false, false, false]);
    stage.server.proc_restarts(&proc(1), None, MonotonicTime(0));
    start(&mut stage, 18);
    assert_eq!(initial(&mut stage), [false, true, false]);
    let (_, actions) = stage.get(0, proc(1), key::PMIX_LOCALITY_STRING, &[]);
    let data = told(&actions);
    let asked = |key: KeyName| data[0].kvals.iter().filter(|kval| kval.key == key).count();
    assert_eq!(asked(key::PMIX_LOCALITY_STRING), 1);
    assert_eq!(asked(key::PMIX_REINCARNATION), 1);
    assert_eq!(asked(key::PMIX_PROC_PID), 1);
}
