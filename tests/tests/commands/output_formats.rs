//! The option `--output`: formats of commands, and names for scripts.
use peal_needs::needs;
use peal_tests::{daemon::Place, guests, peal, run, shell_job::ShellJob};
use serde_json::Value;

#[needs(prepared)]
#[test]
fn missing_format_is_refused_with_those_of_the_command() {
    for (words, has) in [
        (&["status", "-o", "wide"][..], "text, json, yaml"),
        (&["config", "show", "-o", "name"], "text, json, yaml"),
        (&["chain", "show", "-o", "wide"], "text, name, json, yaml"),
        (&["ps", "-o", "xml"], "text, wide, name, json, yaml"),
        (&["-o", "wide", "doctor"], "text, json, yaml"),
    ] {
        let done = run(&mut peal(words)).expect_status(2);
        assert!(
            done.stderr.contains(&format!("[possible values: {has}]")),
            "{words:?}: {}",
            done.stderr
        );
    }
    for words in [
        &["serve", "-o", "json"][..],
        &["status", "--json"],
        &["ps", "--json"],
        &["job", "environment", "a", "--rank", "0", "-o", "json"],
    ] {
        run(&mut peal(words)).expect_status(2);
    }
}

/// Returns the lines of a YAML document as `key: value`, without their indentation.
fn yaml_lines(text: &str) -> Vec<&str> {
    let line = |line: &'_ str| line.trim_start_matches([' ', '-']).len();
    text.lines().map(|of| &of[of.len() - line(of)..]).collect()
}

#[needs(prepared)]
#[test]
fn lists_of_a_server_have_all_formats() {
    let place = Place::new();
    let daemon = place.start();
    for job in ["b", "a"] {
        daemon.tell(&["job", "register", job, "-n", "2"]);
    }
    let list = |format: &str| daemon.tell(&["job", "list", "-o", format]);
    assert_eq!(list("name"), "a\nb\n");
    let json: Value = serde_json::from_str(&list("json")).unwrap();
    assert_eq!(json[1]["nspace"], "b");
    let yaml = list("yaml");
    for (key, value) in json[1].as_object().unwrap() {
        let line = match value {
            Value::String(text) if text != "null" => format!("{key}: {text}"),
            value => format!("{key}: {value}"),
        };
        let is_moving = key == "elapsed";
        assert!(
            is_moving || yaml_lines(&yaml).contains(&line.as_str()),
            "{line} in {yaml}"
        );
    }
    let head = |format: &str| list(format).lines().next().unwrap().to_owned();
    assert!(head("wide").contains("  group  ") && !head("text").contains("  group  "));
    assert_eq!(daemon.tell(&["module", "list", "-o", "name"]), "");
    assert!(
        daemon
            .tell(&["chain", "show", "-o", "yaml"])
            .starts_with("[]")
    );
    let status = daemon.tell(&["status", "-o", "yaml"]);
    assert!(yaml_lines(&status).contains(&"phase: serving"), "{status}");
}

#[needs(prepared)]
#[test]
fn available_modules_have_names_and_wide_columns() {
    let list = |format: &str| {
        let mut command = peal(["module", "list", "--available", "-o", format, "--from"]);
        run(command.arg(guests())).expect_status(0).stdout
    };
    let names = list("name");
    assert!(
        names.lines().any(|name| name == "quota") && !names.contains(' '),
        "{names}"
    );
    let head = |text: &str| text.lines().next().unwrap().to_owned();
    assert!(head(&list("wide")).contains("  sha256  ") && !head(&list("text")).contains("sha256"));
}

#[needs(prepared)]
#[test]
fn ps_prints_names_of_jobs_and_wide_columns() {
    let job = ShellJob::asleep(2, &[]);
    let name = job.job()["nspace"].as_str().unwrap().to_owned();
    let ps = |more: &[&str]| job.ask(&[&["ps"], more].concat()).expect_status(0).stdout;
    assert_eq!(ps(&["-o", "name"]), format!("{name}\n"));
    assert!(ps(&["-o", "wide"]).contains("  executable  "));
    let yaml = ps(&["-o", "yaml"]);
    assert!(
        yaml_lines(&yaml).contains(&format!("nspace: {name}").as_str()),
        "{yaml}"
    );
    let watched = ps(&["--watch", "--every", "100ms", "--count", "2", "-o", "yaml"]);
    assert_eq!(watched.lines().filter(|line| *line == "---").count(), 2);
}
