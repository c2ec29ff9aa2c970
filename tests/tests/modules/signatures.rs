//! Signatures of modules: the commands that make and check them, and servers that load signed
//! modules only, from any source.
use peal_client::{Client, Environment};
use peal_model::Status;
use peal_needs::needs;
use peal_server::admin::{
    AdminReply, AdminRequest, ModuleCall, ModuleList, ModuleState, request as admin_request,
};
use peal_tests::{
    daemon::{Daemon, Place},
    guest,
    in_process::{everything, listener, next, soon},
    peal, run, until,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

/// Makes a pair of keys with this name, without a password. Returns the public key.
fn keygen(place: &Place, name: &str) -> String {
    run(peal(["module", "keygen", "--no-password"]).arg(place.path(name))).expect_status(0);
    fs::read_to_string(place.path(&format!("{name}.pub")))
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .to_owned()
}

fn sign(place: &Place, key: &str, component: &Path) {
    let key = place.path(&format!("{key}.key"));
    run(
        peal(["module", "sign", "--comment", "reviewed by Ada", "--key"])
            .arg(key)
            .arg(component),
    )
    .expect_status(0);
}

fn signature(component: &Path) -> PathBuf {
    PathBuf::from(format!("{}.minisig", component.display()))
}

fn list(place: &Place) -> ModuleList {
    let reply = admin_request(&place.socket(), &AdminRequest::Module(ModuleCall::List))
        .unwrap()
        .reply()
        .unwrap();
    let AdminReply::Modules(list) = reply else {
        panic!("{reply:?}")
    };
    list
}

/// Writes the site's module `namespace-only` to a file of its own, with these settings of all
/// modules. The directory is not watched.
fn site(place: &Place, modules: &str) -> PathBuf {
    let component = place.path("namespace-only.wasm");
    fs::copy(guest("namespace-only"), &component).unwrap();
    configure(place, modules);
    component
}

fn configure(place: &Place, modules: &str) {
    place.configure(&format!(
        "[deploy]\nwatch = false\n[store]\npath = {:?}\n[modules]\n{modules}\n[[module]]\nname = \"namespace-only\"\npath = {:?}\n",
        place.path("store.db"),
        place.path("namespace-only.wasm"),
    ));
}

fn flip(component: &Path) {
    let mut bytes = fs::read(component).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(component, bytes).unwrap();
}

async fn hearing(
    daemon: &Daemon,
) -> (
    Client,
    tokio::sync::mpsc::UnboundedReceiver<peal_model::Event>,
) {
    daemon.tell(&["job", "register", "job", "-n", "1"]);
    let variables = daemon.environment("job", 0);
    let found = |name: &str| {
        variables
            .iter()
            .find(|pair| pair.0 == name)
            .map(|pair| pair.1.clone().into())
    };
    let client = soon(
        "a client connects",
        Client::connect(&Environment::from(found).unwrap()),
    )
    .await
    .unwrap();
    let (handler, heard) = listener();
    client
        .register(&[Status::PEAL_MODULES_REFUSED], everything(), handler)
        .await
        .unwrap();
    (client, heard)
}

#[needs(prepared)]
#[test]
fn keys_and_signatures_are_made_and_checked_as_minisign_does_it() {
    let place = Place::new();
    let public = keygen(&place, "site");
    assert_eq!(
        fs::metadata(place.path("site.key"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let again = run(peal(["module", "keygen", "--no-password"]).arg(place.path("site")))
        .expect_status(125)
        .stderr;
    assert!(
        again.contains("site.key is there already; keys are never overwritten"),
        "{again}"
    );
    let component = place.path("m.wasm");
    fs::copy(guest("report"), &component).unwrap();
    let verify = |key: &str| run(peal(["module", "verify", "--key", key]).arg(&component));
    let unsigned = verify(&public).expect_status(1).stderr;
    assert!(
        unsigned.contains("it is not signed: there is no "),
        "{unsigned}"
    );
    sign(&place, "site", &component);
    let told = verify(&public).expect_status(0).stdout;
    assert!(
        told.contains(" is signed with key ") && told.contains("signed comment: reviewed by Ada\n"),
        "{told}"
    );
    verify(place.path("site.pub").to_str().unwrap()).expect_status(0);
    let stranger = keygen(&place, "stranger");
    assert!(
        verify(&stranger)
            .expect_status(1)
            .stderr
            .contains("which is not trusted")
    );
    assert!(
        verify("site")
            .expect_status(2)
            .stderr
            .contains("is no public key of minisign")
    );
    fs::write(signature(&component), "no signature").unwrap();
    assert!(
        verify(&public)
            .expect_status(2)
            .stderr
            .contains("its signature should be minisign")
    );

    // A key that other users could have read is not used.
    fs::set_permissions(place.path("site.key"), Permissions::from_mode(0o640)).unwrap();
    let exposed = run(peal(["module", "sign", "--key"])
        .arg(place.path("site.key"))
        .arg(&component))
    .expect_status(125);
    assert!(
        exposed.stderr.contains("has mode 640") && exposed.stderr.contains("chmod 600"),
        "{exposed:?}"
    );

    // This key has a password.
    fs::write(place.path("password"), "open sesame\n").unwrap();
    fs::set_permissions(place.path("password"), Permissions::from_mode(0o600)).unwrap();
    let file = place.path("password");
    run(peal(["module", "keygen", "--password-file"])
        .arg(&file)
        .arg(place.path("locked")))
    .expect_status(0);
    let locked = || {
        let mut sign = peal(["module", "sign", "--key"]);
        sign.arg(place.path("locked.key")).arg(&component);
        sign
    };
    assert!(
        run(&mut locked())
            .expect_status(125)
            .stderr
            .contains("no terminal to enter the password")
    );
    let wrong = run(locked().env("PEAL_KEY_PASSWORD", "open rye"))
        .expect_status(125)
        .stderr;
    assert!(wrong.contains("Wrong password"), "{wrong}");
    run(locked().arg("--password-file").arg(&file)).expect_status(0);
    verify(place.path("locked.pub").to_str().unwrap()).expect_status(0);

    // Files that are no components are not signed. A key of minisign -W can sign.
    let core = place.path("core.wasm");
    fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
    run(peal(["module", "sign", "--key"])
        .arg(place.path("locked.key"))
        .arg(&core))
    .expect_status(125);
    let foreign = "untrusted comment: minisign encrypted secret key\n\
        RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA8Enf4mrw4Mctr5zg4pOePVIhNan6/NrtWCXa2YnoNacBM\
        Ifs+IWCAzz7FiTeU4rdUxsJhVtrhwsRruPzD+mz135uWfQ8pPYTAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
    fs::write(place.path("foreign.key"), foreign).unwrap();
    fs::set_permissions(place.path("foreign.key"), Permissions::from_mode(0o600)).unwrap();
    sign(&place, "foreign", &component);
    verify("RWTwSd/iavDgxzz7FiTeU4rdUxsJhVtrhwsRruPzD+mz135uWfQ8pPYT").expect_status(0);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn unsigned_site_module_is_refused_and_old_set_stays() {
    let place = Place::new();
    let key = keygen(&place, "site");
    let other = keygen(&place, "other");
    let rules = format!(
        "require_signature = [\"site\"]\ntrusted_keys = [{key:?}]\nuser_keys = [{other:?}]"
    );
    let component = site(&place, &rules);
    let (mut command, _states) = place.serve("unsigned");
    let refused = run(&mut command).expect_status(125).stderr;
    let says = "module namespace-only must be signed (modules.require_signature has \"site\"): it is not signed: there is no ";
    assert!(refused.contains(says), "{refused}");
    let check = || run(peal(["config", "check"]).arg(place.path("peal.toml")));
    assert!(check().expect_status(1).stderr.contains(says));
    sign(&place, "site", &component);
    check().expect_status(0);
    let daemon = place.start();
    let signer = list(&place).modules[0].signer.clone().unwrap();
    assert_eq!(signer.comment, "reviewed by Ada");
    assert!(daemon.tell(&["module", "list"]).contains(&signer.key));

    let (_client, mut heard) = hearing(&daemon).await;
    let good = fs::read(&component).unwrap();
    let before = list(&place);
    let mark = fs::read(signature(&component)).unwrap();
    let replacement = fs::read(guest("same-user")).unwrap();
    let mut counted = 0;
    let mut refuses = async |why: &str| {
        let said = daemon.ask(&["module", "reload"]).expect_status(125).stderr;
        assert!(said.contains(why), "{said}");
        assert_eq!(next(&mut heard).await.code, Status::PEAL_MODULES_REFUSED);
        assert_eq!(list(&place), before, "the old set runs on");
        counted += 1;
    };
    flip(&component);
    refuses("is of other bytes: the file, the signature or the comment in it was changed").await;
    // The signature belongs to another file.
    fs::write(&component, &replacement).unwrap();
    refuses("is of other bytes").await;
    // The key is trusted for other owners only.
    sign(&place, "other", &component);
    refuses("which is not trusted (modules.trusted_keys)").await;
    fs::remove_file(signature(&component)).unwrap();
    refuses("it is not signed").await;
    let stats = daemon.tell(&["stats", "-o", "json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let refused = stats["families"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["name"] == "peal_module_deployments_refused");
    assert_eq!(refused.unwrap()["samples"][0]["value"], counted);

    sign(&place, "site", &component);
    daemon.tell(&["module", "reload"]);
    assert_ne!(list(&place).modules[0].sha256, before.modules[0].sha256);

    // The server starts with the modules that ran last if the files are invalid, but not if no
    // trusted key signed these.
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    fs::write(&component, &good).unwrap();
    let daemon = place.start();
    assert_ne!(
        list(&place).modules[0].sha256,
        before.modules[0].sha256,
        "that which ran last"
    );
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    configure(
        &place,
        &format!("require_signature = [\"site\"]\ntrusted_keys = [{other:?}]"),
    );
    fs::write(signature(&component), mark).unwrap();
    let (mut command, _states) = place.serve("distrusted");
    assert!(
        run(&mut command)
            .expect_status(125)
            .stderr
            .contains("which is not trusted (modules.trusted_keys)")
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn reload_changes_rules_and_keys_also_for_rollback() {
    let place = Place::new();
    let old = keygen(&place, "old");
    let new = keygen(&place, "new");
    let component = site(&place, "");
    let daemon = place.start();
    assert_eq!(list(&place).modules[0].signer, None);
    // From now on modules must be signed, and this one is not.
    configure(
        &place,
        &format!("require_signature = [\"site\"]\ntrusted_keys = [{old:?}]"),
    );
    assert!(
        daemon
            .ask(&["module", "reload"])
            .expect_status(125)
            .stderr
            .contains("it is not signed")
    );
    sign(&place, "old", &component);
    let told = daemon.tell(&["module", "reload"]);
    assert!(
        told.contains("modules.require_signature has changed\nmodules.trusted_keys has changed"),
        "{told}"
    );
    let first = list(&place).modules[0].signer.clone().unwrap();
    fs::copy(guest("same-user"), &component).unwrap();
    sign(&place, "old", &component);
    daemon.tell(&["module", "reload"]);
    // With another key, the module can be signed again and goes on running.
    configure(
        &place,
        &format!("require_signature = [\"site\"]\ntrusted_keys = [{new:?}]"),
    );
    assert!(
        daemon
            .ask(&["module", "reload"])
            .expect_status(125)
            .stderr
            .contains("which is not trusted")
    );
    sign(&place, "new", &component);
    daemon.tell(&["module", "reload"]);
    let second = list(&place).modules[0].signer.clone().unwrap();
    assert_ne!(first.key, second.key);
    // It is loaded again with the current signature. A version that only the old key signed is
    // refused.
    daemon.tell(&["module", "disable", "namespace-only"]);
    daemon.tell(&["module", "enable", "namespace-only"]);
    let refused = daemon
        .ask(&["module", "rollback", "1"])
        .expect_status(125)
        .stderr;
    assert!(refused.contains("must be signed"), "{refused}");
    assert_eq!(list(&place).modules[0].signer.clone().unwrap(), second);
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn user_modules_need_signatures_by_setting_and_own_keys() {
    let place = Place::new();
    let site = keygen(&place, "site");
    let user = keygen(&place, "user");
    let below = place.path("users");
    let own = place.path("users/own");
    fs::create_dir(&below).unwrap();
    fs::create_dir(&own).unwrap();
    let me = rustix::process::geteuid();
    let uid = if me.is_root() { 1234 } else { me.as_raw() };
    let put = |name: &str, bytes: &[u8]| {
        fs::write(own.join(name), bytes).unwrap();
        fs::set_permissions(own.join(name), Permissions::from_mode(0o644)).unwrap();
        chown(own.join(name), Some(uid), None).unwrap();
    };
    fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    chown(&own, Some(uid), None).unwrap();
    put("report.wasm", &fs::read(guest("report")).unwrap());
    put(
        "report.toml",
        b"name = \"report\"\npath = \"report.wasm\"\ngrants = [\"logging\"]\n",
    );
    let configure = |owners: &str| {
        place.configure(&format!(
            "[deploy]\nwatch = false\nuser_modules_dir = {below:?}\n[modules]\nrequire_signature = {owners}\ntrusted_keys = [{site:?}]\n\
             user_keys = [{user:?}]\n"
        ));
    };
    configure("[\"site\"]");
    let daemon = place.start();
    daemon.tell(&["module", "reload"]);
    let names = || {
        list(&place)
            .modules
            .into_iter()
            .map(|module| module.name)
            .collect::<Vec<_>>()
    };
    // Modules of users are read and compiled while the server goes on.
    let runs = || {
        let is_active = |list: &ModuleList| {
            list.modules
                .first()
                .is_some_and(|module| module.state == ModuleState::Active)
        };
        until("the user's module runs", || is_active(&list(&place)));
        assert_eq!(names(), [format!("{uid}/report")]);
    };
    // Only the site's modules must be signed.
    runs();
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);

    configure("[\"site\", \"user\"]");
    let daemon = place.start();
    daemon.tell(&["module", "reload"]);
    until("the user's module is refused", || {
        !list(&place).refused.is_empty()
    });
    let refused = list(&place).refused;
    assert!(names().is_empty() && refused[0].uid == uid, "{refused:?}");
    assert!(
        refused[0]
            .why
            .contains("modules.require_signature has \"user\""),
        "{refused:?}"
    );
    for key in ["user", "site"] {
        // The user signs elsewhere, as in a home directory.
        let component = place.path("report.wasm");
        fs::copy(guest("report"), &component).unwrap();
        sign(&place, key, &component);
        put(
            "report.wasm.minisig",
            &fs::read(signature(&component)).unwrap(),
        );
        daemon.tell(&["module", "reload"]);
        until("the signature is seen", || {
            list(&place)
                .modules
                .first()
                .is_some_and(|module| module.signer.is_some())
        });
        runs();
        assert!(list(&place).refused.is_empty());
    }
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[test]
fn job_supplied_handler_is_signed_where_required() {
    let place = Place::new();
    let key = keygen(&place, "jobs");
    let component = place.path("report.wasm");
    fs::copy(guest("report"), &component).unwrap();
    let brought = |owners: &str| {
        let mut command = peal(["run", "--set"]);
        command.arg(format!("modules.require_signature={owners}"));
        command
            .args([
                "--set",
                &format!("modules.job_supplied_keys=[{key:?}]"),
                "--handler",
            ])
            .arg(&component);
        run(command.args(["--", "echo", "ran"]))
    };
    brought("[\"site\", \"user\", \"namespace\"]").expect_status(0);
    let refused = brought("[\"job-supplied\"]").expect_status(125);
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let says =
        "it must be signed (modules.require_signature has \"job-supplied\"): it is not signed";
    assert!(refused.stderr.contains(says), "{refused:?}");
    sign(&place, "jobs", &component);
    assert_eq!(
        brought("[\"job-supplied\"]").expect_status(0).stdout,
        "ran\n"
    );
    flip(&component);
    assert!(
        brought("[\"job-supplied\"]")
            .expect_status(125)
            .stderr
            .contains("is of other bytes")
    );
}

#[needs(prepared)]
#[test]
fn signature_for_another_module_or_past_time_is_invalid() {
    let place = Place::new();
    let key = keygen(&place, "site");
    let component = site(
        &place,
        &format!("require_signature = [\"site\"]\ntrusted_keys = [{key:?}]"),
    );
    let signed = |conditions: &[&str]| {
        let key = place.path("site.key");
        run(peal(["module", "sign", "--key"])
            .arg(key)
            .args(conditions)
            .arg(&component))
        .expect_status(0);
        run(peal(["config", "check", "--config"]).arg(place.path("peal.toml")))
    };
    for conditions in [
        &[][..],
        &["--module", "namespace-only"],
        &["--module", "namespace-only", "--valid-for", "1d"],
    ] {
        signed(conditions).expect_status(0);
    }
    let told = signed(&["--module", "other"]).expect_status(1);
    assert!(
        told.stderr.contains("is for a module \"other\""),
        "{told:?}"
    );
    let told = signed(&["--module", "namespace-only", "--valid-for", "1ms"]).expect_status(1);
    assert!(
        told.stderr.contains("holds no longer: it ended today"),
        "{told:?}"
    );
    run(peal(["module", "verify", "--key", &key]).arg(&component)).expect_status(1);
}
