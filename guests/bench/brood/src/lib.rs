//! Never decides about an event: as a shadow it is cut off each time, and must hold up nobody.
use peal_sdk::{PolicyOutcome, Request, event_policy};
use std::hint::spin_loop;

fn decide(_request: &Request) -> PolicyOutcome {
    loop {
        spin_loop();
    }
}

event_policy!(decide);
