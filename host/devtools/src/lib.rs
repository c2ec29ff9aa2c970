//! Tools for authors of components that need no server: new projects, module tests and benchmarks.
pub mod bench;
pub mod module_test;
pub mod project;
