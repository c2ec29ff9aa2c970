//! Tests of sharing among instances, modules and tenants: memory, budgets, and which module a
//! failure counts for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{Event, Nspace, Proc, Rank, Status};
use peal_sandbox::{
    Engine, EngineSettings, FailureKind, FuelCount, Grants, HandlerResult, Isolation, LimitKind,
    LoadError, Module, ModuleLimits, Services, Tenant, TenantLimits,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{call, component, edited, engine, event, handle, load, patient};

const PAGE: usize = 65_536;

/// Calls a module for an event that a proc of this namespace has raised, or no proc if it is empty.
fn handle_of(module: &Module, nspace: &str, code: i32) -> HandlerResult {
    let source = (!nspace.is_empty()).then(|| Proc::new(Nspace::new(nspace).unwrap(), Rank(0)));
    module.handle(call(Event {
        source,
        ..event(code, Vec::new())
    }))
}

fn load_of(tenant: &Tenant, name: &str, limits: ModuleLimits) -> Result<Module, LoadError> {
    let services = Services {
        tenant: Some(tenant.clone()),
        ..Services::default()
    };
    Module::load(
        engine(),
        name,
        &component(name),
        &Grants::all(),
        limits,
        services,
    )
}

#[test]
fn memory_of_one_namespace_is_invisible_to_others() {
    let secrets = |isolation, calls: &[(&str, i32)]| {
        let module = load(
            "secret",
            ModuleLimits {
                isolation,
                ..patient()
            },
        );
        calls
            .iter()
            .map(|(nspace, code)| handle_of(&module, nspace, *code).status.0)
            .collect::<Vec<_>>()
    };
    let calls = [
        ("a", 11),
        ("b", 22),
        ("a", 33),
        ("", 44),
        ("b", 55),
        ("", 66),
        ("c", 77),
    ];
    assert_eq!(
        secrets(Isolation::Module, &calls),
        [0, 11, 22, 33, 44, 55, 66]
    );
    assert_eq!(
        secrets(Isolation::Namespace, &calls),
        [0, 0, 11, 0, 22, 44, 0]
    );
    assert_eq!(secrets(Isolation::Call, &calls), [0; 7]);
}

#[test]
fn namespace_longest_idle_gives_up_its_warm_instance() {
    let module = load(
        "secret",
        ModuleLimits {
            isolation: Isolation::Namespace,
            idle_instances: 2,
            ..patient()
        },
    );
    let status = |nspace, code| handle_of(&module, nspace, code).status.0;
    assert_eq!([status("a", 1), status("b", 2), status("a", 3)], [0, 0, 1]);
    assert_eq!(status("c", 4), 0, "b made room");
    assert_eq!([status("a", 5), status("b", 6)], [3, 0]);
    let instances = load("secret", patient()).limits().idle_instances;
    assert_eq!(instances, patient().idle_instances);
}

#[test]
fn module_gets_its_settings_in_each_namespace() {
    let bytes = component("worker");
    let limits = ModuleLimits {
        isolation: Isolation::Namespace,
        ..patient()
    };
    let module = Module::load(
        engine(),
        "worker",
        &bytes,
        &Grants::all(),
        limits,
        Services::default(),
    )
    .unwrap();
    module.init(&[]).unwrap();
    let counts: Vec<i32> = ["a", "b", "a"]
        .map(|nspace| handle_of(&module, nspace, 0).status.0)
        .to_vec();
    assert_eq!(counts, [1, 1, 2]);
}

#[test]
fn memory_is_limited_over_all_instances_of_a_module() {
    let limits = ModuleLimits {
        total_memory_bytes: 20 * PAGE,
        isolation: Isolation::Namespace,
        ..patient()
    };
    let module = load("moody", limits);
    let first = module.memory();
    assert!((PAGE..3 * PAGE).contains(&first), "{first}");
    assert_eq!(
        handle_of(&module, "a", -6).status,
        Status(1),
        "takes what it gets and goes on"
    );
    assert!(module.memory() > 16 * PAGE);
    assert_eq!(handle_of(&module, "b", 0).status, Status(1));
    let result = handle_of(&module, "b", -3);
    let failure = result.failure.unwrap();
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Memory, Some(LimitKind::TotalMemory)),
        "{failure}"
    );
    assert!(
        failure.reason.contains("limits.total_memory_bytes") && failure.reason.contains("1310720"),
        "{failure}"
    );
    let hits: Vec<LimitKind> = handle_of(&module, "a", -6).usage.hits.iter().collect();
    assert_eq!(
        hits,
        [LimitKind::TotalMemory],
        "it is said also of a call that goes on"
    );
    drop(handle_of(&module, "a", -1));
    assert!(
        module.memory() < 3 * PAGE,
        "what is dropped gives back what it had: {}",
        module.memory()
    );
}

