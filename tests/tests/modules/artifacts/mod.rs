//! Modules as artefacts: pushed to a real registry and pulled from it, run by servers that have
//! fetched them once, and refused if a registry sends something else.
mod lying;
mod registry;

use lying::{Answer, LyingRegistry};
use peal_needs::needs;
use peal_server::admin::{ModuleState, ModuleStatus};
use peal_tests::{
    daemon::{Daemon, Place, SERVER_UID},
    guest, peal, run, until,
};
use registry::{PASSWORD, Registry, USER};
use serde_json::Value;
use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

/// Makes a key, and a signed copy of a module for tests. Returns the public key and the component.
pub fn signed(place: &Place, options: &[&str]) -> (String, PathBuf) {
    let component = place.path("echo.wasm");
    fs::copy(guest("report"), &component).unwrap();
    let key = place.path("site");
    if !place.path("site.key").exists() {
        run(peal(["module", "keygen", "--no-password"]).arg(&key)).expect_status(0);
    }
    let mut sign = peal(["module", "sign", "--module", "report", "--key"]);
    sign.arg(key.with_extension("key")).args(options);
    run(sign.arg(&component)).expect_status(0);
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    (public.lines().nth(1).unwrap().to_owned(), component)
}

/// Pushes the signed module as this tag. Returns its name with the digest.
fn push(registry: &Registry, place: &Place, tag: &str) -> String {
    let mut push = peal(["module", "push", "--set", &registry.ca_setting()]);
    push.arg(place.path("echo.wasm"));
    push.arg(registry.name(&format!("site/report:{tag}")));
    run(&mut push).expect_status(0).stdout.trim().to_owned()
}

/// Writes the configuration of a server with this artefact as its module. The server watches no files,
/// so that it reads the configuration again only because an artefact has come.
fn configure(place: &Place, registry: &Registry, pinned: &str, more: &str) {
    place.configure(&format!(
        "[deploy]\nwatch = false\n[store]\npath = {store:?}\n[registry]\nca = {ca:?}\nretry_interval_ms = 20\n{more}\n[[module]]\nname = \"report\"\n\
         path = {pinned:?}\ngrants = [\"logging\"]\n",
        store = place.path("store.db"),
        ca = registry.ca(),
    ));
}

fn status(place: &Place) -> Option<ModuleStatus> {
    place.modules().modules.into_iter().next()
}

fn wait_until_active(place: &Place) {
    until("the module runs", || {
        status(place).is_some_and(|module| module.state == ModuleState::Active)
    });
}

fn stop(daemon: Daemon) {
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared, registry)]
#[test]
fn pushed_module_has_the_form_of_wkg_and_comes_back() {
    let registry = Registry::start();
    let place = Place::new();
    let (public, component) = signed(&place, &["--version", "1.2.0"]);
    let mut command = peal(["module", "push", "--set", &registry.ca_setting()]);
    command.args([
        "--source",
        "https://git.example/report",
        "--revision",
        "4efa1d69",
    ]);
    command
        .arg(&component)
        .arg(registry.name("site/report:1.2.0"));
    let pinned = run(&mut command).expect_status(0).stdout.trim().to_owned();
    let (_, digest) = pinned.split_once("@sha256:").unwrap();
    let manifest: Value = serde_json::from_slice(&registry.blob(digest)).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let config = manifest["config"]["digest"].as_str().unwrap();
    let config: Value =
        serde_json::from_slice(&registry.blob(config.strip_prefix("sha256:").unwrap())).unwrap();
    assert_eq!(
        (&config["architecture"], &config["os"]),
        (&"wasm".into(), &"wasip2".into())
    );
    assert_eq!(config["layerDigests"][0], manifest["layers"][0]["digest"]);
    let said = |name: &str| {
        manifest["annotations"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(said("org.opencontainers.image.title"), "report");
    assert_eq!(said("org.opencontainers.image.version"), "1.2.0");
    assert_eq!(said("org.opencontainers.image.revision"), "4efa1d69");
    assert_eq!(said("peal.module.wit"), "0.1.0");
    assert!(
        said("peal.module.built-with").contains("Rust"),
        "{manifest}"
    );
    // Back by its tag, as another file.
    let copy = place.path("copy.wasm");
    let mut pull = peal(["module", "pull", "--set", &registry.ca_setting(), "--file"]);
    pull.arg(&copy).arg(registry.name("site/report:1.2.0"));
    let told = run(&mut pull).expect_status(0).stdout;
    assert!(told.starts_with(&pinned), "{told}");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&component).unwrap());
    run(peal(["module", "verify", "--key", &public]).arg(&copy)).expect_status(0);
    let again = run(&mut pull).expect_status(125).stderr;
    assert!(again.contains("choose another file by --file"), "{again}");
}

