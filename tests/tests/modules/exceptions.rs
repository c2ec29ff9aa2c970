//! Exceptions of guests in each language: type and text, with file and line of the author's code.
//! They are shown by `peal module test` and `bench`, in the trace of `peal run`, and in the audit
//! trail. The modules have no grants.
use peal_needs::needs;
use peal_tests::{
    Done, peal, program,
    projects::{COMPILING, Project, source},
    run, run_within,
};
use std::{fs, path::Path};

/// Code that throws, and the parts of the resulting report.
struct Throwing {
    language: &'static str,
    code: &'static str,
    told: &'static [&'static str],
}

const RUST: Throwing = Throwing {
    language: "rust",
    code: r#"use peal_sdk::{Event, Outcome, handler};

fn rank_of(event: &Event) -> usize {
    let known = [3, 4];
    known[event.infos().len() + 7]
}

fn handle(event: &Event) -> Outcome {
    Outcome::no_action().with("rank", rank_of(event) as u32)
}

handler!(handle);
"#,
    told: &["panicked at src/lib.rs:5:5: index out of bounds: the len is 2 but the index is"],
};

const C: Throwing = Throwing {
    language: "c",
    code: r#"#include <assert.h>
#include <peal.h>

static int32_t handle(const peal_event *event) {
  assert(event->info_count > 100);
  return PMIX_EVENT_NO_ACTION_TAKEN;
}

PEAL_EVENT_HANDLER(handle)
"#,
    told: &["assertion failed at module.c:5 in handle: event->info_count > 100"],
};

const CPP: Throwing = Throwing {
    language: "cpp",
    code: r#"#include <peal.hpp>

static std::uint32_t rank_of(const peal::Event &event) {
  const std::vector<std::uint32_t> known = {3, 4};
  if (event.info_count() < 100) peal::fail("no rank\nfor " + std::to_string(event.code()));
  return known.at(event.info_count());
}

static peal::Outcome handle(const peal::Event &event) {
  return peal::Outcome::no_action().with("rank", rank_of(event));
}

PEAL_EVENT_HANDLER(peal::event_handler<handle>)
"#,
    told: &[
        "no rank\\nfor ",
        " at module.cpp:5 in std::uint32_t rank_of(const peal::Event &)",
    ],
};

const GO: Throwing = Throwing {
    language: "go",
    code: r#"package main

import "peal"

func rankOf(event *peal.Event) uint32 {
	known := []uint32{3, 4}
	return known[len(event.Infos())+7]
}

// EventHandler knows ranks.
func EventHandler(event *peal.Event) *peal.Outcome {
	return peal.NoAction().With("rank", peal.Uint32(rankOf(event)))
}

func main() {}
"#,
    told: &[
        "panic: runtime error: index out of range [",
        "module.go:7 in rankOf < module.go:12 in EventHandler",
    ],
};

const PYTHON: Throwing = Throwing {
    language: "python",
    code: r#""""Knows ranks."""
import peal

RANKS = {"first": 1}


def rank_of(event):
    return RANKS["last\nof all"]


@peal.event_handler
def handle(event):
    return peal.no_action().add("rank", rank_of(event))
"#,
    told: &[
        "KeyError: 'last\\\\nof all'",
        "module.py:8 in rank_of < module.py:13 in handle",
    ],
};

const JAVASCRIPT: Throwing = Throwing {
    language: "js",
    code: r#"import * as peal from "./sdk/js/peal.js";

const rankOf = (event) => {
  throw new RangeError(`no rank\nin ${event.code}`);
};

export const eventHandler = peal.eventHandler((event) => {
  const rank = rankOf(event);
  return peal.Outcome.noAction().with("rank", rank);
});
"#,
    told: &[
        "RangeError: no rank\\nin ",
        "module.js:4 in rankOf < module.js:8",
    ],
};

const TYPESCRIPT: Throwing = Throwing {
    language: "ts",
    code: r#"import * as peal from "./sdk/js/peal.js";

interface Known {
  code: number;
}

const rankOf = (event: Known): number => {
  throw new RangeError(`no rank\nin ${event.code}`);
};

export const eventHandler = peal.eventHandler((event: peal.Event) => {
  const rank: number = rankOf(event);
  return peal.Outcome.noAction().with("rank", rank);
});
"#,
    told: &[
        "RangeError: no rank\\nin ",
        "module.ts:8 in rankOf < module.ts:12",
    ],
};

