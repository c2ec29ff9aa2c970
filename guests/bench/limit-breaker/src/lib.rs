//! Exceeds a limit of the sandbox on each event of code -3997, a different one each time. Other
//! events have no effect.
use peal_sdk::{Event, Outcome, handler, key};
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

/// Code of the events.
const BREAK_LIMIT: i32 = -3997;

/// Number of calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);

fn handle(event: &Event) -> Outcome {
    if event.code() != BREAK_LIMIT {
        return Outcome::no_action();
    }
    // A new instance counts from 0 again. The number in the event, if any, chooses the limit.
    let number = event.get("bench.number").and_then(|value| value.as_u64());
    match number.unwrap_or_else(|| CALLS.fetch_add(1, Ordering::Relaxed)) % 6 {
        0 => spin(),
        1 => take(),
        2 => pester(event),
        3 => return Outcome::no_action().with("bench.large", "x".repeat(8 << 20).as_str()),
        4 => drop(black_box(dig(black_box(0)))),
        _ => copy(),
    }
    Outcome::no_action()
}

fn spin() {
    loop {
        black_box(CALLS.fetch_add(1, Ordering::Relaxed));
    }
}

fn take() {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn pester(event: &Event) {
    loop {
        black_box(event.get(key::PMIX_EVENT_HDLR_NAME));
    }
}

#[expect(unconditional_recursion, reason = "that is the harm it does")]
fn dig(depth: u64) -> u64 {
    let room = black_box([depth; 16]);
    1 + dig(depth + 1) + room.iter().sum::<u64>()
}

fn copy() {
    let from = vec![1_u8; 24 << 20];
    let mut to = vec![0_u8; 24 << 20];
    loop {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
}

handler!(handle);
