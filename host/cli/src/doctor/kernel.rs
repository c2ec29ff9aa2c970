//! Kernel: what it enforces of the confinement of a server.
use super::Finding;
use crate::confinement::extent;
use peal_config::ConfinementMode;
use peal_confinement::{EnforcementLevel, KernelSupport};
use rustix::system::uname;

/// Examines the kernel, for a configuration with this mode.
pub fn examine(mode: ConfinementMode) -> Finding {
    let release = uname();
    let release = format!("Linux {}", release.release().to_string_lossy());
    let support = match KernelSupport::probe() {
        Ok(support) => support,
        Err(error) => {
            return Finding::failed(
                format!("{release} cannot confine: {error}"),
                "Run `peal serve` where the kernel may confine it: not below another confinement that forbids that. \
                 confinement.mode = \"off\" gives it up.",
            );
        }
    };
    let KernelSupport { files, calls } = support;
    if (files, calls) == (EnforcementLevel::Full, EnforcementLevel::Full) {
        return Finding::ok(format!("{release} confines wholly (Landlock, seccomp)"));
    }
    let found = format!(
        "{release} confines files and signals {} (Landlock), system calls {} (seccomp)",
        extent(files),
        extent(calls)
    );
    let advice = "Linux 6.12 confines wholly, if Landlock is among the modules in /sys/kernel/security/lsm \
                  (boot parameter lsm=).";
    if mode == ConfinementMode::Require {
        let needed = "confinement.mode = \"require\" keeps the server from starting here.";
        Finding::failed(found, format!("{needed}\n{advice}"))
    } else {
        Finding::warning(found, advice)
    }
}
