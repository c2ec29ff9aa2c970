//! Pages of the console, each with what it shows and its live parts.
pub(crate) mod activity;
pub(crate) mod audit;
pub(crate) mod chains;
pub(crate) mod denials;
pub(crate) mod events;
pub(crate) mod module_changes;
pub(crate) mod modules;
