//! Messages between a server and its privileged helper: any bytes are refused or read, and what is read
//! is written again as it was.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_frames::{FrameLimit, MessageDecoder, encode};
use peal_helper::message::{FromHelper, LIMIT, ToHelper};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Longest frame. Longer ones are refused by their headers alone.
const SHORT: FrameLimit = FrameLimit(1 << 16);

fn read_all<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let mut decoder = MessageDecoder::new(SHORT);
    decoder.push(bytes);
    while let Ok(Some(message)) = decoder.next_message::<T>() {
        let frame = encode(&message, LIMIT).unwrap();
        let mut again = MessageDecoder::new(LIMIT);
        again.push(&frame);
        assert_eq!(again.next_message::<T>().unwrap(), Some(message));
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_all::<ToHelper>(bytes);
    read_all::<FromHelper>(bytes);
});
