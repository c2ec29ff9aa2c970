//! Never returns: the host stops it at its time limit and the chain continues.
use peal_sdk::{Event, Outcome, handler};

fn loop_forever(_event: &Event) -> Outcome {
    loop {
        std::hint::spin_loop();
    }
}

handler!(loop_forever);
