//! A program of the victim that forwards connections makes nobody a proc of the victim's job.
use super::{ATTACKER, VICTIM, attack_beside};
use peal_needs::needs;
use peal_tests::{peal, program, run, until};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::{fs::chown, process::CommandExt},
};

#[needs(prepared, root)]
#[test]
fn forwarder_of_the_victim_lends_no_proc_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(VICTIM), Some(VICTIM)).unwrap();
    let path = |name: &str| dir.path().join(name);
    // A program below the proc forwards, too: the kernel cannot tell it from the proc.
    let text = "server=${PMIX_SERVER_URI41#*tcp4://}; mkfifo end
        $ATTACK forward $server >inside & echo $server $PMIX_NAMESPACE >part; mv part told
        read line <end; kill $!";
    let mut job = peal(["run", "-n", "1", "--", "sh", "-c", text]);
    job.current_dir(&dir).env("ATTACK", program("peal-attack"));
    job.env("TMPDIR", dir.path()).uid(VICTIM).gid(VICTIM);
    let mut job = job.spawn().unwrap();
    let line_of = |name: &str| {
        let text = fs::read_to_string(path(name)).unwrap_or_default();
        text.strip_suffix('\n').map(str::to_owned)
    };
    let mut told = String::new();
    let mut inside = String::new();
    until("the proc and its forwarder run", || {
        told = line_of("told").unwrap_or_default();
        inside = line_of("inside").unwrap_or_default();
        !told.is_empty() && !inside.is_empty()
    });
    let (server, nspace) = told.split_once(' ').unwrap();
    let mut forwarder = attack_beside(VICTIM, &["forward", server]).spawn().unwrap();
    let mut outside = String::new();
    BufReader::new(forwarder.stdout.take().unwrap())
        .read_line(&mut outside)
        .unwrap();
    let claimed = |address: &str| {
        let victim = VICTIM.to_string();
        let mut claim = attack_beside(ATTACKER, &["claim-rank", address, nspace, &victim]);
        run(&mut claim).expect_status(0).stdout.trim().to_owned()
    };
    assert_eq!(claimed(server), "refused", "without the victim's help");
    assert_eq!(claimed(outside.trim()), "refused");
    assert_eq!(claimed(&inside), "admitted", "by the proc's own family");
    forwarder.kill().unwrap();
    forwarder.wait().unwrap();
    drop(File::options().write(true).open(path("end")).unwrap());
    // The job has failed: a proc of it was lost.
    assert!(!job.wait().unwrap().success());
}
