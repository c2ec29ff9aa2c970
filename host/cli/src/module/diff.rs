//! `peal module diff`: outcomes of a shadow module, and where they differ from those of the modules
//! in force.
use crate::{
    admin,
    args::{ModuleDiff, OutputFormat},
    output,
};
use anyhow::Result;
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, ModuleCall, ShadowReport};
use std::{io::Write, process::ExitCode};

/// Prints the report.
pub fn show(args: ModuleDiff) -> Result<ExitCode> {
    let (reply, _) = admin::request(
        args.named.at,
        &AdminRequest::Module(ModuleCall::Diff {
            name: args.named.name.clone(),
        }),
    )?;
    let AdminReply::Differences { shadows } = reply else {
        return admin::unexpected(&reply);
    };
    if let OutputFormat::Data(form) = args.format.output {
        output::print(&form.document(&shadows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = output::stdout();
    if shadows.is_empty() {
        writeln!(out, "{} has not been called yet", args.named.name)?;
    }
    shadows
        .iter()
        .try_for_each(|shadow| print(&mut out, &args.named.name, shadow))?;
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, name: &str, shadow: &ShadowReport) -> Result<()> {
    let ShadowReport {
        calls,
        failed,
        missed,
        differed,
        ..
    } = shadow;
    writeln!(
        out,
        "{name}: called {}, {differed} would have come to something else",
        times(*calls)
    )?;
    if *failed > 0 {
        writeln!(out, "  failed {}", times(*failed))?;
    }
    if *missed > 0 {
        writeln!(
            out,
            "  not called {}: it takes too long for all that there is",
            times(*missed)
        )?;
    }
    for (answer, count) in &shadow.answers {
        writeln!(out, "  {}: {answer}", times(*count))?;
    }
    if !shadow.differences.is_empty() {
        writeln!(out, "the latest differences:")?;
    }
    for difference in &shadow.differences {
        writeln!(out, "  {}", difference.about)?;
        writeln!(out, "    happened: {}", difference.actual)?;
        writeln!(out, "    would:    {}", difference.would)?;
    }
    Ok(())
}

fn times(count: u64) -> String {
    counted(count, "time")
}
