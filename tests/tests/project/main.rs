//! The rules of the repository, its contract and its documents.
mod architecture;
mod conformance;
mod contract;
mod foreign_servers;
mod naming;
mod readme;
