//! Tests of the files of new projects.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
use super::*;
use crate::module_test::Cases;
use peal_sandbox::Capability;

fn roles(roles: &[Role]) -> BTreeSet<Role> {
    roles.iter().copied().collect()
}

#[test]
fn every_language_and_role_makes_project_with_manifest() {
    for language in Language::ALL {
        for role in Role::ALL
            .into_iter()
            .filter(|role| *role != Role::Lifecycle)
        {
            let chosen = roles(&[role, Role::Lifecycle]);
            let files = files("a-1", language, &chosen, SdkOrigin::Copied).unwrap();
            let text = |name: &str| &files.iter().find(|(path, _)| path == name).unwrap().1;
            let manifest = Manifest::parse(text(MANIFEST)).unwrap();
            assert_eq!(
                (manifest.name.as_str(), manifest.language),
                ("a-1", language)
            );
            assert_eq!(manifest.roles, [role.name(), "lifecycle"]);
            assert!(text("README.md").contains("peal module build"));
            let cases =
                Cases::parse(Path::new("example.toml"), text("tests/example.toml")).unwrap();
            assert!(cases.len() >= 2, "{role} and its settings");
            let own = files.iter().filter(|(path, _)| !path.starts_with("sdk/"));
            for (path, text) in own {
                assert!(
                    !text.contains("MODULE"),
                    "{path} of {language} {role}: {text}"
                );
            }
        }
    }
}

#[test]
fn the_capabilities_of_projects_are_those_of_the_host_but_wasi() {
    let of_host: BTreeSet<&str> = Capability::ALL.map(Capability::name).into();
    let of_projects: BTreeSet<&str> = peal_build::capabilities()
        .chain([Capability::Wasi.name()])
        .collect();
    assert_eq!(of_projects, of_host);
}

#[test]
fn invalid_project_is_refused_with_valid_choices() {
    let handler = roles(&[Role::EventHandler]);
    for name in [
        "",
        "A",
        "1a",
        "a--b",
        "a-",
        "a/b",
        "../a",
        "a_b",
        &"a".repeat(65),
    ] {
        assert!(
            matches!(
                files(name, Language::C, &handler, SdkOrigin::Copied),
                Err(ProjectError::Name { .. })
            ),
            "{name:?}"
        );
    }
    assert!(matches!(
        files(
            "a",
            Language::C,
            &roles(&[Role::Lifecycle]),
            SdkOrigin::Copied
        ),
        Err(ProjectError::OnlyLifecycle)
    ));
    let unknown = role("handler").unwrap_err().to_string();
    assert!(
        unknown.contains("event-handler") && unknown.contains("log-channel"),
        "{unknown}"
    );
}

#[test]
fn nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("a");
    let handler = roles(&[Role::EventHandler]);
    let files = files("a", Language::Python, &handler, SdkOrigin::Copied).unwrap();
    write(&project, &files).unwrap();
    assert!(project.join("sdk/python/peal/__init__.py").is_file());
    fs::write(project.join("module.py"), "mine").unwrap();
    assert!(matches!(
        write(&project, &files),
        Err(ProjectError::Exists { .. })
    ));
    assert_eq!(
        fs::read_to_string(project.join("module.py")).unwrap(),
        "mine"
    );
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert!(matches!(
        write(&link, &files),
        Err(ProjectError::Exists { .. })
    ));
}

#[test]
fn project_with_installed_sdk_has_no_copy_and_refers_to_it() {
    let channel = roles(&[Role::LogChannel]);
    for (language, file, line) in [
        (
            Language::Rust,
            "Cargo.toml",
            "peal-sdk = { path = \"deps/peal\" }",
        ),
        (Language::Go, "go.mod", "replace peal => ./deps/peal"),
        (
            Language::Js,
            "module.js",
            "import * as sink from \"peal-sdk/sink.js\";",
        ),
        (
            Language::Ts,
            "module.ts",
            "import * as peal from \"peal-sdk/peal.js\";",
        ),
        (Language::C, "module.c", "#include <peal.h>"),
        (Language::Cpp, "module.cpp", "#include <peal.hpp>"),
        (
            Language::Python,
            "README.md",
            "PYTHONPATH=deps/peal python3 -m unittest",
        ),
    ] {
        let sdk = SdkOrigin::Installed(Path::new("deps/peal"));
        let files = files("a", language, &channel, sdk).unwrap();
        let text = |name: &str| &files.iter().find(|(path, _)| path == name).unwrap().1;
        assert!(text(file).contains(line), "{language}: {}", text(file));
        let manifest = Manifest::parse(text(MANIFEST)).unwrap();
        assert_eq!(manifest.sdk, Path::new("deps/peal"));
        for (path, text) in &files {
            assert!(!path.starts_with("sdk/"), "{language}: {path}");
            assert!(!text.contains("LIBRARY"), "{language}: {path}: {text}");
        }
    }
}
