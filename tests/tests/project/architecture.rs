//! Rules of the workspace: the permitted dependencies between crates, doc comments of the contract,
//! and conventions that a reader relies on.
use peal_needs::needs;
use peal_tests::root;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};
use wit_parser::{Docs, Resolve, Type, TypeDef, TypeDefKind};

type Names = BTreeSet<String>;

/// Workspace crates that each crate depends on. Every dependency points down. `cli` may depend on
/// all.
const DEPENDENCIES: [(&str, &[&str]); 29] = [
    ("build", &["declaration"]),
    ("confinement", &[]),
    ("declaration", &[]),
    ("frames", &[]),
    ("model", &[]),
    ("wire", &["model"]),
    ("stub", &["frames", "model"]),
    ("core", &["model"]),
    ("handover", &["core", "model"]),
    ("cluster", &["core", "frames", "model"]),
    ("proxy", &["core", "model", "wire"]),
    ("config", &["core", "model", "sinks"]),
    ("sandbox", &["declaration", "model"]),
    ("store", &["model"]),
    ("sinks", &["model", "store"]),
    ("audit", &["core", "frames", "model", "sandbox", "store"]),
    ("system", &["core", "model"]),
    ("helper", &["core", "frames", "model", "system"]),
    ("tenant", &["frames", "model", "sandbox", "system"]),
    (
        "server",
        &[
            "audit", "cluster", "core", "handover", "helper", "model", "sandbox", "store", "stub",
            "system", "tenant", "wire",
        ],
    ),
    (
        "launcher",
        &[
            "core", "helper", "model", "sandbox", "server", "system", "wire",
        ],
    ),
    ("client", &["core", "model", "sandbox", "wire"]),
    ("libpmix", &["client", "model", "stub", "wire"]),
    (
        "modules",
        &[
            "audit",
            "config",
            "core",
            "declaration",
            "model",
            "registry",
            "sandbox",
            "server",
            "sinks",
            "store",
            "tenant",
        ],
    ),
    ("registry", &["config", "sandbox"]),
    ("nats", &["cluster", "config", "core", "model"]),
    (
        "telemetry",
        &[
            "audit", "core", "model", "sandbox", "server", "sinks", "store",
        ],
    ),
    ("console", &["audit", "model", "server", "sinks", "store"]),
    ("devtools", &["build", "config", "core", "model", "sandbox"]),
];

fn manifest(crate_name: &str) -> toml::Table {
    fs::read_to_string(root().join("host").join(crate_name).join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns the dependencies of a crate, of all kinds.
fn dependencies(manifest: &toml::Table) -> Names {
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    tables
        .iter()
        .filter_map(|table| manifest.get(*table)?.as_table())
        .flat_map(|table| table.keys().cloned())
        .collect()
}

/// Returns all transitive dependencies of a crate, from the lock file.
fn closure(package: &str) -> Names {
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock"))
        .unwrap()
        .parse()
        .unwrap();
    let mut needs: BTreeMap<&str, Names> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let names = package
            .get("dependencies")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten();
        // If there are several versions of a crate, the version follows its name.
        let names = names.map(|name| name.as_str().unwrap().split(' ').next().unwrap().to_owned());
        needs
            .entry(package["name"].as_str().unwrap())
            .or_default()
            .extend(names);
    }
    let mut found = Names::new();
    let mut open = vec![package.to_owned()];
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            open.extend(needs[name.as_str()].iter().cloned());
        }
    }
    found
}