const NOTHING: &str = "peal: dry run: nothing was changed\n";

#[needs(prepared, registry)]
#[test]
fn dry_push_tells_sizes_and_uploads_nothing() {
    let registry = Registry::start();
    let place = Place::new();
    let (public, component) = signed(&place, &["--version", "1.0.0"]);
    let name = registry.name("site/report:1.0.0");
    let dry = |options: &[&str]| {
        let mut push = peal([
            "module",
            "push",
            "--dry-run",
            "--set",
            &registry.ca_setting(),
        ]);
        run(push.args(options).arg(&component).arg(&name))
    };
    let bytes = fs::read(&component).unwrap();
    let told = dry(&[]).expect_status(0);
    let expected = format!(
        "would push {name}\nwould upload the component: {} bytes, sha256:{}\nwould upload the configuration: ",
        bytes.len(),
        peal_sandbox::Digest::of(&bytes)
    );
    assert!(told.stdout.starts_with(&expected), "{told:?}");
    assert!(told.stdout.contains("\nthe tag would be new\n"), "{told:?}");
    assert!(
        told.stdout
            .contains("which is not verified: no key is trusted here"),
        "{told:?}"
    );
    assert_eq!(told.stderr, NOTHING);
    assert_eq!(registry.repositories(), [""; 0]);
    let pinned = push(&registry, &place, "1.0.0");
    let (_, digest) = pinned.split_once('@').unwrap();
    let trusted = format!("modules.trusted_keys=[{public:?}]");
    let told = dry(&["--set", &trusted]).expect_status(0).stdout;
    assert!(
        told.contains(&format!("the tag would no longer name {digest}\n"))
            && told.contains("which is trusted here for modules of site, user"),
        "{told}"
    );
    // What a push would refuse is refused, and a signature of other bytes is found.
    let mut other = bytes.clone();
    // A section of another kind, called x.
    other.extend([0, 2, 1, b'x']);
    fs::write(&component, &other).unwrap();
    let told = dry(&["--set", &trusted]).expect_status(0).stdout;
    assert!(told.contains("is of other bytes"), "{told}");
    fs::write(&component, "no component").unwrap();
    dry(&[]).expect_status(125);
    signed(&place, &["--version", "1.1.0"]);
    let refused = dry(&[]).expect_status(125).stderr;
    assert!(refused.contains("is signed as version 1.1.0"), "{refused}");
    assert_eq!(registry.repositories(), ["site/report"]);
    let copy = place.path("copy.wasm");
    let mut pull = peal(["module", "pull", "--set", &registry.ca_setting(), "--file"]);
    let pulled = run(pull.arg(&copy).arg(&name)).expect_status(0).stdout;
    assert!(pulled.starts_with(&pinned), "{pulled}");
}

#[needs(prepared, registry)]
#[test]
fn dry_push_needs_the_credentials_of_a_push() {
    let registry = Registry::with_password();
    let place = Place::new();
    let (_, component) = signed(&place, &["--version", "1.0.0"]);
    let dry = || {
        let mut push = peal([
            "module",
            "push",
            "--dry-run",
            "--set",
            &registry.ca_setting(),
        ]);
        push.arg(&component).arg(registry.name("site/report:1.0.0"));
        run(push.env("DOCKER_CONFIG", place.path(".")))
    };
    let anonymous = dry().expect_status(125).stderr;
    assert!(anonymous.contains("registry.credentials"), "{anonymous}");
    registry.write_credentials(&place.path("config.json"), USER, PASSWORD);
    let told = dry().expect_status(0).stdout;
    assert!(told.contains("the tag would be new"), "{told}");
}

