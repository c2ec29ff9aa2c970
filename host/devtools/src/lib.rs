//! What authors of components need, without a server: projects that build, trials of what was built, and what a call costs.
pub mod bench;
pub mod module_test;
pub mod project;