#[test]
fn crate_dependencies_point_one_way() {
    let mut crates: Names = fs::read_dir(root().join("host"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(crates.remove("cli"));
    assert_eq!(
        crates,
        DEPENDENCIES
            .iter()
            .map(|entry| entry.0.to_owned())
            .collect(),
        "each crate of host/ must be listed in DEPENDENCIES"
    );
    for (crate_name, allowed) in DEPENDENCIES {
        let manifest = manifest(crate_name);
        assert_eq!(
            manifest["package"]["name"].as_str(),
            Some(format!("peal-{crate_name}").as_str())
        );
        let known = dependencies(&manifest);
        // A crate may depend on itself, to test what one of its features adds. The attribute of
        // tests does not count.
        let known = known.iter().filter_map(|name| name.strip_prefix("peal-"));
        let known = known.filter(|name| *name != crate_name && *name != "needs");
        // Tests of the state machines have other processes continue their states.
        let known = known.filter(|name| (crate_name, *name) != ("core", "handover"));
        let known: Vec<&str> = known.collect();
        assert_eq!(known, allowed, "dependencies of peal-{crate_name}");
    }
}

#[test]
fn state_machines_and_the_wire_know_neither_runtime_nor_engine() {
    assert!(
        closure("peal-server")
            .is_superset(&Names::from(["tokio".to_owned(), "wasmtime".to_owned()]))
    );
    for crate_name in ["model", "wire", "core", "cluster", "proxy"] {
        let all = closure(&format!("peal-{crate_name}"));
        let strange: Vec<&String> = all
            .iter()
            .filter(|name| name.starts_with("tokio") || name.starts_with("wasmtime"))
            .collect();
        assert!(
            strange.is_empty(),
            "peal-{crate_name} must not depend on {strange:?}"
        );
    }
}

/// Returns the items without a doc comment.
fn unexplained(wit: &Resolve) -> Vec<String> {
    let mut missing = Vec::new();
    let mut check = |name: String, docs: &Docs| {
        if docs
            .contents
            .as_ref()
            .is_none_or(|text| text.trim().is_empty())
        {
            missing.push(name);
        }
    };
    for (_, world) in &wit.worlds {
        check(format!("world {}", world.name), &world.docs);
    }
    for (_, interface) in &wit.interfaces {
        let of = interface.name.clone().unwrap_or_default();
        check(of.clone(), &interface.docs);
        for function in interface.functions.values() {
            check(format!("{of}.{}", function.name), &function.docs);
        }
        for (name, id) in &interface.types {
            let item = &wit.types[*id];
            if is_use(wit, item) {
                continue;
            }
            check(format!("{of}.{name}"), &item.docs);
            for (member, docs) in members(item) {
                check(format!("{of}.{name}.{member}"), docs);
            }
        }
    }
    missing
}

/// Returns true if a type comes from another interface by `use`, and is documented there.
fn is_use(wit: &Resolve, item: &TypeDef) -> bool {
    matches!(item.kind, TypeDefKind::Type(Type::Id(other)) if wit.types[other].owner != item.owner)
}

fn members(item: &TypeDef) -> Vec<(&String, &Docs)> {
    match &item.kind {
        TypeDefKind::Record(record) => record
            .fields
            .iter()
            .map(|field| (&field.name, &field.docs))
            .collect(),
        TypeDefKind::Flags(flags) => flags
            .flags
            .iter()
            .map(|flag| (&flag.name, &flag.docs))
            .collect(),
        TypeDefKind::Enum(cases) => cases
            .cases
            .iter()
            .map(|case| (&case.name, &case.docs))
            .collect(),
        TypeDefKind::Variant(cases) => cases
            .cases
            .iter()
            .map(|case| (&case.name, &case.docs))
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_contract_explains_every_item() {
    let mut bare = Resolve::default();
    let text = "package a:b; interface i { use j.{e}; record r { f: e } flags g { h } variant v { c } k: func(); }
                /// said
                interface j { /// said
                    enum e { d } } world w {}";
    bare.push_str("bare.wit", text).unwrap();
    let mut missing = unexplained(&bare);
    missing.sort();
    assert_eq!(
        missing,
        [
            "i", "i.g", "i.g.h", "i.k", "i.r", "i.r.f", "i.v", "i.v.c", "j.e.d", "world w"
        ]
    );

    let mut contract = Resolve::default();
    contract.push_dir(root().join("wit")).unwrap();
    assert!(
        contract.interfaces.len() >= 7 && contract.worlds.len() >= 3,
        "this is not the contract"
    );
    assert_eq!(unexplained(&contract), Vec::<String>::new());
}

/// Returns the files of the repository, including untracked ones that are not ignored.
fn files() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    // The owner of the repository does not matter for reading.
    git.arg("-C").arg(root()).args([
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
    ]);
    let listed = git.arg("--exclude-standard").output().unwrap();
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let names = String::from_utf8(listed.stdout).unwrap();
    // A file that was just deleted is still listed.
    let files: Vec<PathBuf> = names
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|file| root().join(file).is_file())
        .collect();
    assert!(files.len() > 100, "{files:?}");
    files
}

pub(super) fn source_files() -> impl Iterator<Item = (PathBuf, String)> {
    let rust = files()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|file| {
        (
            file.clone(),
            fs::read_to_string(root().join(&file)).unwrap(),
        )
    })
}

#[needs(git)]
#[test]
fn repository_refers_to_no_outside_files() {
    // The text is assembled here, since otherwise this file would contain the reference.
    let outside = ["..", "shared"].join("/");
    for file in files() {
        let text = String::from_utf8_lossy(&fs::read(root().join(&file)).unwrap()).into_owned();
        assert!(
            !text.contains(&outside),
            "{} refers to {outside}",
            file.display()
        );
    }
}

#[needs(git)]
#[test]
fn every_source_file_begins_with_its_contents() {
    for (file, text) in source_files() {
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("//! ") && first.len() > 20,
            "{} begins with {first:?}",
            file.display()
        );
    }
}

