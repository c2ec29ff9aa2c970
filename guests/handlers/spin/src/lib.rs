//! Never returns. Shows the limit on time at work: the host stops it and the chain goes on.
use peal_sdk::{Event, Outcome, handler};

fn spin(_event: &Event) -> Outcome {
    loop {
        std::hint::spin_loop();
    }
}

handler!(spin);