#[needs(prepared, registry)]
#[test]
fn dry_pull_verifies_the_artefact_and_writes_nothing() {
    let registry = Registry::start();
    let place = Place::new();
    let (public, component) = signed(&place, &["--version", "1.0.0"]);
    let pinned = push(&registry, &place, "1.0.0");
    let store = place.path("artifacts");
    let setting = format!("registry.store_dir={}", store.display());
    let pull = |options: &[&str]| {
        let mut pull = peal(["module", "pull", "--set", &registry.ca_setting()]);
        pull.args(["--set", &setting]).args(options);
        run(pull.arg(registry.name("site/report:1.0.0")))
    };
    let file = place.path("copy.wasm");
    let file = file.to_str().unwrap();
    let size = fs::metadata(&component).unwrap().len();
    let trusted = format!("modules.trusted_keys=[{public:?}]");
    let told = pull(&["--dry-run", "--file", file, "--set", &trusted]).expect_status(0);
    assert!(
        told.stdout.starts_with(&format!(
            "would pull {pinned}\nwould write {file}: {size} bytes\nwould write {file}.minisig: "
        )) && told
            .stdout
            .contains("\norg.opencontainers.image.title: report\n")
            && told
                .stdout
                .contains("which is trusted here for modules of site, user"),
        "{told:?}"
    );
    assert_eq!(told.stderr, NOTHING);
    let told = pull(&["--dry-run", "--file", file]).expect_status(0).stdout;
    assert!(
        told.contains("no key is trusted here (modules.trusted_keys)"),
        "{told}"
    );
    assert!(!fs::exists(file).unwrap());
    let blob = |digest: &str| format!("would write {}/blobs/sha256/{digest}: ", store.display());
    let told = pull(&["--dry-run", "--store"]).expect_status(0).stdout;
    let (_, digest) = pinned.split_once("@sha256:").unwrap();
    let bytes = peal_sandbox::Digest::of(&fs::read(&component).unwrap());
    assert!(
        told.contains(&blob(&bytes.to_string())) && told.contains(&blob(digest)),
        "{told}"
    );
    assert!(!store.exists());
    // What is there stays, and is named.
    let taken = component.to_str().unwrap();
    let taken = pull(&["--dry-run", "--file", taken])
        .expect_status(125)
        .stderr;
    assert!(taken.contains("choose another file by --file"), "{taken}");
    pull(&["--store"]).expect_status(0);
    let told = pull(&["--dry-run", "--store"]).expect_status(0).stdout;
    assert!(
        told.contains(&format!(
            "would change nothing: {} has it\n",
            store.display()
        )),
        "{told}"
    );
}

#[needs(prepared, registry)]
#[test]
fn registry_with_passwords_and_unknown_authority_is_refused() {
    let registry = Registry::with_password();
    let place = Place::new();
    signed(&place, &["--version", "1.0.0"]);
    let name = registry.name("site/report:1.0.0");
    let ca = registry.ca_setting();
    let push = |options: &[&str]| {
        let mut push = peal(["module", "push"]);
        push.args(options).arg(place.path("echo.wasm")).arg(&name);
        push.env("DOCKER_CONFIG", place.path("."));
        run(&mut push)
    };
    let unknown = push(&[]).expect_status(125).stderr;
    assert!(unknown.to_lowercase().contains("certificate"), "{unknown}");
    let anonymous = push(&["--set", &ca]).expect_status(125).stderr;
    assert!(anonymous.contains("registry.credentials"), "{anonymous}");
    registry.write_credentials(&place.path("config.json"), USER, "another");
    let wrong = push(&["--set", &ca]).expect_status(125).stderr;
    assert!(
        wrong.contains("registry.credentials") && !wrong.contains("another"),
        "{wrong}"
    );
    registry.write_credentials(&place.path("config.json"), USER, PASSWORD);
    let pinned = push(&["--set", &ca])
        .expect_status(0)
        .stdout
        .trim()
        .to_owned();
    // A server has credentials by its own settings alone.
    configure(
        &place,
        &registry,
        &pinned,
        &format!("credentials = {:?}", place.path("config.json")),
    );
    let daemon = place.start();
    wait_until_active(&place);
    stop(daemon);
}

