//! `peal module inspect`: its output for the components that ship, for invalid components, and for
//! pipelines.
use peal_needs::needs;
use peal_tests::{guest, peal, root, run};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn inspect(args: &[&str], component: &Path) -> (Value, i32) {
    let done = run(peal(["module", "inspect", "-o", "json"])
        .args(args)
        .arg(component));
    (
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}")),
        done.status.unwrap(),
    )
}

fn put(dir: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Returns a component that consists of these imports only.
fn importing(imports: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {imports})")).unwrap()
}

#[needs(prepared)]
#[test]
fn every_field_of_the_schema_is_there_and_documented() {
    let dir = tempfile::tempdir().unwrap();
    let policy = put(&dir, "policy.toml", "roles = []");
    let (told, status) = inspect(&["--policy", policy.to_str().unwrap()], &guest("report"));
    assert_eq!((status, &told["schema"]), (1, &json!(1)));
    let documented = fs::read_to_string(root().join("docs/src/audit/inspect.md")).unwrap();
    let fields = |value: &Value, prefix: &str| -> Vec<String> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(|key| format!("`{prefix}{key}`"))
            .collect()
    };
    let all = [
        (&told, ""),
        (&told["signature"], "signature."),
        (&told["terms"][0], "terms[]."),
        (&told["policy"], "policy."),
    ];
    for field in all
        .into_iter()
        .flat_map(|(value, prefix)| fields(value, prefix))
    {
        assert!(
            documented.contains(&field),
            "docs/src/audit/inspect.md lacks {field}"
        );
    }
    let top: BTreeSet<&str> = told
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let wanted = "schema file digest size roles capabilities imports contract unknown_imports other_exports producers \
        declaration signature terms policy";
    assert_eq!(top, wanted.split_whitespace().collect());
}

#[needs(prepared)]
#[test]
fn each_interface_is_shown_with_functions_and_its_rule() {
    let (told, _) = inspect(&[], &guest("report"));
    assert_eq!(told["contract"], json!(["0.1.0"]));
    let imports = told["imports"].as_array().unwrap();
    let logging = imports
        .iter()
        .find(|import| import["name"] == "peal:pmix/logging@0.1.0")
        .unwrap();
    assert_eq!(
        logging,
        &json!({ "name": "peal:pmix/logging@0.1.0", "kind": "capability", "capability": "logging", "functions": ["log"] })
    );
    assert!(
        imports
            .iter()
            .any(|import| import["kind"] == "call" && import["capability"].is_null())
    );
    let brought = &told["terms"][0];
    assert_eq!(
        (&brought["scope"], &brought["module"], &brought["loads"]),
        (&json!("job-supplied"), &Value::Null, &json!(true))
    );
    let terms = |told: &Value, interface: &str| -> (String, String) {
        let all = told["terms"][0]["interfaces"].as_array().unwrap();
        let of = all
            .iter()
            .find(|of| of["interface"].as_str().unwrap().contains(interface))
            .unwrap();
        (
            of["verdict"].as_str().unwrap().to_owned(),
            of["rule"].as_str().unwrap().to_owned(),
        )
    };
    let pair = |verdict: &str, rule: &str| (verdict.to_owned(), rule.to_owned());
    assert_eq!(terms(&told, "logging"), pair("granted", "tenant.grants"));
    assert_eq!(
        terms(&told, "pmix/types"),
        pair("always", "linked for every module")
    );

    // The tenant's bound on grants, and the grants of a `[[module]]` within it.
    let dir = tempfile::tempdir().unwrap();
    let configured = |text: &str| {
        let file = put(
            &dir,
            "peal.toml",
            text.replace("FILE", guest("report").to_str().unwrap()),
        );
        inspect(&["--config", file.to_str().unwrap()], &guest("report")).0
    };
    let none = configured("[[module]]\nname = \"mine\"\npath = \"FILE\"\n");
    let (verdict, rule) = terms(&none, "logging");
    assert!(
        verdict == "denied"
            && rule.starts_with("module.grants does not have it (")
            && rule.ends_with("peal.toml:1:1)"),
        "{rule}"
    );
    assert_eq!(none["terms"][0]["loads"], json!(false));
    let granted =
        configured("[[module]]\nname = \"mine\"\npath = \"FILE\"\ngrants = [\"logging\"]\n");
    assert!(
        terms(&granted, "logging").1.ends_with("peal.toml:4:1)"),
        "{granted}"
    );
    let tenant = "[tenant]\ngrants = []\n[[module]]\nname = \"mine\"\npath = \"FILE\"\ngrants = [\"logging\"]\nscope = \"namespace:a\"\n";
    assert_eq!(
        terms(&configured(tenant), "logging"),
        pair("denied", "tenant.grants does not have it")
    );

    // The component is not a configured module.
    let (user, _) = inspect(&["--scope", "user"], &guest("quota"));
    assert_eq!(
        terms(&user, "state"),
        pair("granted", "if module.grants has it; tenant.grants does")
    );
    assert_eq!(user["terms"].as_array().unwrap().len(), 1);
    let problems = user["terms"][0]["problems"].to_string();
    assert!(problems.contains("which belongs to the site"), "{problems}");
    let (site, _) = inspect(&["--scope", "site"], &guest("quota"));
    assert!(
        site["terms"][0]["loads"] == true && site["terms"][0]["limits"]["failures"] == "10",
        "{site}"
    );
    let (brought, _) = inspect(&["--scope", "job-supplied"], &guest("quota"));
    assert!(
        brought["terms"][0]["problems"][0]
            .as_str()
            .unwrap()
            .starts_with("exports no peal:pmix/event-handler")
    );
    run(peal(["module", "inspect", "--scope", "mine"]).arg(guest("quota"))).expect_status(2);
}

