//! The harness of the tests that step a server's state by hand.
pub mod stage;
