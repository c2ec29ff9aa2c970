//! `peal module bench`.
use super::tried::Tried;
use crate::args::ModuleBench;
use anyhow::Result;
use peal_author::{
    bench::{self, Effort, Measured},
    trial::CaseFile,
};
use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

/// Measures a component and prints what its calls take.
pub fn bench(args: &ModuleBench) -> Result<ExitCode> {
    let tried = Tried::find(&args.component)?;
    let name = tried.name();
    let file = args.cases.as_ref().map(|path| CaseFile::read(path, &name)).transpose()?;
    let calls = usize::try_from(args.calls)?;
    let effort = Effort { calls, ..Effort::default() };
    let is_watched = io::stderr().is_terminal();
    let tell = |what: &str| {
        if is_watched {
            // Nobody else needs to know.
            let _ = write!(io::stderr(), "\r\u{1b}[K{what} ...");
        }
    };
    let measured = bench::measure(&name, &tried.bytes, file.as_ref().map(|file| &file.cases), effort, tell);
    if is_watched {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
    let measured = measured?;
    let mut out = crate::output::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &measured)?;
        writeln!(out)?;
    } else {
        print(&measured, tried.bytes.len(), &mut out)?;
    }
    let has_failed = measured.cases.iter().any(|case| case.failure.is_some());
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(measured: &Measured, size: usize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "size     {size} bytes")?;
    writeln!(out, "compile  {}", time(measured.compile))?;
    writeln!(out, "start    {}", time(measured.start))?;
    writeln!(out)?;
    let head = ["first call", "median", "p95", "p99", "fuel", "memory"];
    let row = |cells: [String; 6]| cells.map(|cell| format!("{cell:>11}")).concat();
    writeln!(out, "{}  case", row(head.map(str::to_owned)))?;
    for case in &measured.cases {
        let fuel = case.fuel.map_or_else(|| "-".to_owned(), |fuel| fuel.to_string());
        let memory = format!("{} KiB", case.memory.div_ceil(1024));
        let times = [case.first, case.median, case.p95, case.p99].map(time);
        let [first, median, p95, p99] = times;
        writeln!(out, "{}  {}", row([first, median, p95, p99, fuel, memory]), case.case)?;
        if let Some(failure) = &case.failure {
            writeln!(out, "{:66}  failed after {} calls: {failure}", "", case.calls)?;
        }
    }
    Ok(())
}

/// A time with a unit that suits it.
fn time(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    match of.as_nanos() {
        0..1_000_000 => format!("{:.2} us", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}
