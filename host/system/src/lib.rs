//! Facts and operations of the operating system that several crates need: the node's name,
//! processes and control groups, resource usage, and work done with the rights of another user.

pub mod as_user;
pub mod cgroup;
pub mod credentials;
mod hostname;
pub mod process;
pub mod socket_holder;
pub mod tenant_cgroup;
pub mod usage;

pub use hostname::hostname;
