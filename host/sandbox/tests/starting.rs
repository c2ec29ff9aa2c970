//! The engine: its cache of compiled code, and that it starts where address space is scarce.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_sandbox::{
    CacheUse, CodeReaders, CompileError, Engine, EngineError, EngineSettings, FailureKind, Grants,
    LoadError, Module, ModuleLimits, Services, compile,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{component, handle, patient, traced};

fn with_cache(dir: &Path) -> Result<Engine, EngineError> {
    Engine::new(&EngineSettings {
        cache_dir: Some(dir.to_owned()),
        ..EngineSettings::default()
    })
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn compiled_code_is_kept_on_disk_for_this_user_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("deep/cache");
    for (start, hits, misses) in [("first", 0, 1), ("second", 1, 0)] {
        let engine = with_cache(&dir).unwrap();
        let module = Module::load(
            &engine,
            "noop",
            &component("noop"),
            &Grants::none(),
            patient(),
            Services::default(),
        )
        .unwrap();
        assert!(handle(&module, 0).failure.is_none());
        assert_eq!(
            engine.cache_use(),
            Some(CacheUse { hits, misses }),
            "{start} start"
        );
    }
    assert!(!files_below(&dir).is_empty());
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o7777,
        0o700
    );
}

#[test]
fn code_compiled_elsewhere_is_found_by_engine() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("cache");
    let counting = ModuleLimits {
        fuel: Some(1_000_000_000),
        ..patient()
    };
    for (found, limits) in [(1, patient()), (2, counting)] {
        let engine = with_cache(&dir).unwrap();
        // As another process does it.
        compile(
            &dir,
            CodeReaders::Owner,
            engine.code_target(&limits).unwrap(),
            &component("noop"),
        )
        .unwrap();
        Module::load(
            &engine,
            "noop",
            &component("noop"),
            &Grants::none(),
            limits,
            Services::default(),
        )
        .unwrap();
        assert_eq!(engine.cache_use(), Some(CacheUse { hits: 1, misses: 0 }));
        let kept = files_below(&dir)
            .into_iter()
            .filter(|path| path.extension().is_none());
        assert_eq!(kept.count(), found, "one for each kind of code");
    }
    let target = with_cache(&dir).unwrap().code_target(&patient()).unwrap();
    assert!(matches!(
        compile(&dir, CodeReaders::Owner, target, b"no component"),
        Err(CompileError::Component(_))
    ));
}

#[test]
fn a_cache_that_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o770)).unwrap();
    let error = with_cache(dir.path()).err().unwrap();
    assert!(
        matches!(error, EngineError::CacheDirShared { mode: 0o770, .. }),
        "{error}"
    );
    fs::set_permissions(dir.path(), Permissions::from_mode(0o750)).unwrap();
    let error = with_cache(dir.path()).err().unwrap();
    assert!(
        matches!(error, EngineError::CacheDirShared { mode: 0o750, .. }),
        "not even read: {error}"
    );
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = with_cache(&file).err().unwrap();
    assert!(matches!(error, EngineError::CacheDir { .. }), "{error}");
}

#[test]
fn a_cache_that_others_can_replace_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let above = temporary.path().canonicalize().unwrap();
    let dir = above.join("cache");
    // also where a link of one's own leads there
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join("link");
    std::os::unix::fs::symlink(&above, &link).unwrap();
    for (mode, refused) in [
        (0o770, true),
        (0o777, true),
        (0o755, false),
        (0o1777, false),
    ] {
        fs::set_permissions(&above, Permissions::from_mode(mode)).unwrap();
        for way in [&dir, &link.join("cache")] {
            match with_cache(way) {
                Err(error) => {
                    assert!(refused, "{mode:o}: {error}");
                    assert!(
                        error
                            .to_string()
                            .contains(&format!("{} above it has owner", above.display())),
                        "{error}"
                    );
                    assert!(
                        error.to_string().contains(&format!("mode {mode:o}")),
                        "{error}"
                    );
                }
                Ok(_) => assert!(!refused, "{mode:o} is writable by others"),
            }
        }
    }
}