#[needs(prepared, registry)]
#[test]
fn fetched_module_runs_without_its_registry() {
    let registry = Registry::start();
    let place = Place::new();
    let (public, _) = signed(&place, &["--version", "1.0.0"]);
    let pinned = push(&registry, &place, "1.0.0");
    let keys = format!("[modules]\nrequire_signature = [\"site\"]\ntrusted_keys = [{public:?}]");
    configure(&place, &registry, &pinned, &keys);
    let daemon = place.start();
    wait_until_active(&place);
    let found = status(&place).unwrap();
    assert_eq!(found.path.as_deref(), Some(&*pinned));
    assert!(found.signer.is_some(), "{found:?}");
    stop(daemon);
    // Without the registry, and without what the store has of the set that ran.
    drop(registry);
    fs::remove_file(place.path("store.db")).unwrap();
    let daemon = place.start();
    assert_eq!(status(&place).unwrap().state, ModuleState::Active);
    stop(daemon);
    // A changed file counts as missing.
    let blobs = place.path("artifacts/blobs/sha256");
    for blob in fs::read_dir(&blobs).unwrap() {
        fs::write(blob.unwrap().path(), "changed").unwrap();
    }
    fs::remove_file(place.path("store.db")).unwrap();
    let daemon = place.start();
    assert_eq!(status(&place).unwrap().state, ModuleState::Fetching);
    stop(daemon);
}

#[needs(prepared, registry)]
#[test]
fn server_starts_without_registry_and_fetches_later() {
    let mut registry = Registry::start();
    let place = Place::new();
    signed(&place, &["--version", "1.0.0"]);
    let pinned = push(&registry, &place, "1.0.0");
    registry.stop();
    configure(&place, &registry, &pinned, "");
    // Missing artefacts are no problem of a configuration, and are named.
    let checked = run(peal(["config", "check", "--config"]).arg(place.path("peal.toml")));
    let checked = checked.expect_status(0).stdout;
    assert!(
        checked.contains("module report is not checked"),
        "{checked}"
    );
    let daemon = place.start();
    let waits = || status(&place).filter(|module| module.failure.is_some());
    until("a try has failed", || waits().is_some());
    assert_eq!(waits().unwrap().state, ModuleState::Fetching);
    let trouble = daemon.ask(&["status"]).expect_status(1).stdout;
    assert!(
        trouble.contains("module report waits for oci://"),
        "{trouble}"
    );
    let listed = daemon.tell(&["module", "list"]);
    assert!(
        listed.contains("fetching") && listed.contains("the last try: "),
        "{listed}"
    );
    registry.restart();
    wait_until_active(&place);
    daemon.ask(&["status"]).expect_status(0);
    // A new version, while the registry is away: the one that ran stays.
    signed(&place, &["--version", "1.1.0", "--comment", "another"]);
    let newer = push(&registry, &place, "1.1.0");
    registry.stop();
    configure(&place, &registry, &newer, "");
    let told = daemon.tell(&["reload"]);
    assert!(
        told.contains("module report is fetched from its registry"),
        "{told}"
    );
    let states = || {
        let modules = place.modules().modules;
        modules
            .into_iter()
            .map(|module| module.state)
            .collect::<Vec<_>>()
    };
    assert_eq!(states(), [ModuleState::Active, ModuleState::Fetching]);
    registry.restart();
    until("the newer version runs", || {
        states() == [ModuleState::Active]
            && status(&place).and_then(|module| module.path).as_deref() == Some(&*newer)
    });
    stop(daemon);
}

#[needs(prepared, registry)]
#[test]
fn artefacts_without_valid_signature_are_refused() {
    let registry = Registry::start();
    let place = Place::new();
    let (public, component) = signed(&place, &["--version", "1.0.0"]);
    let keys = format!("[modules]\nrequire_signature = [\"site\"]\ntrusted_keys = [{public:?}]");
    let pinned = push(&registry, &place, "1.0.0");
    configure(&place, &registry, &pinned, &keys);
    let daemon = place.start();
    wait_until_active(&place);
    let refused = |tag: &str| {
        let pinned = push(&registry, &place, tag);
        configure(&place, &registry, &pinned, &keys);
        let mut pull = peal(["module", "pull", "--store", "--config"]);
        run(pull.arg(place.path("peal.toml")).arg(&pinned)).expect_status(0);
        daemon.ask(&["reload"]).expect_status(125).stderr
    };
    // Signed by nobody.
    fs::remove_file(place.path("echo.wasm.minisig")).unwrap();
    let none = refused("unsigned");
    assert!(none.contains("the artefact has no signature"), "{none}");
    // Expired: the time is cut to seconds.
    signed(&place, &["--version", "1.1.0", "--valid-for", "1ms"]);
    let expired = refused("1.1.0");
    assert!(expired.contains("holds no longer"), "{expired}");
    // An older version than the one that ran.
    signed(&place, &["--version", "0.9.0"]);
    let older = refused("0.9.0");
    assert!(
        older.contains("version 0.9.0, and version 1.0.0 ran"),
        "{older}"
    );
    // Signed for another module.
    let mut sign = peal([
        "module",
        "sign",
        "--module",
        "other",
        "--version",
        "2.0.0",
        "--key",
    ]);
    run(sign.arg(place.path("site.key")).arg(&component)).expect_status(0);
    let other = refused("2.0.0");
    assert!(other.contains("is for a module \"other\""), "{other}");
    // Signed by a key that is trusted no more: the next key is.
    let next = place.path("next");
    run(peal(["module", "keygen", "--no-password"]).arg(&next)).expect_status(0);
    let public = fs::read_to_string(next.with_extension("pub")).unwrap();
    let keys = keys.replace(public_of(&keys), public.lines().nth(1).unwrap());
    configure(&place, &registry, &pinned, &keys);
    let untrusted = daemon.ask(&["reload"]).expect_status(125).stderr;
    assert!(untrusted.contains("which is not trusted"), "{untrusted}");
    assert_eq!(status(&place).unwrap().path.as_deref(), Some(&*pinned));
    stop(daemon);
}