const CASES: &str =
    "[[case]]\nname = \"it answers\"\nevent = { code = -3001 }\nexpect = { status = 0 }\n";

fn tells(text: &str, told: &[&str], of: &str) {
    for part in told {
        assert!(text.contains(part), "{of}: {part:?} is not in:\n{text}");
    }
}

fn exception_is_told_everywhere(throwing: &Throwing) {
    let Throwing {
        language,
        code,
        told,
    } = throwing;
    let dir = tempfile::tempdir().unwrap();
    let project = Project::new(dir.path(), language, "throws", &["event-handler"]);
    fs::write(project.dir.join(source(language)), code).unwrap();
    fs::write(project.dir.join("tests/example.toml"), CASES).unwrap();
    project.build().expect_status(0);

    // The first call compiles the component, and the job below finds it compiled.
    let cache = dir.path().join("cache");
    let mut test = project.module(&["test"]);
    let Done { stdout, stderr, .. } =
        run_within(COMPILING, test.env("XDG_CACHE_HOME", &cache)).expect_status(1);
    tells(&stdout, told, "peal module test");
    tells(
        &stdout,
        &["got trapped: the call failed: "],
        "peal module test",
    );
    // An interpreter takes so long that the author learns of it.
    if *language == "python" {
        let compiling = stderr.lines().filter(|line| line.contains("compiled"));
        let compiling: Vec<&str> = compiling.collect();
        assert!(
            matches!(compiling[..], [line] if line.starts_with("peal: ") && line.contains(" are compiled once")),
            "{stderr}"
        );
    }
    // The component is compiled again, which takes seconds for a large one.
    if !["python", "go", "ts"].contains(language) {
        let benched = run_within(COMPILING, &mut project.module(&["bench", "--calls", "3"]))
            .expect_status(1)
            .stdout;
        tells(&benched, told, "peal module bench");
    }
    in_a_job(&project.component(), &cache, told);
}

fn in_a_job(component: &Path, cache: &Path, told: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    fs::write(
        &config,
        format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            dir.path().join("audit.db")
        ),
    )
    .unwrap();
    let mut command = peal(["run", "--config"]);
    command
        .arg(&config)
        .arg("--handler")
        .arg(component)
        .arg("--")
        .arg(program("peal-example"))
        .env("XDG_CACHE_HOME", cache);
    let done = run_within(COMPILING, &mut command).expect_status(0);
    let lines: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| line.contains("peal::guest"))
        .collect();
    assert!(!lines.is_empty(), "{}", done.stderr);
    lines.iter().for_each(|line| tells(line, told, "the trace"));

    let list = |args: &[&str]| {
        run(peal(["audit"]).args(args).arg("--config").arg(&config))
            .expect_status(0)
            .stdout
    };
    let record = list(&["list", "--kind", "call", "--module", "throws", "-o", "json"]);
    let failed = record
        .lines()
        .find(|line| line.contains("the call failed: "))
        .unwrap_or_else(|| panic!("{record}"));
    let failed: serde_json::Value = serde_json::from_str(failed).unwrap();
    let text = failed.to_string();
    for part in told.iter().flat_map(|part| part.split(" < ")) {
        let json = serde_json::Value::from(part).to_string();
        assert!(
            text.contains(json.trim_matches('"')),
            "{part:?} is not in:\n{text}"
        );
    }
    let replayed = list(&["replay"]);
    assert!(replayed.contains(" 0 differ"), "{replayed}");
}

#[needs(prepared)]
#[test]
fn rust_panic_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&RUST);
}

#[needs(prepared, c_tools)]
#[test]
fn c_assertion_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&C);
}

#[needs(prepared, cpp_tools)]
#[test]
fn cpp_failure_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&CPP);
}

#[needs(prepared, go_tools)]
#[test]
fn go_panic_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&GO);
}

#[needs(prepared, python_tools)]
#[test]
fn python_exception_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&PYTHON);
}

#[needs(prepared, js_tools)]
#[test]
fn javascript_exception_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&JAVASCRIPT);
}

#[needs(prepared, ts_tools)]
#[test]
fn typescript_exception_is_shown_with_file_and_line() {
    exception_is_told_everywhere(&TYPESCRIPT);
}

