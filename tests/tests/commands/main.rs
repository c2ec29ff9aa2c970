//! The commands of Peal against real servers.
mod admin;
mod attach;
mod chain;
mod checkpoint_requests;
mod command_line;
mod config;
mod ctl;
mod event;
mod fail_stop;
mod group;
mod memory;
mod process_state;
mod ps;
mod run_options;
mod serve;
mod status;
mod usage_errors;
