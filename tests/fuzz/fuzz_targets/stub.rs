//! Messages between a stub and its server: any bytes are refused or read, and what is read is written
//! again as it was.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_stub::{FrameLimit, MessageDecoder, ServerMessage, StubMessage, encode, fork};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Longest frame. Longer ones are refused by their headers alone.
const LIMIT: FrameLimit = FrameLimit(1 << 16);

fn read_all<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let mut decoder = MessageDecoder::new(LIMIT);
    decoder.push(bytes);
    while let Ok(Some(message)) = decoder.next_message::<T>() {
        let frame = encode(&message, FrameLimit::default()).unwrap();
        let mut again = MessageDecoder::new(FrameLimit::default());
        again.push(&frame);
        let read = again.next_message::<T>().unwrap().unwrap();
        // A number that is none equals nothing, so the texts are compared.
        assert_eq!(format!("{read:?}"), format!("{message:?}"));
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_all::<StubMessage>(bytes);
    read_all::<ServerMessage>(bytes);
    let _ = fork::read(bytes);
});