/// Traps that no exception precedes, one for each event code from -1 on, and the place that is shown for each.
const TRAPS_IN_C: (&str, &[&str]) = (
    r#"#include <stdlib.h>
#include <peal.h>

static int divide(int by) {
  return 1000 / by;
}

// The compiler gives the trap itself no line, but the call of the function has one.
__attribute__((noinline)) static void stop(void) { __builtin_trap(); }

static int32_t handle(const peal_event *event) {
  if (event->code == -1) abort();
  if (event->code == -2) stop();
  if (event->code == -3) return divide((int)event->tag);
  return *(volatile int *)0x7ffffff0;
}

PEAL_EVENT_HANDLER(handle)
"#,
    &[
        "module.c:12 in handle",
        "stop < module.c:13 in handle",
        "module.c:5 in divide < module.c:14 in handle",
        "module.c:15 in handle",
    ],
);

/// Traps of a module in Rust, whose runtime reports what it can as a panic.
const TRAPS_IN_RUST: (&str, &[&str]) = (
    r#"use peal_sdk::{Event, Outcome, handler};

#[inline(never)]
fn deep(level: u32) -> u32 {
    let taken = std::hint::black_box([level; 100]);
    if level == u32::MAX { 0 } else { deep(level + 1) + taken[7] }
}

fn handle(event: &Event) -> Outcome {
    match event.code() {
        -1 => std::process::abort(),
        -2 => Outcome::no_action().with("depth", deep(0)),
        _ => Outcome::no_action(),
    }
}

handler!(handle);
"#,
    &["src/lib.rs:11 in handle", "src/lib.rs:6 in deep"],
);

/// Traps of a module in C++.
const TRAPS_IN_CPP: (&str, &[&str]) = (
    r#"#include <cstdlib>
#include <peal.hpp>

static int divide(int by) {
  return 1000 / by;
}

__attribute__((noinline)) static void stop() { __builtin_trap(); }

static peal::Outcome handle(const peal::Event &event) {
  if (event.code() == -1) std::abort();
  if (event.code() == -2) stop();
  if (event.code() == -3) return peal::Outcome(divide(event.tag()));
  return peal::Outcome(*reinterpret_cast<volatile int *>(0x7ffffff0));
}

PEAL_EVENT_HANDLER(peal::event_handler<handle>)
"#,
    &[
        "module.cpp:11 in handle",
        "stop() < module.cpp:12 in handle",
        "module.cpp:5 in divide < module.cpp:13 in handle",
        "module.cpp:14 in handle",
    ],
);

fn traps_are_shown_with_file_and_line(language: &str, (code, places): (&str, &[&str])) {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::new(dir.path(), language, "traps", &["event-handler"]);
    fs::write(project.dir.join(source(language)), code).unwrap();
    let cases = (1..=places.len()).map(|code| {
        format!("[[case]]\nname = \"trap {code}\"\nevent = {{ code = -{code} }}\nexpect = {{ status = 0 }}\n")
    });
    fs::write(
        project.dir.join("tests/example.toml"),
        cases.collect::<String>(),
    )
    .unwrap();
    project.build().expect_status(0);
    let tested = run_within(COMPILING, &mut project.module(&["test"]))
        .expect_status(1)
        .stdout;
    let shown: Vec<&str> = tested.split("FAILED  trap ").skip(1).collect();
    assert_eq!(shown.len(), places.len(), "{tested}");
    for (place, shown) in places.iter().zip(shown) {
        assert!(shown.contains(place), "{place:?} is not in:\n{tested}");
    }
    // What is shipped names functions only, and the lines are of this build.
    let has_lines = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        bytes.windows(11).any(|name| name == b".debug_line")
    };
    assert!(!has_lines(&project.component()));
    let kept = project.dir.join("target/traps.debug.wasm");
    assert!(has_lines(&kept));
    fs::remove_file(kept).unwrap();
    let without = run(&mut project.module(&["test"])).expect_status(1).stdout;
    assert!(
        without.contains("trapped: ") && !without.contains(&format!("{}:", source(language))),
        "{without}"
    );
}

#[needs(prepared)]
#[test]
fn rust_traps_are_shown_with_file_and_line() {
    traps_are_shown_with_file_and_line("rust", TRAPS_IN_RUST);
}

#[needs(prepared, c_tools)]
#[test]
fn c_traps_are_shown_with_file_and_line() {
    traps_are_shown_with_file_and_line("c", TRAPS_IN_C);
}

#[needs(prepared, cpp_tools)]
#[test]
fn cpp_traps_are_shown_with_file_and_line() {
    traps_are_shown_with_file_and_line("cpp", TRAPS_IN_CPP);
}
