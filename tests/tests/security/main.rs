//! Policies, identities, malformed input and attacks.
mod attacks;
mod client_input;
mod compromised_node;
mod confinement;
mod control_policies;
mod fake_server;
mod identity;
mod policies;
mod request_fuzz;
mod rogue_runtimes;
mod server_process;
mod supervised;
mod tenants;
