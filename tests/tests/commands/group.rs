//! `peal group` against a job whose procs are in groups.
use peal_needs::needs;
use peal_tests::{peal, program, run, shell_job::ShellJob};
use serde_json::Value;
use std::process::Command;

fn grouped() -> ShellJob {
    ShellJob::start(
        3,
        &[],
        &format!("exec {} stay", program("peal-grouped").display()),
    )
}

#[needs(prepared)]
#[test]
fn groups_and_their_members_are_in_tables_or_json() {
    let job = grouped();
    let name = job.nspace();
    let table = job.ask(&["group", "list"]).expect_status(0).stdout;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["group", "user", "context", "id", "members"],
        "{table}"
    );
    let user = run(Command::new("id").arg("-un")).stdout.trim().to_owned();
    let number = format!("({})", rustix::process::geteuid().as_raw());
    assert_eq!(lines[1], ["alone", &user, &number, "-", "1"], "{table}");
    assert_eq!(
        (lines[2][0], lines[2][4], lines.len()),
        ("crew", "3", 3),
        "{table}"
    );

    let told = job
        .ask(&["group", "show", "crew", "-o", "json"])
        .expect_status(0)
        .stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(
        (&told[0]["name"], told[0]["context_id"].to_string().as_str()),
        (&"crew".into(), lines[2][3])
    );
    for rank in 0..3 {
        let member = &told[0]["members"][rank];
        assert_eq!(
            (&member["nspace"], &member["rank"]),
            (&name.as_str().into(), &rank.into()),
            "{told}"
        );
    }
    let shown = job.ask(&["group", "show", "crew"]).expect_status(0).stdout;
    let expected = format!(
        "group crew, user {user} {number}, context id {}\nrank  member\n   0  {name}:0\n   1  {name}:1\n   2  {name}:2\n",
        lines[2][3]
    );
    assert_eq!(shown, expected);
    let all = job
        .ask(&["group", "list", "-o", "json"])
        .expect_status(0)
        .stdout;
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(
        (&all[0]["name"], &all[0]["context_id"], &all[1]),
        (&"alone".into(), &Value::Null, &told[0])
    );

    for (asked, says) in [
        ("crw", "did you mean \"crew\"?"),
        ("elsewhere", "`peal group list` shows all"),
    ] {
        let missing = job.ask(&["group", "show", asked]).expect_status(1);
        let expected = format!("peal: no group of yours is called {asked:?}; {says}\n");
        assert_eq!((missing.stdout.as_str(), missing.stderr), ("", expected));
    }

    // A proc that dies is removed from its groups.
    job.ask(&["ctl", "kill", &format!("{name}:0")])
        .expect_status(0);
    let told = job.ask(&["group", "list"]).expect_status(0).stdout;
    assert!(!told.contains("alone") && told.contains("crew"), "{told}");
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn missing_group_and_bad_input_are_reported_with_valid_input() {
    let job = ShellJob::asleep(1, &[]);
    assert_eq!(
        job.ask(&["group", "list"]).expect_status(0).stdout,
        "there are no groups here\n"
    );
    let missing = job.ask(&["group", "show", "crew"]).expect_status(1);
    assert!(
        missing.stderr.ends_with("; there are no groups here\n"),
        "{}",
        missing.stderr
    );
    job.interrupt();

    for (args, says) in [
        (&["group"][..], "Usage: peal group"),
        (&["group", "show"], "<NAME>"),
    ] {
        let refused = run(&mut peal(args)).expect_status(2);
        assert!(
            refused.stderr.contains(says),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let nobody = run(peal(["group", "list"])
        .env("PMIX_SYSTEM_TMPDIR", dir.path())
        .env_remove("PMIX_SERVER_URI41"));
    let nobody = nobody.expect_status(125);
    assert!(
        nobody.stderr.contains("check that the server runs"),
        "{}",
        nobody.stderr
    );
    let help = run(&mut peal(["group", "--help"])).expect_status(0).stdout;
    assert!(
        help.contains("peal group show crew") && help.contains("1 if the group does not exist"),
        "{help}"
    );
}
