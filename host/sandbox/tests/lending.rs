//! Tests of services behind capabilities: random numbers and files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{Status, code};
use peal_sandbox::{
    Capability, DirectoryService, FileAccess, GrantedDirectory, Grants, LoadError, Module, Random,
    Services,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{component, engine, handle, patient, traced};

fn load(grants: &Grants, services: Services) -> Result<Module, LoadError> {
    Module::load(
        engine(),
        "drawer",
        &component("drawer"),
        grants,
        patient(),
        services,
    )
}

/// Always the same, or nothing.
struct Die(Option<u8>);

impl Random for Die {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Status> {
        bytes.fill(self.0.ok_or(code::PMIX_ERR_NOT_AVAILABLE)?);
        Ok(())
    }
}

#[test]
fn random_numbers_come_from_system_or_source_of_host() {
    let module = load(&Grants::all(), Services::default()).unwrap();
    let drawn: std::collections::BTreeSet<i32> =
        (0..20).map(|_| handle(&module, 0).status.0).collect();
    assert!(drawn.len() > 15, "{drawn:?}");
    assert_eq!(handle(&module, 65_536).status, Status(65_536));
    assert_eq!(handle(&module, 65_537).status, code::PMIX_ERR_BAD_PARAM);
    let with = |die| {
        load(
            &Grants::all(),
            Services {
                random: Some(Arc::new(die)),
                ..Services::default()
            },
        )
        .unwrap()
    };
    assert_eq!(handle(&with(Die(Some(1))), 0).status, Status(0x0101_0101));
    assert_eq!(
        handle(&with(Die(None)), 5).status,
        code::PMIX_ERR_NOT_AVAILABLE
    );
    assert_eq!(
        handle(&with(Die(None)), 0).status,
        Status::PEAL_ERR_MODULE_TRAPPED
    );
}

#[test]
fn files_are_read_where_a_directory_is_lent() {
    let temporary = tempfile::tempdir().unwrap();
    let directory: Arc<dyn DirectoryService> =
        Arc::new(GrantedDirectory::open(temporary.path(), FileAccess::Read).unwrap());
    let files = BTreeMap::from([("data".to_owned(), directory)]);
    let module = load(
        &Grants::all(),
        Services {
            files,
            ..Services::default()
        },
    )
    .unwrap();
    assert_eq!(handle(&module, -1).status, code::PMIX_ERR_NOT_FOUND);
    std::fs::write(temporary.path().join("note"), "A note").unwrap();
    assert_eq!(handle(&module, -1).status, Status(i32::from(b'A')));
    let without = load(&Grants::all(), Services::default()).unwrap();
    assert_eq!(handle(&without, -1).status, code::PMIX_ERR_NOT_FOUND);
}

#[test]
fn lent_resources_must_be_granted() {
    for missing in [Capability::Random, Capability::Files] {
        let grants = Capability::ALL
            .into_iter()
            .filter(|capability| *capability != missing)
            .collect();
        let error = load(&grants, Services::default()).unwrap_err();
        assert!(
            matches!(error, LoadError::NotGranted { interface, .. } if interface == missing),
            "{error}"
        );
    }
}

fn worldly(grants: impl IntoIterator<Item = Capability>) -> Result<Module, LoadError> {
    let grants = grants.into_iter().collect();
    Module::load(
        engine(),
        "worldly",
        &component("worldly"),
        &grants,
        patient(),
        Services::default(),
    )
}

#[test]
fn wasi_imports_are_satisfied_and_reach_nothing() {
    let error = worldly([Capability::Logging]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("imports WASI 0.2, which it is not granted (add \"wasi\" to its grants)"),
        "{error}"
    );
    let quiet = worldly([Capability::Wasi]).unwrap();
    let (result, trace) = traced(|| handle(&quiet, 0));
    assert_eq!(
        (result.status, result.failure),
        (Status(0b11_1111_1111), None)
    );
    assert!(
        result.usage.host_calls >= 14,
        "each is a host call: {:?}",
        result.usage
    );
    assert!(!trace.contains("worldly"), "{trace}");
    let loud = worldly([Capability::Wasi, Capability::Logging]).unwrap();
    let (result, trace) = traced(|| handle(&loud, 0));
    assert_eq!(result.status, Status(0b11_1111_1111));
    assert!(trace.contains("a line of the worldly"), "{trace}");
    for _ in 0..2000 {
        assert_eq!(
            handle(&quiet, 0).failure,
            None,
            "what is given back can be had again"
        );
    }
}

#[test]
fn wasi_can_neither_end_the_process_nor_fill_its_memory() {
    let module = worldly([Capability::Wasi]).unwrap();
    for (code, why) in [(-1, "wasi:cli/exit"), (-2, "limit of 1024")] {
        let failure = handle(&module, code).failure.unwrap();
        assert!(failure.reason.contains(why), "{failure}");
    }
}