/// Checks that a document names more than `least` tests as `file::test`, that they exist, and that
/// each claiming line names one.
fn check_named_tests(document: &str, least: usize, is_claim: impl Fn(&str) -> bool) {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let shown: Vec<(&str, &str)> = text
        .split('`')
        .filter_map(|span| span.split_once(".rs::"))
        .collect();
    assert!(shown.len() > least, "{document}: {shown:?}");
    for (file, test) in shown {
        let file = root().join(file).with_extension("rs");
        // A test may be in a module of its file.
        let test = test.rsplit("::").next().unwrap();
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let begins = [format!("fn {test}("), format!("async fn {test}(")];
        let at = lines
            .iter()
            .position(|line| begins.iter().any(|begin| line.starts_with(begin.as_str())));
        let at = at.unwrap_or_else(|| panic!("{document}: {} has no {test}", file.display()));
        let mut marks = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#["));
        let manifest = || fs::read_to_string(file.with_file_name("../Cargo.toml")).unwrap();
        assert!(
            marks.any(|mark| mark.starts_with("#[test]") || mark.starts_with("#[tokio::test"))
                || test == "main" && manifest().contains("harness = false"),
            "{document}: {test} in {} is no test",
            file.display()
        );
    }
    for claim in text.lines().filter(|line| is_claim(line)) {
        assert!(
            claim.contains(".rs::"),
            "{document}: shown by nothing: {claim}"
        );
    }
}

/// Returns true if a line is a row of a table, but not its head.
fn is_row(line: &str) -> bool {
    line.starts_with("| ") && !line.ends_with("| shown by |")
}

/// Number of findings of the security review.
const FINDINGS: u32 = 16;

#[test]
fn each_threat_names_tests_that_exist() {
    check_named_tests("THREATS.md", 40, is_row);
}

#[test]
fn each_finding_of_security_review_names_tests() {
    let text = fs::read_to_string(root().join("THREATS.md")).unwrap();
    let (_, rest) = text
        .split_once("## Findings of the security review\n")
        .unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| is_row(line));
    let numbers = rows.filter_map(|line| line.split(' ').nth(1)?.parse::<u32>().ok());
    // That the tests exist is checked with those of all rows.
    assert!(numbers.eq(1..=FINDINGS), "a finding has no row");
}

#[test]
fn each_difference_names_tests_that_exist() {
    check_named_tests("docs/src/reference/conformance.md", 40, is_row);
}

#[test]
fn each_quota_names_tests_that_exist() {
    check_named_tests("docs/src/reference/quotas.md", 25, is_row);
}

#[test]
fn each_invariant_names_tests_that_exist() {
    let is_invariant = |line: &str| line.contains("**Invariant");
    check_named_tests("ARCHITECTURE.md", 40, is_invariant);
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let count = text.lines().filter(|line| is_invariant(line)).count();
    assert!(count > 40, "{count} invariants");
    assert!(text.lines().count() < 300, "a reader has an end of it");
}

/// Returns the lines in which a test may end without having tested anything, or that announce it:
/// `return` without a value in a function marked `#[test]`, and words about skipping.
fn silent_ends(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if code.starts_with("println!(\"skip") || code.starts_with("eprintln!(\"skip") {
            found.push(code.to_owned());
        }
        if !(code.starts_with("#[test]") || code.starts_with("#[tokio::test")) {
            continue;
        }
        // Sources are formatted, so the end of a function has the same indentation as its
        // beginning.
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        let body = lines[at..]
            .iter()
            .take_while(|line| **line != end)
            .map(|line| line.trim());
        // Examples are quoted, and comments are no code.
        let body = body.filter(|code| !code.starts_with('"') && !code.starts_with("//"));
        let silent = ["return;", "return }", "return println!"];
        found.extend(
            body.filter(|code| silent.iter().any(|end| code.contains(end)))
                .map(str::to_owned),
        );
    }
    found
}

#[needs(git)]
#[test]
fn tests_that_cannot_run_are_ignored_and_never_pass() {
    let example = [
        "#[test]",
        "fn passes() {",
        "    let Some(program) = program() else { return };",
        "    if is_away() {",
        "        return;",
        "    }",
        "    let Ok(done) = run() else { return println!() };",
        "    let long = find().map(|found| return found);",
        "}",
        "fn helps() {",
        "    let Some(program) = program() else { return };",
        "    println!(\"skipped: nothing is there\");",
        "}",
    ];
    assert_eq!(
        silent_ends(&example.join("\n")),
        [2, 4, 6, 11].map(|line| example[line].trim())
    );
    for (file, text) in source_files() {
        let ends = silent_ends(&text);
        assert!(
            ends.is_empty(),
            "{}: a test must declare its needs by `#[needs(..)]`, not by {ends:#?}",
            file.display()
        );
    }
}
