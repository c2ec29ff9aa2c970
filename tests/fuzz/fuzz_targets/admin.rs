//! Messages of the admin socket: any line is refused or read, and what is read is written again as it
//! was.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_server::admin::{AdminEnvelope, AdminReply, AdminRequest, PROTOCOL};

fuzz_target!(|data: &[u8]| {
    if let Ok(call) = AdminRequest::parse(data) {
        let peal = PROTOCOL;
        let line = serde_json::to_vec(&AdminEnvelope {
            peal,
            call: &call,
            behalf: None,
        })
        .unwrap();
        assert_eq!(AdminRequest::parse(&line), Ok(call));
    }
    if let Ok(reply) = serde_json::from_slice::<AdminReply>(data) {
        let line = serde_json::to_vec(&reply).unwrap();
        let again = serde_json::from_slice::<AdminReply>(&line).unwrap();
        assert_eq!(line, serde_json::to_vec(&again).unwrap());
    }
});
