//! Catalogue of the modules that ship: their list, the files that are written for them, the examples of
//! their pages, and settings that they do not declare.
use peal_needs::needs;
use peal_tests::{
    Done,
    completion::{candidates, completing},
    daemon::Place,
    guest, guests, peal, root, run,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Returns the directories of the modules that ship: their manifests have descriptions.
fn shipped() -> Vec<PathBuf> {
    let entries = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let kinds = entries(&root().join("guests"));
    let mut found: Vec<PathBuf> = kinds.iter().flat_map(|kind| entries(kind)).collect();
    found.retain(|dir| {
        let manifest = fs::read_to_string(dir.join("peal-module.toml")).unwrap_or_default();
        manifest
            .lines()
            .any(|line| line.starts_with("description ="))
    });
    found.sort();
    found
}

fn names() -> BTreeSet<String> {
    let name = |dir: PathBuf| dir.file_name().unwrap().to_str().unwrap().to_owned();
    shipped().into_iter().map(name).collect()
}

/// Runs `peal module add` for the configuration of a place.
fn add(place: &Place, words: &[&str]) -> Done {
    let mut command = peal(["module", "add", "--from"]);
    command.arg(guests()).arg("--config");
    run(command.arg(place.path("peal.toml")).args(words))
}

fn check(place: &Place) -> Done {
    run(peal(["config", "check"]).arg(place.path("peal.toml")))
}

#[needs(prepared, languages)]
#[test]
fn each_shipped_module_is_listed_completed_and_has_cases() {
    let list = run(peal(["module", "list", "--available", "-o", "json", "--from"]).arg(guests()));
    let list: serde_json::Value = serde_json::from_str(&list.expect_status(0).stdout).unwrap();
    let listed: BTreeSet<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|module| module["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, names());
    let found = candidates(&mut completing(&["module", "add", ""]));
    let completed: BTreeSet<String> = found.into_iter().collect();
    let missing: Vec<String> = names().difference(&completed).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());
    for dir in shipped() {
        let cases = fs::read_dir(dir.join("tests")).unwrap().count();
        assert!(cases > 0, "{} should have cases", dir.display());
    }
}

/// Returns the example of a page of the catalogue, with paths of this machine.
fn example(place: &Place, name: &str) -> String {
    let page = root().join(format!("docs/src/catalogue/{name}.md"));
    let page = fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let installed = format!("\"/usr/share/peal/modules/{name}.wasm\"");
    assert!(example.contains(&installed), "{example}");
    let own = |file: &str| format!("{:?}", place.path(file));
    let example = example
        .replace(&installed, &format!("{:?}", guest(name)))
        .replace("\"/var/log/peal/board.log\"", &own("board.log"))
        .replace("\"/run/peal/chat.pipe\"", &own("chat"))
        .replace(
            "\"unix:/dev/log\"",
            &format!("\"unix:{}\"", place.path("log").display()),
        );
    format!("store.path = {}\n{example}", own("store.db"))
}

#[needs(prepared, languages)]
#[test]
fn example_of_each_page_is_valid_and_its_server_starts() {
    for name in names() {
        let place = Place::new();
        place.configure(&example(&place, &name));
        check(&place).expect_status(0);
        drop(place.start());
    }
}

#[needs(prepared)]
#[test]
fn undeclared_wrong_and_missing_settings_are_refused_by_name() {
    let place = Place::new();
    let module = |name: &str, config: &str| {
        let path = guest(name);
        place.configure(&format!(
            "store.path = {:?}\n[[module]]\nname = {name:?}\npath = {path:?}\n\
             grants = [\"clock\", \"state\", \"notify\"]\nconfig = {{ {config} }}\n",
            place.path("store.db"),
        ));
        check(&place).expect_status(1).stderr
    };
    for (name, config, said) in [
        (
            "quota",
            "per_minutes = 3",
            "module quota: there is no setting \"per_minutes\"; did you mean `per_minute`?",
        ),
        (
            "quota",
            "per_minute = 9000",
            "module quota: setting per_minute is 9000; it should be an integer from 1 to 8192",
        ),
        (
            "escalate",
            "codes = -3001",
            "module escalate: setting into is missing; it should be an integer from -2147483648 to -1.",
        ),
        (
            "drain-node",
            "codes = -3001, into = -3200, range = \"rack\"",
            "module drain-node: setting range is \"rack\"; it should be one of \"rm\", \"local\", \"session\", \"global\"",
        ),
        (
            "fair-share",
            "shares = \"physics=1\", lend = 101",
            "module fair-share: setting lend is 101; it should be an integer from 0 to 100",
        ),
    ] {
        let stderr = module(name, config);
        let line = stderr.lines().find(|line| line.contains(said));
        let line = line.unwrap_or_else(|| panic!("{said} should be in {stderr}"));
        assert!(line.contains("peal.toml:6:"), "{line}");
    }
    // A server refuses what the check refuses.
    let (mut serve, _states) = place.serve("states");
    let stderr = run(&mut serve).expect_status(125).stderr;
    assert!(
        stderr.contains("module fair-share: setting lend is 101"),
        "{stderr}"
    );
}

#[needs(prepared)]
#[test]
fn added_module_runs_and_existing_file_stays() {
    let place = Place::new();
    place.configure(&format!("store.path = {:?}\n", place.path("store.db")));
    let daemon = place.start();
    let done = add(&place, &["quota", "--set", "connection=500"]).expect_status(0);
    let file = place.path("modules.d/quota.toml");
    for words in [
        "quota.toml; next:",
        "peal config check",
        "peal module reload",
        "store.path",
    ] {
        assert!(
            done.stdout.contains(words),
            "{words} should be in {}",
            done.stdout
        );
    }
    let text = fs::read_to_string(&file).unwrap();
    for line in [
        "connection = 500",
        "per_minute = 60",
        "# event = 120",
        "grants = [\"clock\", \"state\"]",
    ] {
        assert!(
            text.lines().any(|own| own.starts_with(line)),
            "{line} should be in {text}"
        );
    }
    check(&place).expect_status(0);
    daemon.tell(&["module", "reload"]);
    let modules = place.modules().modules;
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["quota"]);
    let again = add(&place, &["quota"]).expect_status(125).stderr;
    assert!(
        again.contains("is there already and is not changed"),
        "{again}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // Another name makes another file.
    add(&place, &["quota", "--name", "strict"]).expect_status(0);
    assert!(place.path("modules.d/strict.toml").exists());
}

#[needs(prepared)]
#[test]
fn module_is_not_added_with_invalid_settings() {
    let place = Place::new();
    place.configure("");
    for (words, status, said) in [
        (
            &["quota", "--set", "per_minutes=3"][..],
            2,
            "did you mean `per_minute`?",
        ),
        (
            &["quota", "--set", "event=many"],
            2,
            "setting event is \"many\"; it should be an integer from 1 to 8192",
        ),
        (
            &["escalate", "--set", "codes=-3001"],
            2,
            "Use --set into=VALUE",
        ),
        (&["quota", "--set", "event"], 2, "should be SETTING=VALUE"),
        (&["quota", "--name", "../quota"], 2, "without a directory"),
        (&["quotas"], 125, "there is no module \"quotas\""),
    ] {
        let done = add(&place, words).expect_status(status);
        assert!(
            done.stderr.contains(said),
            "{said} should be in {}",
            done.stderr
        );
    }
    assert!(!place.path("modules.d").exists(), "nothing is written");
    // A component that declares nothing has grants and no settings.
    let trap = guest("trap");
    let printed = add(&place, &[trap.to_str().unwrap(), "--print"])
        .expect_status(0)
        .stdout;
    assert!(
        printed.contains("name = \"trap\"") && !printed.contains("[module.config]"),
        "{printed}"
    );
}
