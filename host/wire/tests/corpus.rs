//! The fuzz targets over every recorded message and many damaged copies of each: the same ones in
//! every run.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod recording;

use peal_wire::fuzz;
use recording::{Message, Recording, all};

/// Damaged copies of each message, of each handshake.
const COPIES: u64 = 40;

/// Marsaglia's xorshift: damage that looks random and is the same in every run.
struct Damage(u64);

impl Damage {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// One to three of: a cut, a flipped bit, a byte replaced, added or taken out, a piece doubled.
    fn done_to(&mut self, intact: &[u8]) -> Vec<u8> {
        let mut data = intact.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(data.len());
            let byte = self.next() as u8;
            match self.below(6) {
                _ if data.is_empty() => data.push(byte),
                0 => data.truncate(at),
                1 => data[at] ^= 1 << (byte & 7),
                2 => data[at] = byte,
                3 => data.insert(at, byte),
                4 => drop(data.remove(at)),
                _ => data.extend_from_within(at..(at + 8).min(data.len())),
            }
        }
        data
    }
}

/// Runs a target over the data and its damaged copies; how many runs that were.
fn run(target: fn(&[u8]) -> Result<(), String>, head: &[u8], intact: &[u8], seed: usize) -> u64 {
    let mut damage = Damage(0x9e37_79b9_7f4a_7c15 ^ seed as u64);
    let mut data = intact.to_vec();
    for _ in 0..=COPIES {
        let whole = [head, &data].concat();
        if let Err(broken) = target(&whole) {
            panic!("{broken}\nfrom {whole:02x?}");
        }
        data = damage.done_to(intact);
    }
    COPIES + 1
}

/// The four bytes by which [`fuzz::message`] takes the rest for what it is.
fn head(message: &Message) -> Vec<u8> {
    fuzz::data_of_message(&message.codec, message.kind, &[]).unwrap()
}

#[test]
fn damaged_handshakes() {
    let mut runs = 0;
    for (seed, recording) in all().into_iter().enumerate() {
        runs += run(fuzz::handshake, &[], recording.hello().1, seed);
        runs += run(fuzz::handshake, &[], &recording.server, seed);
    }
    assert!(runs > 3000, "{runs}");
}

#[test]
fn damaged_messages() {
    let messages: Vec<_> = all().iter().flat_map(Recording::messages).collect();
    let each = messages.iter().enumerate();
    let runs: u64 = each
        .map(|(seed, message)| run(fuzz::message, &head(message), &message.frame.payload, seed))
        .sum();
    assert!(runs > 20_000, "{runs}");
}

#[test]
fn damaged_streams() {
    for (seed, recording) in all().into_iter().enumerate() {
        let frames: Vec<u8> = recording
            .messages()
            .iter()
            .flat_map(|message| message.frame.encode().unwrap())
            .take(4000)
            .collect();
        // No kind has this number: the rest is cut into frames and no more.
        run(fuzz::message, &[0, 0, 9, 0], &frames, seed);
    }
}

/// Inputs in which fuzzing found a fault, with the fault.
const FOUND: [(&str, &[u8]); 1] = [(
    "a reply to DeregisterEvents was decoded, but cannot be encoded",
    &[5, 1, 3, 14, 2, 1],
)];

#[test]
fn inputs_that_fuzzing_found() {
    for (fault, input) in FOUND {
        assert_eq!(fuzz::message(input), Ok(()), "{fault}");
    }
}
