//! Options of the job of `peal run`: those of the configuration, and the topology of this node where procs get
//! it or are bound to processors.
use crate::wait_message::WaitMessage;
use anyhow::{Context, Result};
use peal_config::{Config, Run};
use peal_core::choice::TopologySource;
use peal_launcher::{BindingRule, JobOptions, NodeProcessors, TopologyError};
use peal_model::Text;
use std::sync::Arc;

/// Returns the options.
///
/// # Errors
///
/// Fails if procs are to be bound, and nothing says to which processors.
pub fn job_options(config: &Config) -> Result<JobOptions> {
    let run = &config.run;
    let topology = match (run.topology, run.bind_to.unit()) {
        (TopologySource::Procs, None) => None,
        _ => Some(node_topology()),
    };
    let binding = match (&topology, run.bind_to.unit()) {
        (Some(Ok(xml)), Some(bind_to)) => Some(BindingRule {
            processors: Arc::new(
                processors(xml.as_str().unwrap_or_default()).context("procs cannot be bound")?,
            ),
            map_by: run.map_by.unwrap_or(bind_to),
            bind_to,
        }),
        (Some(Err(error)), Some(_)) => {
            anyhow::bail!("procs cannot be bound to processors: {error}; or run without --bind-to")
        }
        (_, None) | (None, _) => None,
    };
    Ok(JobOptions {
        on_abort: run.on_abort,
        action_timeout: run.action_timeout,
        termination_delay: run.termination_delay,
        grace: run.grace,
        restart: run.restart,
        control_groups: run.control_groups,
        topology: topology.and_then(|found| given(run, found)),
        binding,
        max_spawned: run.max_spawned_jobs,
        output_backlog_bytes: run.output_backlog_bytes,
    })
}

fn node_topology() -> Result<Text, TopologyError> {
    let directory = peal_modules::cache_dir().map(|dir| dir.join("topology"));
    // Its line is gone before anything else is printed.
    let _waiting = WaitMessage::new("discovering the topology of this node");
    peal_launcher::node_topology(directory.as_deref(), &peal_system::hostname())
}

/// Returns the processors that this process may use: neither its control group nor a binding of its own
/// forbids them.
fn processors(xml: &str) -> Result<NodeProcessors> {
    let is_usable = peal_launcher::usable_processors().context("cannot read the own processors")?;
    Ok(NodeProcessors::read(xml, is_usable)?)
}

/// Returns the topology for procs, if they get it.
fn given(run: &Run, found: Result<Text, TopologyError>) -> Option<Text> {
    if run.topology == TopologySource::Procs {
        return None;
    }
    found
        .inspect_err(|error| match error {
            // Procs are slower then, and not wrong.
            TopologyError::Missing => tracing::info!(%error, "topology not shared"),
            error => tracing::warn!(%error, "topology not shared; procs discover it"),
        })
        .ok()
}
