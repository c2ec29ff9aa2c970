//! `peal module bench`.
use super::candidate::Tried;
use crate::{
    args::{ModuleBench, OutputFormat},
    output,
    table::{Side, table},
    wait_message::WaitMessage,
};
use anyhow::Result;
use peal_config::{FuelCount, Sandbox};
use peal_devtools::{
    bench::{self, BenchEngines, BenchResult, BenchedComponent, Effort},
    module_test::CaseFile,
};
use peal_sandbox::{Engine, EngineSettings, ModuleLimits};
use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// Measures a component, and prints the times of its calls.
pub fn bench(args: &ModuleBench) -> Result<ExitCode> {
    let tried = Tried::find(&args.component)?;
    let name = tried.name();
    let file = args
        .cases
        .as_ref()
        .map(|path| CaseFile::read(path, &name))
        .transpose()?;
    let calls = usize::try_from(args.calls)?;
    let effort = Effort {
        calls,
        ..Effort::default()
    };
    let limits = ModuleLimits {
        call_time: args.call_time,
        ..ModuleLimits::default()
    };
    let component = BenchedComponent {
        name: &name,
        bytes: &tried.bytes,
        limits,
    };
    let timing = Engine::new(&EngineSettings::default())?;
    let counting = peal_modules::engine(&Sandbox {
        fuel: FuelCount::Always,
        ..Sandbox::default()
    })?;
    let engines = BenchEngines {
        timing: &timing,
        counting: &counting,
    };
    let waiting = WaitMessage::new(tried.compiling());
    let cases = file.as_ref().map(|file| &file.cases);
    let measured = bench::measure(component, engines, cases, effort, |what| waiting.show(what));
    drop(waiting);
    // Only now: the line of the message must be gone before an error is printed.
    let measured = measured?;
    match args.format.output {
        OutputFormat::Data(form) => output::print(&form.document(&measured)?)?,
        _ => print(&measured, tried.bytes.len(), &mut output::stdout())?,
    }
    let has_failed = measured.cases.iter().any(|case| case.failure.is_some());
    Ok(if has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn print(measured: &BenchResult, size: usize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "size     {size} bytes")?;
    writeln!(out, "compile  {}", time(measured.compile))?;
    writeln!(out, "start    {}", if_measured(measured.start))?;
    writeln!(out)?;
    let head = [
        "calls",
        "first call",
        "median",
        "p95",
        "p99",
        "fuel",
        "memory",
    ]
    .map(|name| (name, Side::Right));
    let [calls, first, median, p95, p99, fuel, memory] = head;
    let rows = measured.cases.iter().map(|case| {
        let [median, p95, p99] = [case.median, case.p95, case.p99].map(if_measured);
        let fuel = case
            .fuel
            .map_or_else(|| "-".to_owned(), |fuel| fuel.to_string());
        let memory = format!("{} KiB", case.memory.div_ceil(1024));
        [
            case.calls.to_string(),
            time(case.first),
            median,
            p95,
            p99,
            fuel,
            memory,
            case.case.clone(),
        ]
    });
    let head = [
        calls,
        first,
        median,
        p95,
        p99,
        fuel,
        memory,
        ("case", Side::Left),
    ];
    write!(out, "{}", table(head, &rows.collect::<Vec<_>>()))?;
    for case in &measured.cases {
        if let Some(failure) = &case.failure {
            let calls = if case.calls == 1 { "call" } else { "calls" };
            writeln!(
                out,
                "{} failed after {} measured {calls}: {failure}",
                case.case, case.calls
            )?;
        }
    }
    Ok(())
}

fn if_measured(time_of: Option<Duration>) -> String {
    time_of.map_or_else(|| "-".to_owned(), time)
}

/// Formats a time with a suitable unit.
fn time(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    match of.as_nanos() {
        0..1_000_000 => format!("{:.2} us", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}
