//! Log channels, sinks, telemetry and the audit trail.
mod audit_replay;
mod audit_report;
mod audit_trail;
mod channels;
mod cluster_trails;
mod gateways;
mod job_output;
mod policies;
mod process_kills;
mod replay_errors;
mod sinks;
mod telemetry;
mod telemetry_export;
mod webhooks;