/// Returns the key in a configuration of keys.
fn public_of(keys: &str) -> &str {
    keys.rsplit('"').nth(1).unwrap()
}

#[needs(prepared, root, registry)]
#[test]
fn supervised_server_fetches_as_its_user() {
    let registry = Registry::start();
    let place = Place::of_server_user();
    signed(&place, &["--version", "1.0.0"]);
    let pinned = push(&registry, &place, "1.0.0");
    let ca = place.path("ca.pem");
    fs::copy(registry.ca(), &ca).unwrap();
    place.configure_supervised(&format!(
        "[registry]\nca = {ca:?}\n[[module]]\nname = \"report\"\npath = {pinned:?}\ngrants = [\"logging\"]\n"
    ));
    let daemon = place.start();
    wait_until_active(&place);
    let (_, digest) = pinned.split_once("@sha256:").unwrap();
    let manifest = place
        .path("code")
        .with_file_name("artifacts/blobs/sha256")
        .join(digest);
    assert_eq!(fs::metadata(manifest).unwrap().uid(), SERVER_UID);
    stop(daemon);
}

#[test]
fn reference_without_digest_is_refused_with_the_right_form() {
    let place = Place::new();
    for (path, why) in [
        (
            "oci://registry.example/site/report:1.2.0",
            "is not pinned; it should be oci://registry.example/site/report:1.2.0@sha256:DIGEST, which `peal module pull \
             oci://registry.example/site/report:1.2.0` prints",
        ),
        (
            "oci://registry.example/Report:1",
            "an artefact is named oci://REGISTRY/NAME:TAG",
        ),
    ] {
        place.configure(&format!("[[module]]\nname = \"report\"\npath = {path:?}\n"));
        let config = place.path("peal.toml");
        let told = run(peal(["config", "check", "--config"]).arg(config));
        let told = told.expect_status(1);
        assert!(
            format!("{}{}", told.stdout, told.stderr).contains(why),
            "{told:?}"
        );
    }
}

/// Returns the manifest of a component, as JSON, and the component.
fn artefact(component: &[u8]) -> (String, Vec<u8>) {
    let descriptor = |kind: &str, bytes: &[u8]| {
        format!(
            "{{\"mediaType\":\"{kind}\",\"digest\":\"sha256:{}\",\"size\":{}}}",
            peal_sandbox::Digest::of(bytes),
            bytes.len()
        )
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"config\":{},\"layers\":[{}]}}",
        descriptor("application/vnd.wasm.config.v0+json", b"{}"),
        descriptor("application/wasm", component),
    );
    (manifest, component.to_vec())
}