#[test]
fn an_instance_that_waits_makes_room_for_one_that_is_called() {
    let limits = ModuleLimits {
        total_memory_bytes: 3 * PAGE,
        isolation: Isolation::Namespace,
        ..patient()
    };
    let module = load("secret", limits);
    for nspace in ["a", "b", "c", "d", "e", "a"] {
        let result = handle_of(&module, nspace, 1);
        assert_eq!(
            (result.status, result.failure),
            (Status(0), None),
            "{nspace}"
        );
    }
    assert_eq!(module.memory(), 3 * PAGE);
}

#[test]
fn all_modules_of_a_tenant_share_its_memory_and_instances() {
    let tenant = Tenant::new(TenantLimits {
        memory: 30 * PAGE,
        instances: 2,
    });
    let one = load_of(&tenant, "moody", patient()).unwrap();
    let two = load_of(&tenant, "moody", patient()).unwrap();
    assert_eq!(tenant.instances(), 2);
    let LoadError::Start { failure, .. } = load_of(&tenant, "noop", patient()).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Unavailable, Some(LimitKind::TenantInstances)),
        "{failure}"
    );
    let wanted =
        "instances of the owner's modules would count as 3; the limit is 2 (tenant.max_instances)";
    assert_eq!(failure.reason, wanted);
    assert_eq!(handle(&one, -6).status, Status(1));
    let result = handle(&two, -3);
    assert_eq!(
        result.failure.as_ref().unwrap().limit,
        Some(LimitKind::TenantMemory),
        "{:?}",
        result.failure
    );
    assert_eq!(two.health().failures, 0, "another one has used it up");
    assert_eq!(tenant.memory(), one.memory() + two.memory());
    assert_eq!(
        handle(&load("moody", patient()), -6)
            .usage
            .hits
            .iter()
            .next(),
        Some(LimitKind::Memory),
        "others have theirs"
    );
    drop((one, two));
    assert_eq!((tenant.memory(), tenant.instances()), (0, 0));
    assert!(load_of(&tenant, "noop", patient()).is_ok());
}

/// A component with so many tables, and an instance of a core module for each eight of them.
fn many_tables(tables: usize) -> Vec<u8> {
    let module = |at: usize| {
        let tables = "(table 1 funcref)".repeat(tables.saturating_sub(8 * at).min(8));
        format!("(core module $m{at} {tables}) (core instance $i{at} (instantiate $m{at}))")
    };
    let modules: String = (0..tables.div_ceil(8)).map(module).collect();
    edited("noop", |text| {
        text.replacen("(component", &format!("(component {modules}"), 1)
    })
}

#[test]
fn an_instance_takes_as_many_places_as_it_needs_of_the_pool() {
    let engine = Engine::new(&EngineSettings {
        max_instances: 20,
        ..EngineSettings::default()
    })
    .unwrap();
    let load = |bytes: &[u8]| {
        Module::load(
            &engine,
            "large",
            bytes,
            &Grants::none(),
            patient(),
            Services::default(),
        )
    };
    let large = many_tables(32);
    let modules: Vec<Module> = (1..=2)
        .map(|count| {
            let module = load(&large).unwrap();
            assert_eq!(
                engine.instances(),
                8 * count,
                "32 tables, four for each place"
            );
            module
        })
        .collect();
    let LoadError::Start { failure, .. } = load(&large).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Unavailable, Some(LimitKind::Instances)),
        "{failure}"
    );
    let small: Vec<Module> = (0..4).map(|_| load(&component("noop")).unwrap()).collect();
    assert_eq!(
        load(&component("noop"))
            .unwrap_err()
            .to_string()
            .matches("sandbox.max_instances")
            .count(),
        1
    );
    drop((modules, small));
    assert_eq!(engine.instances(), 0);
}

