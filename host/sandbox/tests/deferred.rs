//! Tests of deferred requests of modules, job control and logging, and of resource usage.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{DataArray, Info, Proc, Scope, Status, Value, code};
use peal_sandbox::{EventCall, Grants, HandlerResult, LoadError, Module, ProcUsage, Services};
use std::sync::{Arc, Mutex};
use support::{call, component, engine, event, info, load, patient, proc};

const CONTROL: i32 = -1;
const REPORT: i32 = -2;
const USAGE: i32 = -3;
const CONTROL_AND_TRAP: i32 = -4;

/// Asks for this so many times.
fn ask(module: &Module, code: i32, times: u32) -> HandlerResult {
    module.handle(EventCall {
        tag: times,
        ..call(event(code, Vec::new()))
    })
}

#[test]
fn requests_are_handed_over_after_handler_returned() {
    let module = load("asker", patient());
    let result = ask(&module, CONTROL, 2);
    assert_eq!((result.status, &result.failure), (Status(0), &None));
    let [first, second] = &result.controls[..] else {
        panic!("{result:?}")
    };
    assert!(first.request < second.request);
    assert_eq!(
        (&first.targets[..], &first.directives[..]),
        (
            &[proc("job", 1)][..],
            &[info("test.info", Value::Bool(true))][..]
        )
    );

    let result = ask(&module, REPORT, 1);
    let [report] = &result.reports[..] else {
        panic!("{result:?}")
    };
    assert_eq!(
        (
            report.data.len(),
            report.directives.len(),
            result.controls.len()
        ),
        (1, 1, 0)
    );

    let trapped = ask(&module, CONTROL_AND_TRAP, 1);
    assert!(
        trapped.failure.is_some() && trapped.controls.is_empty(),
        "a failed handler asks for nothing"
    );
}

#[test]
fn requests_of_a_call_are_bounded() {
    let module = load("asker", patient());
    for code in [CONTROL, REPORT] {
        let count = |result: &HandlerResult| result.controls.len() + result.reports.len();
        let as_often_as_may_be = ask(&module, code, 16);
        assert_eq!(
            (as_often_as_may_be.status, count(&as_often_as_may_be)),
            (Status(0), 16)
        );
        let more = ask(&module, code, 17);
        assert_eq!(
            (more.status, count(&more)),
            (code::PMIX_ERR_OUT_OF_RESOURCE, 16)
        );
    }
}

/// Source of usage that records the procs of each call.
#[derive(Default)]
struct Gauge {
    used: Vec<Info>,
    asked: Mutex<Vec<Proc>>,
}

impl ProcUsage for Gauge {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.asked.lock().unwrap().extend_from_slice(procs);
        if self.used.is_empty() {
            Err(code::PMIX_ERR_NO_PERMISSIONS)
        } else {
            Ok(self.used.clone())
        }
    }
}

fn measured(used: Vec<Info>) -> (Arc<Gauge>, Module) {
    let gauge = Arc::new(Gauge {
        used,
        ..Gauge::default()
    });
    let services = Services {
        usage: Some(gauge.clone()),
        ..Services::default()
    };
    let module = Module::load(
        engine(),
        "asker",
        &component("asker"),
        &Grants::all(),
        patient(),
        services,
    )
    .unwrap();
    (gauge, module)
}

#[test]
fn usage_of_procs_is_given_with_infos_of_unknown_shape() {
    let inner = DataArray::infos([
        info("test.deep", Value::Scope(Scope::Local)),
        info("test.size", Value::Size(7)),
    ]);
    let used = vec![
        info("test.usage", Value::DataArray(inner)),
        info("test.scope", Value::Scope(Scope::Global)),
    ];
    let (gauge, module) = measured(used.clone());
    let result = ask(&module, USAGE, 2);
    assert_eq!(result.status, Status(0), "{:?}", result.failure);
    assert_eq!(
        result.infos,
        [used.clone(), used].concat(),
        "told twice, pushed twice"
    );
    assert_eq!(
        *gauge.asked.lock().unwrap(),
        [proc("job", 1), proc("job", 1)]
    );
    let (_, module) = measured(Vec::new());
    assert_eq!(ask(&module, USAGE, 1).status, code::PMIX_ERR_NO_PERMISSIONS);
    assert_eq!(
        ask(&load("asker", patient()), USAGE, 1).status,
        code::PMIX_ERR_NOT_SUPPORTED,
        "nobody measures"
    );
}

#[test]
fn none_of_it_is_there_unless_it_is_granted() {
    let load = |grants: &Grants| {
        Module::load(
            engine(),
            "asker",
            &component("asker"),
            grants,
            patient(),
            Services::default(),
        )
    };
    assert!(
        matches!(load(&Grants::tenant()), Err(LoadError::NotGranted { .. })),
        "tenants have none of it by themselves"
    );
}
