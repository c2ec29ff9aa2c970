//! Groups, process sets and connected procs.
mod client_libraries;
mod clients;
mod connect;
mod invitations;
mod libpmix;
mod placed;
mod policies;
mod process_sets;
mod servers;
