//! Modules: their limits, owners, signatures, languages and tests.
mod artifacts;
mod deploy;
mod downgrades;
mod exceptions;
mod languages;
mod module_dev;
mod module_inspect;
mod module_limits;
mod module_project;
mod module_scope;
mod module_test;
mod shipped;
mod shipped_on_server;
mod signatures;
mod tenant_processes;
mod tenants;
mod user_modules;
