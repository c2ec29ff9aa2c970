//! Topology of this node, which `peal run` gives to procs.
use super::Finding;
use peal_config::Run;
use peal_core::choice::TopologySource;

/// Examines whether the topology can be discovered.
pub fn examine(settings: &Run) -> Finding {
    match settings.topology {
        TopologySource::Procs => Finding::ok("each proc discovers it (run.topology)"),
        // A kept topology would hide what is missing now.
        TopologySource::Launcher => match peal_launcher::node_topology(None, "") {
            Ok(_) => Finding::ok("lstopo discovers it; procs need not"),
            Err(error) => Finding::warning(
                error.to_string(),
                "Without it each proc discovers the topology by itself, so that jobs start more slowly.",
            ),
        },
    }
}
