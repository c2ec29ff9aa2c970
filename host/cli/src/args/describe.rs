//! Command line of `peal describe`.
use super::{AuditSource, FactFormats, OutputArgs, ServerArgs, number::whole};
use crate::completion;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use peal_config::words;
use peal_model::Nspace;

pub(super) const DESCRIBE_EXAMPLES: &str = "\
What cannot be found out, because a server does not answer or a trail is not configured, is left out, and
said on standard error.

Examples:
  peal describe module quota
  peal describe job solver -o yaml
  peal audit list --outcome denied -o name | tail -1 | xargs peal describe denial
  peal describe event 4711";

/// `peal describe`.
#[derive(Subcommand)]
pub enum DescribeCommand {
    /// Describe a module of a running server
    ///
    /// Its state, component, handlers, metrics, set versions and, for a shadow, its differences.
    Module(DescribeModule),
    /// Describe a job
    ///
    /// Its procs, handlers and record, and denials of its requests in the audit trail.
    Job(DescribeJob),
    /// Describe a denial by the number of its record in the audit trail
    ///
    /// The request, the reasons, and the calls of the policies that were asked.
    Denial(DescribeRecord),
    /// Describe an event by the number of a record of the audit trail about a call for it
    ///
    /// The event and the calls of all recorded handlers for it, in their order.
    Event(DescribeRecord),
}

/// `peal describe module`.
#[derive(ClapArgs)]
pub struct DescribeModule {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the module
    #[arg(add = ArgValueCandidates::new(completion::modules), value_name = "NAME")]
    pub name: String,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal describe job`.
#[derive(ClapArgs)]
pub struct DescribeJob {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal describe denial` and `event`.
#[derive(ClapArgs)]
pub struct DescribeRecord {
    /// Number of the record
    #[arg(value_name = "NUMBER", value_parser = whole(1..=u64::MAX))]
    pub seq: u64,
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}
