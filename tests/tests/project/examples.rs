//! The modules and configurations in `examples/`: each is built and tested, or served and used.
use peal_needs::needs;
use peal_tests::{guests, projects::COMPILING, root, run_within, shell::Shell};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Commands that start a server of the configuration `$PEAL_CONFIG` and wait until it answers.
const SERVE: &str = "peal serve & wait_for_server\n";

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let from = entry.path();
        let to = to.join(entry.file_name());
        if from.is_dir() {
            // Build results of the example's own directory are of no use elsewhere.
            if !from.ends_with("target") {
                copy_dir(&from, &to);
            }
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Builds a module and runs its cases, in a copy, beside copies of the files that it refers to.
#[track_caller]
fn build_and_test(name: &str) {
    let shell = Shell::new();
    copy_dir(&root().join("sdk"), &shell.path("sdk"));
    let module = Path::new("examples/modules").join(name);
    copy_dir(&root().join(&module), &shell.path(module.to_str().unwrap()));
    let commands = format!(
        "cd ../examples/modules/{name}\n\
         peal module build\n\
         peal module test"
    );
    let done = run_within(COMPILING, &mut shell.script(&commands)).expect_status(0);
    assert!(done.stdout.contains("0 FAILED"), "{}", done.stdout);
}

/// Checks a configuration and runs commands under it, with its directories moved to where tests may
/// write.
#[track_caller]
fn run_under(name: &str, commands: &str) -> String {
    let shell = Shell::new();
    let file = root().join("examples/configurations").join(name);
    let state = shell.path("state");
    fs::create_dir_all(state.join("users")).unwrap();
    let text = fs::read_to_string(file)
        .unwrap()
        .replace("/usr/local/lib/peal", guests().to_str().unwrap())
        .replace("/var/lib/peal", state.to_str().unwrap());
    let config = shell.path("home/peal.toml");
    fs::write(&config, text).unwrap();
    let mut script = shell.script(&format!("peal config check\n{commands}"));
    let done = run_within(Duration::from_secs(120), script.env("PEAL_CONFIG", &config));
    done.expect_status(0).stdout
}

/// The example runs in a new project, which has the SDK. The repository's SDK belongs to the
/// workspace of the guests.
#[needs(prepared)]
#[test]
fn module_in_rust_builds_and_passes_its_cases() {
    let shell = Shell::new();
    let example = root().join("examples/modules/critical-rank");
    let commands = format!(
        "peal module new --lang rust critical-rank\n\
         cd critical-rank\n\
         ln -s \"$GUESTS_BUILD\" target\n\
         rm tests/*.toml\n\
         cp {example}/src/lib.rs src/\n\
         cp {example}/tests/*.toml tests/\n\
         peal module build\n\
         peal module test",
        example = example.display()
    );
    let done = run_within(COMPILING, &mut shell.script(&commands)).expect_status(0);
    assert!(done.stdout.contains("0 FAILED"), "{}", done.stdout);
}

#[needs(prepared, c_tools)]
#[test]
fn modules_in_c_build_and_pass_their_cases() {
    build_and_test("max-procs");
    build_and_test("plain-lines");
}

#[needs(prepared, cpp_tools)]
#[test]
fn module_in_cpp_builds_and_passes_its_cases() {
    build_and_test("first-abort");
}

#[needs(prepared, go_tools)]
#[test]
fn module_in_go_builds_and_passes_its_cases() {
    build_and_test("old-clients");
}

#[needs(prepared, ts_tools)]
#[test]
fn module_in_typescript_builds_and_passes_its_cases() {
    build_and_test("own-session");
}

#[needs(prepared, python_tools)]
#[test]
fn modules_in_python_build_and_pass_their_cases() {
    build_and_test("hide-tokens");
    build_and_test("explain-exit");
}

#[needs(prepared, js_tools)]
#[test]
fn modules_in_javascript_build_and_pass_their_cases() {
    build_and_test("reserve-names");
    build_and_test("terminate-first");
}

#[needs(prepared)]
#[test]
fn per_user_quotas_are_served() {
    let shown = run_under(
        "per-user-quotas.toml",
        &format!("{SERVE}peal event notify -3001\npeal module list"),
    );
    assert!(shown.contains("quota"), "{shown}");
}

#[needs(prepared)]
#[test]
fn mail_on_abort_is_queued() {
    run_under(
        "mail-on-abort.toml",
        "peal run -n 1 --log failures --log-channel email -- sh -c 'exit 3' || test $? = 3",
    );
}

#[needs(prepared)]
#[test]
fn syslog_gateway_accepts_messages_without_its_server() {
    run_under(
        "syslog-gateway.toml",
        &format!("{SERVE}peal log --channel global_syslog 'node17 is drained'"),
    );
}

#[needs(prepared)]
#[test]
fn job_records_keep_what_a_launcher_logs() {
    run_under(
        "job-records.toml",
        "peal run -n 1 --log job --log-channel job_record -- true",
    );
}

#[needs(prepared)]
#[test]
fn audit_retention_verifies() {
    let shown = run_under(
        "audit-retention.toml",
        &format!(
            "{SERVE}peal event notify -3001\npeal audit list --kind decision\npeal audit verify"
        ),
    );
    assert!(shown.contains("-3001"), "{shown}");
}

#[needs(prepared)]
#[test]
fn shadow_policy_shows_its_outcomes() {
    run_under(
        "shadow-policy.toml",
        &format!("{SERVE}peal event notify -3001\npeal module diff namespace-only"),
    );
}

#[needs(prepared, root)]
#[test]
fn maintenance_lets_root_in() {
    run_under("maintenance.toml", &format!("{SERVE}peal ps"));
}

#[needs(prepared)]
#[test]
fn failed_rank_is_restarted_three_times() {
    let shown = run_under(
        "restart-failed-ranks.toml",
        "peal run -n 2 -- sh -c 'echo started; [ $PMIX_RANK = 0 ] || exec sleep 30; kill -KILL $$' || test $? = 137",
    );
    // Rank 0 started four times, and rank 1 once.
    assert_eq!(shown.matches("started").count(), 5, "{shown}");
}

#[needs(prepared, root)]
#[test]
fn user_modules_are_served() {
    run_under("user-modules.toml", &format!("{SERVE}peal module list"));
}

/// Returns the names in a directory of the examples.
fn names(dir: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("examples").join(dir)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn each_example_is_listed_and_tested() {
    let listed = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let this = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/project/examples.rs");
    let tested = fs::read_to_string(this).unwrap();
    let all = &names("modules") | &names("configurations");
    assert!(all.len() >= 12, "{all:?}");
    for name in all {
        assert!(listed.contains(&name), "examples/README.md lacks {name}");
        assert!(
            tested.contains(&format!("{name}\"")),
            "{name} is not tested"
        );
    }
}
