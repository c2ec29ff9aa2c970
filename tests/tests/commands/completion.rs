//! Completion in shells: options and commands, and names of what runs.
use peal_needs::needs;
use peal_tests::{
    completion::{candidates, completing},
    daemon::Place,
    guest, peal, program, run,
    shell_job::ShellJob,
};
use std::process::Command;

#[needs(prepared)]
#[test]
fn commands_options_and_values_are_completed() {
    for (words, has) in [
        (&["ctl", "pre"][..], "preempt"),
        (&["ctl", "checkpoint", "--sig"], "--signal"),
        (&["config", "ch"], "check"),
        (&["run", "--hand"], "--handler"),
        (&["ps", "-o", ""], "wide"),
        (&["ps", "--state", "sto"], "stopped"),
    ] {
        let found = candidates(&mut completing(words));
        assert!(found.iter().any(|of| of == has), "{words:?}: {found:?}");
    }
    let hidden = candidates(&mut completing(&["h"]));
    assert!(!hidden.iter().any(|of| of == "helper"), "{hidden:?}");
}

#[needs(prepared)]
#[test]
fn names_of_jobs_and_servers_are_completed() {
    let job = ShellJob::asleep(1, &[]);
    let name = job.nspace();
    let found = |words: &[&str]| {
        let mut command = completing(words);
        command
            .env("PMIX_SYSTEM_TMPDIR", job.dir())
            .env_remove("PMIX_SERVER_TMPDIR")
            .env_remove("PMIX_SERVER_URI41");
        candidates(&mut command)
    };
    assert!(found(&["ctl", "kill", ""]).contains(&name));
    assert!(found(&["ps", ""]).contains(&name));
    assert!(found(&["describe", "job", ""]).contains(&name));
    assert!(found(&["ps", "--pid", ""]).contains(&job.pid().to_string()));
}

#[needs(prepared)]
#[test]
fn names_of_modules_are_completed_and_no_server_is_silent() {
    let place = Place::new();
    let component = guest("echo");
    place.configure(&format!(
        "[admin]\nsocket = {:?}\n[[module]]\nname = \"echo\"\npath = {component:?}\ncodes = [-3001]\n",
        place.socket()
    ));
    let found = || {
        let mut command = completing(&["module", "disable", ""]);
        command.env("PEAL_CONFIG", place.path("peal.toml"));
        let found = candidates(&mut command);
        found.iter().any(|of| of == "echo")
    };
    assert!(!found());
    let daemon = place.start();
    assert!(found());
    daemon.tell(&["stop", "--wait"]);
    assert!(!found());
}

#[needs(prepared)]
#[test]
fn bash_completes_by_the_printed_script() {
    let script = run(&mut peal(["completions", "bash"]))
        .expect_status(0)
        .stdout;
    let dir = program("peal").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let ask = "COMP_WORDS=(peal con); COMP_CWORD=1; COMP_TYPE=9; _clap_complete_peal peal con peal; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{script}\n{ask}")])
        .env("PATH", format!("{}:{path}", dir.display()));
    assert_eq!(run(&mut bash).expect_status(0).stdout.trim(), "config");
    for shell in ["zsh", "fish"] {
        let script = run(&mut peal(["completions", shell])).expect_status(0);
        assert!(script.stdout.contains("PEAL_COMPLETE"), "{script:?}");
    }
}