#[test]
fn tenants_together_leave_the_site_a_quarter() {
    let engine = Engine::new(&EngineSettings {
        max_instances: 8,
        ..EngineSettings::default()
    })
    .unwrap();
    let load = |tenant: Option<&Tenant>| {
        let services = Services {
            tenant: tenant.cloned(),
            ..Services::default()
        };
        Module::load(
            &engine,
            "noop",
            &component("noop"),
            &Grants::none(),
            patient(),
            services,
        )
    };
    let tenants = [(); 2].map(|()| Tenant::new(TenantLimits::default()));
    let theirs: Vec<Module> = (0..6)
        .map(|at| load(Some(&tenants[at % 2])).unwrap())
        .collect();
    let LoadError::Start { failure, .. } = load(Some(&tenants[0])).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Unavailable, Some(LimitKind::TenantsInstances)),
        "{failure}"
    );
    assert!(
        failure.reason.contains("sandbox.max_instances"),
        "{failure}"
    );
    assert_eq!(
        (engine.instances(), tenants[0].instances()),
        (6, 3),
        "what was refused is given back"
    );
    let sites = [load(None).unwrap(), load(None).unwrap()];
    drop(theirs);
    let more: Vec<Module> = (0..6).map(|_| load(None).unwrap()).collect();
    assert_eq!(engine.instances(), 8, "the site may have all");
    drop((sites, more));
}

#[test]
fn fuel_is_counted_where_it_is_limited_and_ends_a_call() {
    let module = load(
        "moody",
        ModuleLimits {
            fuel: Some(1_000_000),
            ..patient()
        },
    );
    let used: Vec<Option<u64>> = (0..3).map(|_| handle(&module, 0).usage.fuel).collect();
    assert!(
        used[0].is_some_and(|fuel| (1..1000).contains(&fuel)),
        "{used:?}"
    );
    assert_eq!(
        (used[0], used[1]),
        (used[1], used[2]),
        "the same call uses the same fuel"
    );
    let result = handle(&module, -2);
    let failure = result.failure.unwrap();
    assert_eq!(
        (failure.kind, failure.limit),
        (FailureKind::Fuel, Some(LimitKind::Fuel)),
        "{failure}"
    );
    assert_eq!(result.status, Status::PEAL_ERR_MODULE_FUEL);
    assert!(
        failure.reason.contains("fuel of 1000000") && failure.reason.contains("(limits.fuel)"),
        "{failure}"
    );
    assert!(
        result.usage.fuel.is_some_and(|fuel| fuel >= 1_000_000),
        "{:?}",
        result.usage
    );
    assert_eq!(
        handle(&module, 0).usage.fuel,
        used[0],
        "it is given anew to each call"
    );
    assert_eq!(handle(&load("moody", patient()), 0).usage.fuel, None);
}

#[test]
fn an_engine_can_count_fuel_for_all_modules() {
    let settings = EngineSettings {
        max_instances: 4,
        fuel: FuelCount::Always,
        ..EngineSettings::default()
    };
    let engine = Engine::new(&settings).unwrap();
    let load = |limits| {
        Module::load(
            &engine,
            "moody",
            &component("moody"),
            &Grants::all(),
            limits,
            Services::default(),
        )
        .unwrap()
    };
    let free = load(patient());
    let limited = load(ModuleLimits {
        fuel: Some(100_000),
        ..patient()
    });
    assert_eq!(handle(&free, 0).usage.fuel, handle(&limited, 0).usage.fuel);
    assert!(handle(&free, 0).usage.fuel.is_some());
    assert_eq!(engine.instances(), 2);
}

