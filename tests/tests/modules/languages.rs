//! Components in Rust, C, C++, Go, Python, JavaScript, TypeScript and text form: the values that they return, one chain
//! of all of them, and the delay of their first answer after a start.
use peal_model::{
    ChainResult, DataArray, Info, InfoFlags, Nspace, Proc, Range, Rank, Status, Value,
    data_type as dt,
};
use peal_needs::needs;
use peal_sandbox::{Engine, Grants, Module, ModuleLimits, Services};
use peal_tests::{
    languages::{cache_dir, echoes, engine, handle, info, load, settings},
    peal, program, run, text_form,
};
use std::{fs, time::Instant};

const TEXT: Value = Value::String(None);

fn text(text: &str) -> Value {
    Value::String(Some(text.into()))
}

fn array(element: peal_model::DataType, items: Vec<Value>) -> Value {
    Value::DataArray(DataArray::new(element, items).unwrap())
}

fn infos(infos: Vec<Info>) -> Value {
    Value::DataArray(DataArray::infos(infos))
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// Returns values that every language returns unchanged.
fn exact() -> Vec<Info> {
    let deepest = infos(vec![info(
        "deep",
        array(
            dt::PMIX_UINT16,
            vec![Value::Uint16(1), Value::Uint16(65535)],
        ),
    )]);
    let three_levels = infos(vec![info(
        "a",
        infos(vec![info("b", deepest), info("c", text("beside"))]),
    )]);
    let mut flagged = info("flagged", Value::Bool(true));
    flagged.flags = InfoFlags::REQUIRED;
    vec![
        info("nested", three_levels),
        info("empty.text", text("")),
        info(
            "texts",
            array(dt::PMIX_STRING, vec![text("a"), TEXT, text("ä€𝄞")]),
        ),
        info("empty.list", array(dt::PMIX_UINT64, Vec::new())),
        info("empty.infos", infos(Vec::new())),
        info("empty.procs", Value::DataArray(DataArray::procs([]))),
        info(
            "procs",
            Value::DataArray(DataArray::procs([proc(0), proc(1)])),
        ),
        info("twice", Value::Uint32(1)),
        info("twice", Value::Uint32(2)),
        info("bytes", Value::ByteObject(vec![0, 1, 0, 255, 0].into())),
        info("no.bytes", Value::ByteObject(Vec::new().into())),
        info("undef", Value::Undef),
        info("byte", Value::Byte(255)),
        info("size", Value::Size(1 << 53)),
        info("pid", Value::Pid(u32::MAX)),
        info("int", Value::Int(i32::MIN)),
        info("int8", Value::Int8(i8::MIN)),
        info("int16", Value::Int16(i16::MIN)),
        info("int32", Value::Int32(i32::MIN)),
        info("int64.min", Value::Int64(i64::MIN)),
        info("uint", Value::Uint(u32::MAX)),
        info("uint8", Value::Uint8(u8::MAX)),
        info("uint64", Value::Uint64(1 << 53)),
        info("float", Value::Float(1.5)),
        info("double", Value::Double(-0.1)),
        info("infinite", Value::Double(f64::NEG_INFINITY)),
        info("whole", Value::Double(2.0)),
        info(
            "timeval",
            Value::Timeval {
                seconds: -1,
                microseconds: 999_999,
            },
        ),
        info("time", Value::Time(1_700_000_000)),
        info("status", Value::Status(Status(-25))),
        info("proc", Value::Proc(proc(7))),
        info("nspace", Value::Nspace(Nspace::new("job").unwrap())),
        info("rank", Value::Rank(Rank(u32::MAX - 1))),
        info("range", Value::Range(Range::Session)),
        flagged,
    ]
}

/// Splits a result: the input that it returns unchanged, and its own infos with the earlier
/// handlers and its count.
fn echoed(result: &peal_sandbox::HandlerResult, handed: usize) -> (&[Info], &[Info]) {
    assert!(result.failure.is_none(), "{:?}", result.failure);
    assert_eq!(result.status, Status(-331));
    result.infos.split_at(handed)
}

#[needs(prepared, languages)]
#[test]
fn each_language_returns_its_input_unchanged() {
    for (language, file) in echoes() {
        let module = load(language, &fs::read(file).unwrap());
        assert!(
            module.inspection().capabilities.is_empty(),
            "{language} needs no capabilities"
        );
        assert!(
            module.inspection().unknown_imports.is_empty(),
            "{language} reaches nothing"
        );
        let handed = exact();
        let result = handle(&module, handed.clone(), Vec::new());
        let (back, said) = echoed(&result, handed.len());
        for (back, handed) in back.iter().zip(&handed) {
            assert_eq!(back, handed, "{language}");
        }
        assert_eq!(
            said,
            [
                info("echo.before", text("")),
                info("echo.calls", Value::Uint32(1))
            ],
            "{language}"
        );
        let again = handle(&module, Vec::new(), Vec::new());
        assert_eq!(
            echoed(&again, 0).1[1],
            info("echo.calls", Value::Uint32(2)),
            "{language} counts"
        );
    }
}

#[needs(prepared, languages)]
#[test]
fn nan_is_not_a_number_in_any_language() {
    for (language, file) in echoes() {
        let module = load(language, &fs::read(file).unwrap());
        let result = handle(
            &module,
            vec![
                info("d", Value::Double(f64::NAN)),
                info("f", Value::Float(f32::NAN)),
            ],
            Vec::new(),
        );
        let (back, _) = echoed(&result, 2);
        assert!(
            matches!(back[0].value, Value::Double(n) if n.is_nan()),
            "{language}: {back:?}"
        );
        assert!(
            matches!(back[1].value, Value::Float(n) if n.is_nan()),
            "{language}: {back:?}"
        );
    }
}

/// JavaScript has numbers only, so it returns the nearest representable number. `sdk/js/peal.d.ts`
/// and the README document this.
#[needs(prepared, languages)]
#[test]
fn integers_above_2_to_the_53_are_exact_except_in_javascript() {
    const ODD: u64 = (1 << 53) + 1;
    let handed = vec![
        info("u", Value::Uint64(ODD)),
        info("s", Value::Size(u64::MAX)),
        info("i", Value::Int64(-(ODD as i64))),
    ];
    for (language, file) in echoes() {
        let module = load(language, &fs::read(file).unwrap());
        let result = handle(&module, handed.clone(), Vec::new());
        let (back, _) = echoed(&result, handed.len());
        if ["js", "ts"].contains(&language) {
            assert_eq!(back[0], info("u", Value::Uint64(1 << 53)), "rounded");
            assert_eq!(back[2], info("i", Value::Int64(-(1 << 53))), "rounded");
            assert_eq!(
                back[1],
                info("s", Value::Size(u64::MAX - 2047)),
                "the largest that is not too large"
            );
        } else {
            assert_eq!(back, handed, "{language}");
        }
    }
}

#[needs(prepared, languages)]
#[test]
fn handlers_see_earlier_results_across_languages() {
    let mut steps = vec![ChainResult {
        name: "first".into(),
        status: Status(-1),
        infos: vec![info("a", array(dt::PMIX_STRING, vec![text("x")]))],
    }];
    for (language, file) in echoes() {
        let module = load(language, &fs::read(file).unwrap());
        let before: Vec<&str> = steps.iter().map(|step| step.name.as_ref()).collect();
        let before = info("echo.before", text(&before.join(" ")));
        let result = handle(&module, exact(), steps.clone());
        assert_eq!(echoed(&result, exact().len()).1[0], before, "{language}");
        steps.push(ChainResult {
            name: language.into(),
            status: result.status,
            infos: result.infos,
        });
    }
}

/// The chain runs under the real command, with a handler in text form at its end. Each handler
/// returns the same event.
#[needs(prepared, languages)]
#[test]
fn one_chain_of_all_languages_runs_under_a_job() {
    let dir = tempfile::tempdir().unwrap();
    let last = dir.path().join("last.wasm");
    fs::write(&last, text_form::of_sandbox("echo.wat")).unwrap();
    let mut command = peal(["run", "-n", "2", "--events"]);
    let all = echoes();
    for (_, file) in &all {
        command.arg("--handler").arg(file);
    }
    let done = run(command
        .arg("--handler")
        .arg(&last)
        .arg("--")
        .arg(program("peal-example")))
    .expect_status(0);
    let mut before: Vec<String> = Vec::new();
    let mut answers = Vec::new();
    for (_, file) in &all {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let says = format!("{name} answers PMIX_EVENT_NO_ACTION_TAKEN (-331)");
        let line = done.stderr.lines().find(|line| line.contains(&says));
        let line = line.unwrap_or_else(|| panic!("{says}:\n{}", done.stderr));
        let earlier = format!("echo.before={:?}", before.join(" "));
        assert!(line.contains(&earlier), "{line}");
        // The rest is the event, which each returns.
        let (_, answer) = line.split_once(&says).unwrap();
        answers.push(answer.replace(&earlier, ""));
        before.push(name);
    }
    assert!(answers[0].contains('='), "{answers:?}");
    for (answer, name) in answers.iter().zip(&before) {
        assert_eq!(*answer, answers[0], "{name}");
    }
    assert!(done.stderr.contains("last answers"), "{}", done.stderr);
}

/// Compiled code is on disk, as for a restarted server. The figures are printed; only the required
/// bounds are asserted.
#[needs(prepared, languages)]
#[test]
fn the_first_call_after_a_start_is_soon() {
    for (language, file) in echoes() {
        let bytes = fs::read(file).unwrap();
        drop(load(language, &bytes));
        let first = || {
            // A fresh engine has nothing in memory.
            let engine = Engine::new(&settings()).unwrap();
            let start = Instant::now();
            let module = Module::load(
                &engine,
                language,
                &bytes,
                &Grants::none(),
                ModuleLimits::default(),
                Services::default(),
            )
            .unwrap();
            let result = handle(&module, Vec::new(), Vec::new());
            assert!(result.failure.is_none(), "{:?}", result.failure);
            (start.elapsed(), engine.cache_use())
        };
        let (took, used) = (0..3)
            .map(|_| first())
            .min_by_key(|(took, _)| *took)
            .unwrap();
        println!(
            "{language}: first call {took:?} after a start, cache {used:?} in {}",
            cache_dir().display()
        );
    }
    assert!(engine().cache_use().is_some());
}