#[needs(prepared)]
#[test]
fn wasi_is_shown_as_stand_in_and_missing_parts_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = importing(
        r#"(import "wasi:cli/exit@0.2.3" (instance (export "exit" (func))))
           (import "wasi:http/handler@0.2.3" (instance (export "handle" (func)) (export "other" (func))))
           (import "peal:pmix/clock@0.9.0" (instance (export "now" (func (result u64)))))"#,
    );
    let component = put(&dir, "stranger.wasm", bytes);
    let (told, _) = inspect(&[], &component);
    let verdicts: Vec<&str> = told["terms"][0]["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["stubbed", "not-offered", "not-offered"]);
    assert_eq!(told["imports"][1]["functions"], json!(["handle", "other"]));
    assert_eq!(
        (&told["imports"][1]["kind"], &told["contract"]),
        (&json!("unknown"), &json!(["0.9.0"]))
    );
    let policy = put(&dir, "any.toml", "");
    assert_eq!(
        inspect(&["--policy", policy.to_str().unwrap()], &component).1,
        2,
        "Peal does not load it"
    );
    let text = run(peal(["module", "inspect"]).arg(&component))
        .expect_status(0)
        .stdout;
    assert!(
        text.contains("  wasi:http/handler@0.2.3: handle, other\n"),
        "{text}"
    );
    assert!(
        text.contains("  stubbed      wasi:cli/exit@0.2.3: tenant.grants\n"),
        "{text}"
    );
    assert!(text.contains("  not loaded   it fills no role"), "{text}");
    for (name, bytes) in [
        ("core.wasm", &b"\0asm\x01\0\0\0"[..]),
        ("text.wasm", b"(component)"),
        ("empty.wasm", b""),
    ] {
        let none = run(peal(["module", "inspect"]).arg(put(&dir, name, bytes))).expect_status(2);
        assert!(
            none.stdout.is_empty() && none.stderr.contains(name),
            "{none:?}"
        );
    }
    run(peal(["module", "inspect"]).arg(dir.path().join("nowhere.wasm"))).expect_status(125);
}