#[test]
fn there_are_no_more_instances_than_the_engine_has_room_for() {
    let engine = Engine::new(&EngineSettings {
        max_instances: 1,
        ..EngineSettings::default()
    })
    .unwrap();
    let load = || {
        Module::load(
            &engine,
            "noop",
            &component("noop"),
            &Grants::none(),
            patient(),
            Services::default(),
        )
    };
    let first = load().unwrap();
    let error = load().unwrap_err();
    no_room_for_a_second(&error);
    drop(first);
    assert!(load().is_ok());
}

fn no_room_for_a_second(error: &LoadError) {
    assert!(
        matches!(error, LoadError::Start { failure, .. } if failure.kind == FailureKind::Unavailable),
        "{error}"
    );
    let wanted =
        "instances of all modules would count as 2; the limit is 1 (sandbox.max_instances)";
    assert!(error.to_string().ends_with(wanted), "{error}");
}

#[test]
fn it_starts_without_a_pool_where_address_space_is_scarce() {
    const CHILD: &str = "PEAL_TEST_SCARCE";
    if std::env::var_os(CHILD).is_none() {
        return limited_to("4000000", CHILD);
    }
    let (engine, trace) = traced(|| {
        Engine::new(&EngineSettings {
            max_instances: 1,
            ..EngineSettings::default()
        })
        .unwrap()
    });
    assert!(trace.contains("not pooled"), "{trace}");
    let module = Module::load(
        &engine,
        "moody",
        &component("moody"),
        &Grants::none(),
        patient(),
        Services::default(),
    )
    .unwrap();
    assert_eq!(handle(&module, 0).status.0, 1);
    let another = || {
        Module::load(
            &engine,
            "noop",
            &component("noop"),
            &Grants::none(),
            patient(),
            Services::default(),
        )
        .map(drop)
    };
    no_room_for_a_second(&another().unwrap_err());
    assert!(handle(&module, -3).failure.is_some());
    assert_eq!(
        another().ok(),
        Some(()),
        "the instance that failed has made room"
    );
}

#[test]
fn its_pool_is_as_large_as_the_address_space_has_room_for() {
    const CHILD: &str = "PEAL_TEST_NARROW";
    if std::env::var_os(CHILD).is_none() {
        // About 2 TiB: less than a thousand instances reserve.
        return limited_to("2000000000", CHILD);
    }
    let (engine, trace) = traced(|| Engine::new(&EngineSettings::default()).unwrap());
    assert!((16..1000).contains(&engine.pooled()), "{}", engine.pooled());
    assert!(
        trace.contains("instance pool smaller than configured")
            && trace.contains(&format!("size={}", engine.pooled())),
        "{trace}"
    );
    let load = |name| {
        Module::load(
            &engine,
            name,
            &component(name),
            &Grants::none(),
            patient(),
            Services::default(),
        )
        .unwrap()
    };
    let modules: Vec<Module> = (0..16).map(|_| load("noop")).collect();
    assert!(
        modules
            .iter()
            .all(|module| handle(module, 0).failure.is_none())
    );
}

/// Runs a test once more with its address space limited to so many KiB, which a process cannot lift
/// again.
fn limited_to(kib: &str, child: &str) {
    let limited = Command::new("sh")
        .args([
            "-c",
            "ulimit -v \"$2\"; exec \"$0\" --exact \"$1\" --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .args([thread_name().as_str(), kib])
        .env(child, "1")
        .output()
        .unwrap();
    assert!(
        limited.status.success(),
        "{}",
        String::from_utf8_lossy(&limited.stdout)
    );
    assert!(String::from_utf8_lossy(&limited.stdout).contains("1 passed"));
}

fn thread_name() -> String {
    std::thread::current().name().unwrap().to_owned()
}
