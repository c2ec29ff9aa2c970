//! Modules of users and jobs: bounds on their number, grants and resources.
use peal_needs::needs;
use peal_tests::{daemon::Place, guest, peal, program, run, text_form};
use std::path::Path;

/// Returns the error of an invalid configuration.
fn said(place: &Place, text: &str) -> String {
    place.configure(text);
    run(peal(["config", "check"]).arg(place.path("peal.toml")))
        .expect_status(1)
        .stderr
}

fn module(name: &str, file: &Path, more: &str) -> String {
    format!("[[module]]\nname = {name:?}\npath = {file:?}\n{more}\n")
}

#[needs(prepared)]
#[test]
fn modules_and_grants_of_a_user_are_limited() {
    let place = Place::new();
    let of_user = |name: &str, more: &str| {
        module(
            name,
            &guest("complete"),
            &format!("scope = \"user:0\"\n{more}"),
        )
    };
    let text = format!(
        "tenant.max_modules = 2\n{}{}{}",
        of_user("a", ""),
        of_user("b", ""),
        of_user("c", "")
    );
    let told = said(&place, &text);
    assert!(
        told.contains("user 0 would have more than 2 modules (tenant.max_modules)"),
        "{told}"
    );
    assert_eq!(told.matches("tenant.max_modules").count(), 1, "{told}");
    let told = said(&place, &of_user("a", "grants = [\"sink\"]"));
    assert!(
        told.contains("cannot be granted \"sink\"") && told.contains("tenant.grants"),
        "{told}"
    );
    let text = format!(
        "tenant.grants = [\"clock\"]\n{}",
        of_user("a", "grants = [\"logging\"]")
    );
    assert!(said(&place, &text).contains("cannot be granted \"logging\""));
}

#[needs(prepared)]
#[test]
fn directories_of_a_module_are_there_and_granted_and_named_once() {
    let place = Place::new();
    let files = |grants: &str, files: &str| {
        module(
            "a",
            &guest("complete"),
            &format!("grants = [{grants}]\nfiles = [{files}]"),
        )
    };
    let told = said(
        &place,
        &files("\"files\"", "{ name = \"x\", path = \"/no/such/place\" }"),
    );
    assert!(
        told.contains("cannot use the directory /no/such/place"),
        "{told}"
    );
    let told = said(&place, &files("", "{ name = \"x\", path = \"/tmp\" }"));
    assert!(
        told.contains("cannot use module.files: \"files\" is not among its grants"),
        "{told}"
    );
    let told = said(&place, &files("\"files\"", "{ name = \"x\" }"));
    assert!(
        told.contains("a directory needs a name and a path"),
        "{told}"
    );
    let told = said(
        &place,
        &files(
            "\"files\"",
            "{ name = \"x\", path = \"/tmp\", mode = \"write\" }",
        ),
    );
    assert!(
        told.contains("module.files is \"write\"") && told.contains("read-write"),
        "{told}"
    );
    let told = said(
        &place,
        &files("\"files\"", "{ name = \"x\", path = \"/tmp\", quota = 1 }"),
    );
    assert!(
        told.contains("there is no `quota`; it has name, path, mode and max_bytes"),
        "{told}"
    );
    place.configure(&files(
        "\"files\"",
        "{ name = \"x\", path = \".\", mode = \"read-write\", max_bytes = 5 }",
    ));
    run(peal(["config", "check"]).arg(place.path("peal.toml"))).expect_status(0);
}

#[needs(prepared)]
#[test]
fn job_supplied_module_uses_configured_limits() {
    let told = |set: &[&str]| {
        let mut command = peal(["run", "--events", "--handler"]);
        command.arg(guest("loop-forever"));
        for set in set {
            command.args(["--set", set]);
        }
        run(command.arg("--").arg(program("peal-example")))
    };
    let done = told(&["job_supplied.call_time_ms=37"]).expect_status(0);
    assert!(
        done.stderr.contains("PEAL_ERR_MODULE_TIMEOUT"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("the call ran longer than 37ms (limits.call_time_ms)"),
        "{}",
        done.stderr
    );
    let done = told(&["job_supplied.fuel=10000"]).expect_status(0);
    assert!(
        done.stderr.contains("PEAL_ERR_MODULE_FUEL"),
        "{}",
        done.stderr
    );
    let done = told(&["job_supplied.memory_bytes=65536"]).expect_status(125);
    assert!(
        done.stderr.contains("the limit is 65536") && done.stderr.contains("(limits.memory_bytes)"),
        "{}",
        done.stderr
    );
    let done = told(&["tenant.max_modules=0"]).expect_status(125);
    assert!(
        done.stderr.contains("would have more than 0 modules"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn job_supplied_module_gets_tenant_grants_without_state() {
    let place = Place::new();
    let told = |name: &str, set: &[&str]| {
        let file = place.path("brought.wasm");
        std::fs::write(&file, text_form::of_sandbox(name)).unwrap();
        let mut command = peal(["run", "--handler"]);
        command.arg(file);
        for set in set {
            command.args(["--set", set]);
        }
        run(command.arg("--").arg("true"))
    };
    told("drawer.wat", &[]).expect_status(125);
    let done = told("worldly.wat", &["tenant.grants=[\"logging\"]"]).expect_status(125);
    assert!(
        done.stderr
            .contains("imports WASI 0.2, which a handler of a job does not have"),
        "{}",
        done.stderr
    );
    told("worldly.wat", &[]).expect_status(0);
}