#[test]
fn module_failing_too_often_is_quarantined_until_reset() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = told.clone();
    let services = Services {
        on_quarantine: Some(Arc::new(move |quarantined| {
            listener.lock().unwrap().push(quarantined.clone())
        })),
        ..Services::default()
    };
    let limits = ModuleLimits {
        failures: 3,
        failure_window: Duration::from_secs(60),
        ..patient()
    };
    let module = Module::load(
        engine(),
        "moody",
        &component("moody"),
        &Grants::all(),
        limits,
        services,
    )
    .unwrap();
    for round in 1..=2 {
        assert_eq!(handle(&module, -1).status, Status::PEAL_ERR_MODULE_TRAPPED);
        assert_eq!(handle(&module, 0).status, Status(1));
        assert_eq!(handle(&module, -1).status, Status::PEAL_ERR_MODULE_TRAPPED);
        assert_eq!(
            (module.health().failures, module.health().quarantined),
            (2, None)
        );
        assert_eq!(handle(&module, -8).status, Status::PEAL_ERR_MODULE_TRAPPED);
        assert!(module.health().quarantined.is_some());
        assert_eq!(module.memory(), 0, "its instances are gone");
        for _ in 0..5 {
            let result = handle(&module, 0);
            let failure = result.failure.unwrap();
            assert_eq!(
                (failure.kind, failure.limit),
                (FailureKind::Quarantined, Some(LimitKind::Failures))
            );
            assert_eq!(result.status, Status::PEAL_ERR_MODULE_QUARANTINED);
            assert!(
                failure
                    .reason
                    .contains("3 times within 60s (limits.failures)"),
                "{failure}"
            );
        }
        assert_eq!(told.lock().unwrap().len(), round, "it is told once");
        assert_eq!(
            module.health().failures,
            3,
            "that it is not called is no failure of its own"
        );
        module.reset();
        assert_eq!(
            (module.health().failures, module.health().quarantined),
            (0, None)
        );
        assert!(module.health().last.is_some());
        assert_eq!(handle(&module, 0).status, Status(1));
    }
    let told = told.lock().unwrap();
    assert_eq!(
        (&*told[0].module, told[0].failures, told[0].last.limit),
        ("moody", 3, Some(LimitKind::Stack))
    );
    assert!(
        told[0]
            .to_string()
            .contains("module moody is quarantined: it failed 3 times"),
        "{}",
        told[0]
    );
}

#[test]
fn replacement_of_quarantined_module_stays_quarantined() {
    let limits = |failures| ModuleLimits {
        failures,
        ..patient()
    };
    let before = load("moody", limits(2));
    let follow = |failures| {
        let module = load("moody", limits(failures));
        module.stay_quarantined(&before.health());
        module
    };
    assert_eq!(handle(&before, -1).status, Status::PEAL_ERR_MODULE_TRAPPED);
    assert_eq!(handle(&follow(2), 0).status, Status(1), "it was not yet");
    assert_eq!(handle(&before, -1).status, Status::PEAL_ERR_MODULE_TRAPPED);
    let after = follow(5);
    assert_eq!(after.health(), before.health());
    assert_eq!(
        handle(&after, 0).status,
        Status::PEAL_ERR_MODULE_QUARANTINED
    );
    assert_eq!(after.memory(), 0, "its first instance is gone");
    after.reset();
    assert_eq!(handle(&after, 0).status, Status(1));
    assert_eq!(
        handle(&follow(0), 0).status,
        Status(1),
        "its admin wants it never to be"
    );
}

#[test]
fn a_module_can_be_spared_quarantine() {
    let module = load(
        "moody",
        ModuleLimits {
            failures: 0,
            ..patient()
        },
    );
    assert!((0..50).all(|_| handle(&module, -1).status == Status::PEAL_ERR_MODULE_TRAPPED));
    assert_eq!(module.health().quarantined, None);
}
