//! Messages between a server and the signer of its trail: any bytes are refused or read, what is read
//! is written again as it was, and no requests make the signer return to an earlier record.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_audit::{
    Keys, SignerRules, SignerState,
    signer::message::{FromSigner, LIMIT, OpenTrail, PROTOCOL, ToSigner},
};
use peal_frames::{FrameLimit, MessageDecoder, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, time::Duration};

/// Longest frame. Longer ones are refused by their headers alone.
const SHORT: FrameLimit = FrameLimit(1 << 16);

fn read_all<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Vec<T> {
    let mut decoder = MessageDecoder::new(SHORT);
    decoder.push(bytes);
    let mut messages = Vec::new();
    while let Ok(Some(message)) = decoder.next_message::<T>() {
        let frame = encode(&message, LIMIT).unwrap();
        let mut again = MessageDecoder::new(LIMIT);
        again.push(&frame);
        assert_eq!(again.next_message::<T>().unwrap().as_ref(), Some(&message));
        messages.push(message);
    }
    messages
}

fuzz_target!(|bytes: &[u8]| {
    read_all::<FromSigner>(bytes);
    let rules = SignerRules {
        oldest_age: Duration::from_secs(3600),
        passing_age: Duration::from_secs(60),
    };
    let mut signer = SignerState::new(Keys::of(&[7; 32]), rules, None);
    let open = ToSigner::Open(OpenTrail {
        protocol: PROTOCOL,
        head: None,
        previous_run: None,
    });
    signer.handle(open, 1 << 40).unwrap();
    for request in read_all::<ToSigner>(bytes) {
        let before = signer.heads().unwrap();
        if signer.handle(request, 1 << 40).is_err() {
            return;
        }
        let after = signer.heads().unwrap();
        let is_kept = after.committed == before.committed || after.committed == before.sealed;
        assert!(is_kept && after.sealed.0 >= after.committed.0);
    }
});
