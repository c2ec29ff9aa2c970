//! Time: a clock source that is quick to read, a clock that is set, and files that are not younger than it.
use super::Finding;
use peal_config::Resolved;
use std::{
    fs,
    process::Command,
    time::{Duration, SystemTime},
};

/// File with the name of the kernel's source of time.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Sources that take a system call or an access to a device for each reading.
const SLOW: [&str; 3] = ["hpet", "acpi_pm", "jiffies"];

/// Time by which a file may be younger than the clock says.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Examines the clock.
pub fn examine(resolved: &Resolved) -> Vec<Finding> {
    let findings = [source(), synchronized(resolved), younger_files(resolved)];
    let mut found: Vec<Finding> = findings.into_iter().flatten().collect();
    if found.is_empty() {
        found.push(Finding::ok(
            "it is quick to read, and synchronized as far as this system says",
        ));
    }
    found
}

fn source() -> Option<Finding> {
    let source = fs::read_to_string(SOURCE).ok()?;
    let source = source.trim();
    SLOW.contains(&source).then(|| {
        Finding::warning(
            format!("the kernel takes the time from {source}, which is slow to read"),
            "Each event is measured several times. Boot with clocksource=tsc where the processor has a steady one.",
        )
    })
}

/// Asks systemd if a time server sets the clock. Elsewhere nothing is known.
fn synchronized(resolved: &Resolved) -> Option<Finding> {
    let mut timedatectl = Command::new("timedatectl");
    timedatectl.args(["show", "--property", "NTPSynchronized", "--value"]);
    let said = timedatectl
        .output()
        .ok()
        .filter(|said| said.status.success())?;
    if said.stdout.trim_ascii() != b"no" {
        return None;
    }
    let found = "no time server sets the clock (timedatectl)";
    let advice = "Records of the audit trail and limits by time depend on it. Run chrony or systemd-timesyncd.";
    Some(if resolved.config.cluster.servers.is_empty() {
        Finding::warning(found, advice)
    } else {
        let nodes = "Nodes of a cluster are compared by their clocks.";
        Finding::warning(found, format!("{nodes}\n{advice}"))
    })
}

/// Looks for files of the server that are from the future: the clock was put back.
fn younger_files(resolved: &Resolved) -> Option<Finding> {
    let config = &resolved.config;
    let latest = SystemTime::now() + TOLERANCE;
    let mut files = [&config.audit.path, &config.store.path]
        .into_iter()
        .flatten();
    let is_younger = |path: &&std::path::PathBuf| {
        let changed = fs::metadata(path).and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed > latest)
    };
    let path = files.find(is_younger)?;
    Some(Finding::failed(
        format!("{} was written later than the clock says", path.display()),
        "The clock was put back. Set it before the server starts: it orders records by time, and drops old ones.",
    ))
}