#[needs(prepared)]
#[test]
fn a_policy_names_each_rule_that_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let judge = |policy: &str, component: &Path| {
        let policy = put(&dir, "policy.toml", policy);
        let (told, status) = inspect(&["--policy", policy.to_str().unwrap()], component);
        let broken = told["policy"]["broken"].as_array().unwrap();
        assert_eq!(told["policy"]["acceptable"], json!(broken.is_empty()));
        assert_eq!(status, i32::from(!broken.is_empty()));
        broken
            .iter()
            .map(|broken| {
                format!(
                    "{}: {}",
                    broken["rule"].as_str().unwrap(),
                    broken["message"].as_str().unwrap()
                )
            })
            .collect::<Vec<_>>()
    };
    let report = guest("report");
    let size = fs::metadata(&report).unwrap().len();
    assert_eq!(judge("", &report), Vec::<String>::new());
    let generous = format!(
        "roles = [\"event-handler\"]\ncapabilities = [\"logging\"]\nwasi = []\nwit = [\"0.1\"]\nmax_size = {size}"
    );
    assert_eq!(judge(&generous, &report), Vec::<String>::new());
    let strict = "roles = [\"log-channel\"]\ncapabilities = []\nwit = [\"0.2\"]\nmax_size = 10\n\
        signed_by = [\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]";
    let broken = judge(strict, &report);
    assert_eq!(
        broken[..4],
        [
            "roles: it fills the role \"event-handler\"".to_owned(),
            "capabilities: it imports the capability \"logging\"".to_owned(),
            "wit: it is built for peal:pmix@0.1.0".to_owned(),
            format!("max_size: it has {size} bytes, 10 are allowed"),
        ]
    );
    assert!(
        broken[4].starts_with("signed_by: it is not signed: there is no "),
        "{broken:?}"
    );
    let text = run(peal(["module", "inspect", "--policy"])
        .arg(dir.path().join("policy.toml"))
        .arg(&report))
    .expect_status(1)
    .stdout;
    assert!(
        text.contains("does not accept it:\n  roles: it fills the role"),
        "{text}"
    );
    for (wrong, says) in [
        ("roles = [\"hero\"]", "unknown variant `hero`"),
        ("capability = []", "unknown field `capability`"),
        ("signed_by = [\"me\"]", "is no public key of minisign"),
        ("max_size = -1", "invalid value"),
    ] {
        let policy = put(&dir, "wrong.toml", wrong);
        let told = run(peal(["module", "inspect", "--policy"])
            .arg(policy)
            .arg(&report))
        .expect_status(125)
        .stderr;
        assert!(told.contains(says), "{told}");
    }
}

#[needs(prepared)]
#[test]
fn signer_is_shown_with_its_validity() {
    let dir = tempfile::tempdir().unwrap();
    let component = put(&dir, "report.wasm", fs::read(guest("report")).unwrap());
    let state = |told: &Value| told["signature"]["state"].as_str().unwrap().to_owned();
    assert_eq!(state(&inspect(&[], &component).0), "none");
    run(peal(["module", "keygen", "--no-password"]).arg(dir.path().join("user"))).expect_status(0);
    run(peal(["module", "sign", "--comment", "by hand", "--key"])
        .arg(dir.path().join("user.key"))
        .arg(&component))
    .expect_status(0);
    let (untrusted, _) = inspect(&[], &component);
    assert_eq!(state(&untrusted), "untrusted");
    let key = fs::read_to_string(dir.path().join("user.pub"))
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    let site = put(
        &dir,
        "peal.toml",
        format!(
            "[modules]\nrequire_signature = [\"user\", \"job-supplied\"]\nuser_keys = [{key:?}]\n"
        ),
    );
    let site = ["--config", site.to_str().unwrap()];
    let (valid, _) = inspect(&site, &component);
    let told = &valid["signature"];
    assert_eq!(
        (state(&valid), &told["trusted_for"], &told["comment"]),
        ("valid".to_owned(), &json!(["user"]), &json!("by hand"))
    );
    assert_eq!(
        (&told["public_key"], &told["key"]),
        (&json!(key), &untrusted["signature"]["key"])
    );
    let problem = valid["terms"][0]["problems"][0].as_str().unwrap();
    assert!(
        problem.starts_with("must be signed (modules.require_signature has \"job-supplied\")"),
        "{problem}"
    );
    let (user, _) = inspect(&[site[0], site[1], "--scope", "user"], &component);
    assert_eq!(user["terms"][0]["loads"], json!(true));
    let policy = put(&dir, "policy.toml", format!("signed_by = [{key:?}]"));
    let (accepted, status) = inspect(&["--policy", policy.to_str().unwrap()], &component);
    assert_eq!(
        (
            status,
            state(&accepted),
            &accepted["signature"]["trusted_for"]
        ),
        (0, "valid".to_owned(), &json!([]))
    );
    let mut bytes = fs::read(&component).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&component, bytes).unwrap();
    let (wrong, status) = inspect(&["--policy", policy.to_str().unwrap()], &component);
    assert_eq!((status, state(&wrong)), (1, "wrong".to_owned()));
    put(&dir, "report.wasm.minisig", "soon");
    assert_eq!(state(&inspect(&[], &component).0), "unreadable");
}