#[needs(prepared)]
#[test]
fn artefacts_of_lying_registries_are_refused() {
    let component = fs::read(guest("report")).unwrap();
    let (sound, _) = artefact(&component);
    let pin = peal_sandbox::Digest::of(sound.as_bytes());
    let mut flipped = component.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut longer = component.clone();
    longer.push(0);
    let half = &component[..component.len() / 2];
    let other = sound.replace("\"size\"", " \"size\"");
    let index = "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[]}";
    let (text, none) = artefact(b"not a component");
    let (wat, newer) = artefact(
        &wat::parse_str(r#"(component (import "peal:pmix/clock@9.0.0" (instance (export "now" (func (result u64))))))"#)
            .unwrap(),
    );
    let cases = [
        (
            "another manifest than the pinned one",
            (&*other, Answer::whole(&component)),
            Some(pin),
            "sha256",
        ),
        (
            "another component of the same size",
            (&*sound, Answer::whole(&flipped)),
            None,
            "igest",
        ),
        (
            "a component that goes on",
            (&*sound, Answer::whole(&longer)),
            None,
            "more than the",
        ),
        (
            "a component that is cut",
            (&*sound, Answer::whole(half)),
            None,
            "igest",
        ),
        (
            "a connection that is cut",
            (&*sound, Answer::cut(&component, half.len())),
            None,
            "127.0.0.1:",
        ),
        (
            "an index of artefacts",
            (index, Answer::whole(b"")),
            None,
            "the manifest is not one of",
        ),
        (
            "no JSON",
            ("<html>", Answer::whole(b"")),
            None,
            "the manifest is not one of",
        ),
        (
            "no component",
            (&*text, Answer::whole(&none)),
            None,
            "is not a component that Peal can load",
        ),
    ];
    for (what, (manifest, blob), pin, why) in cases {
        let registry = LyingRegistry::start(manifest.as_bytes(), blob);
        let told = registry.pull(pin).expect_status(125).stderr;
        assert!(
            told.contains(why) && told.contains("127.0.0.1:"),
            "{what}: {told}"
        );
        let dry = registry.pull_dry(pin).expect_status(125).stderr;
        assert!(dry.contains(why), "{what}: {dry}");
        assert!(!registry.has_written(), "{what}");
    }
    // A component of a newer contract is one, and no server of this release loads it.
    let registry = LyingRegistry::start(wat.as_bytes(), Answer::whole(&newer));
    let told = registry.pull(None).expect_status(0).stderr;
    assert!(
        told.contains(
            "no server of this release loads it: the component is built for peal:pmix 9.0.0;"
        ) && told.contains("update the server"),
        "{told}"
    );
}

#[needs(prepared)]
#[test]
fn artefact_larger_than_the_limit_is_not_read() {
    let component = fs::read(guest("report")).unwrap();
    let (manifest, _) = artefact(&component);
    let registry = LyingRegistry::start(manifest.as_bytes(), Answer::whole(&component));
    let told = registry
        .pull_with("registry.max_component_bytes=1024")
        .expect_status(125)
        .stderr;
    assert!(
        told.contains("the limit is 1024 (registry.max_component_bytes)"),
        "{told}"
    );
    let silent = LyingRegistry::silent();
    let told = silent
        .pull_with("registry.timeout_ms=200")
        .expect_status(125)
        .stderr;
    assert!(
        told.contains("within 200 ms (registry.timeout_ms)"),
        "{told}"
    );
}

#[needs(prepared, registry)]
#[test]
fn fetched_module_of_newer_contract_keeps_old_set() {
    let registry = Registry::start();
    let place = Place::new();
    signed(&place, &["--version", "1.0.0"]);
    let pinned = push(&registry, &place, "1.0.0");
    configure(&place, &registry, &pinned, "");
    let daemon = place.start();
    wait_until_active(&place);
    let text = r#"(component (import "peal:pmix/clock@9.0.0" (instance (export "now" (func (result u64))))))"#;
    fs::write(place.path("echo.wasm"), wat::parse_str(text).unwrap()).unwrap();
    fs::remove_file(place.path("echo.wasm.minisig")).unwrap();
    let newer = push(&registry, &place, "2.0.0");
    configure(&place, &registry, &newer, "");
    let mut pull = peal(["module", "pull", "--store", "--config"]);
    run(pull.arg(place.path("peal.toml")).arg(&newer)).expect_status(0);
    let refused = daemon.ask(&["reload"]).expect_status(125).stderr;
    assert!(
        refused.contains(
            "module report is built for peal:pmix 9.0.0; this server has 0.1.0 and loads modules of 0.1: update the server, or \
             build the module again with the server's `peal module build`"
        ),
        "{refused}"
    );
    assert_eq!(status(&place).unwrap().path.as_deref(), Some(&*pinned));
    stop(daemon);
}
