//! The rules of the repository, its contract and its documents.
mod architecture;
mod book;
mod conformance;
mod contract;
mod examples;
mod foreign_servers;
mod install;
mod monitoring;
mod naming;
mod readme;
mod service;
mod service_unit;
