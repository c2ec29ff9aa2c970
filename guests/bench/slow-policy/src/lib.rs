//! Never returns from a decision about an event. As a shadow it runs into its time limit each time,
//! and must not delay other modules.
use peal_sdk::{PolicyOutcome, Request, event_policy};
use std::hint::spin_loop;

fn decide(_request: &Request) -> PolicyOutcome {
    loop {
        spin_loop();
    }
}

event_policy!(decide);
