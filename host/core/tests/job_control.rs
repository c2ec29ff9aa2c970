//! What a job-control request asks for: read whole, or refused with what stands in the way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]
use peal_core::job_control::{JobAction, JobControl, JobControlError, read};
use peal_model::{Info, InfoFlags, KeyName, Nspace, Proc, Rank, Value, code, key, rank};
use std::collections::BTreeSet;

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

fn all(job: &str) -> Proc {
    Proc::all(Nspace::new(job).unwrap())
}

/// Two jobs: "mine" with three procs and "other" with two.
fn ranks(nspace: &Nspace) -> Option<BTreeSet<Rank>> {
    let size = match nspace.as_str() {
        "mine" => 3,
        "other" => 2,
        _ => return None,
    };
    Some((0..size).map(Rank).collect())
}

fn ask(targets: &[Proc], directives: Vec<Info>) -> Result<JobControl, JobControlError> {
    read(&proc("mine", 1), targets, directives, ranks)
}

fn yes(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

#[test]
fn each_action_by_its_directive() {
    for (directive, action) in [
        (yes(key::PMIX_JOB_CTRL_TERMINATE), JobAction::Terminate),
        (yes(key::PMIX_JOB_CTRL_KILL), JobAction::Kill),
        (Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::Int(10)), JobAction::Signal(10)),
        (Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::Uint8(64)), JobAction::Signal(64)),
    ] {
        let id = Info::new(key::PMIX_JOB_CTRL_ID, Value::string("mine"));
        let control = ask(&[], vec![id, directive.clone()]).unwrap();
        assert_eq!((control.action, control.id.as_deref()), (action, Some("mine")), "{directive:?}");
        assert_eq!(control.directives.len(), 2, "hosts see all of them");
    }
}

#[test]
fn targets_none_procs_wildcards_and_several_jobs_each_proc_once() {
    let kill = || vec![yes(key::PMIX_JOB_CTRL_KILL)];
    let mine = [proc("mine", 0), proc("mine", 1), proc("mine", 2)];
    assert_eq!(ask(&[], kill()).unwrap().targets, mine);
    assert_eq!(ask(&[all("mine"), proc("mine", 2)], kill()).unwrap().targets, mine);
    let local = Proc::new(Nspace::new("other").unwrap(), rank::PMIX_RANK_LOCAL_PEERS);
    let both = ask(&[proc("mine", 2), local, proc("mine", 2)], kill()).unwrap();
    assert_eq!(both.targets, [proc("mine", 2), proc("other", 0), proc("other", 1)]);
}

#[test]
fn what_makes_no_sense_is_refused_and_says_why() {
    let (kill, term) = (yes(key::PMIX_JOB_CTRL_KILL), yes(key::PMIX_JOB_CTRL_TERMINATE));
    let required = |key| Info { flags: InfoFlags::REQUIRED, ..yes(key) };
    let (unknown, bad) = (KeyName("site.own"), code::PMIX_ERR_BAD_PARAM);
    let number = |number| Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::Int(number));
    for (targets, directives, status, words) in [
        (vec![], vec![], bad, "no action is asked for"),
        (vec![], vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(false))], bad, "no action is asked for"),
        (vec![], vec![yes(unknown)], bad, "no action is asked for"),
        (vec![], vec![kill.clone(), term], bad, "pmix.jctrl.kill and pmix.jctrl.term are asked for at once"),
        (vec![], vec![number(10), number(12)], bad, "pmix.jctrl.sig and pmix.jctrl.sig are asked for at once"),
        (vec![], vec![Info::new(key::PMIX_JOB_CTRL_KILL, Value::Int(1))], bad, "pmix.jctrl.kill should be a PMIX_BOOL"),
        (vec![], vec![number(0)], bad, "pmix.jctrl.sig should be the number of a signal"),
        (vec![], vec![number(65)], bad, "pmix.jctrl.sig should be the number of a signal"),
        (vec![], vec![number(-9)], bad, "pmix.jctrl.sig should be the number of a signal"),
        (vec![], vec![Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::string("9"))], bad, "pmix.jctrl.sig should be"),
        (vec![], vec![kill.clone(), yes(key::PMIX_JOB_CTRL_ID)], bad, "pmix.jctrl.id should be a PMIX_STRING"),
        (vec![], vec![kill.clone(), required(unknown)], code::PMIX_ERR_NOT_SUPPORTED, "\"site.own\"".trim_matches('"')),
        (vec![], vec![yes(key::PMIX_JOB_CTRL_PAUSE)], code::PMIX_ERR_NOT_SUPPORTED, "pmix.jctrl.pause"),
        (
            vec![],
            vec![Info::new(key::PMIX_REGISTER_CLEANUP, Value::string("/tmp/x"))],
            code::PMIX_ERR_NOT_SUPPORTED,
            "pmix.reg.cleanup",
        ),
        (vec![proc("gone", 0)], vec![kill.clone()], code::PMIX_ERR_NOT_FOUND, "there is no namespace \"gone\" here"),
        (vec![proc("mine", 3)], vec![kill.clone()], code::PMIX_ERR_NOT_FOUND, "mine:3 does not exist"),
        (vec![all("mine"), proc("mine", 3)], vec![kill.clone()], code::PMIX_ERR_NOT_FOUND, "mine:3 does not exist"),
    ] {
        let error = ask(&targets, directives.clone()).unwrap_err();
        assert_eq!(error.status(), status, "{directives:?}");
        assert!(error.to_string().contains(words), "{error} should tell of {words}");
    }
    // An optional directive that nobody knows is passed by, and the same action twice is one.
    assert_eq!(ask(&[], vec![yes(unknown), kill.clone(), kill]).unwrap().action, JobAction::Kill);
}
