//! The properties of the fuzz targets hold for the recorded connections, with which the fuzzer
//! begins.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod recording;

use peal_proxy::fuzz;

#[test]
fn recorded_connections_pass_whole() {
    let recordings = recording::all();
    assert!(recordings.len() > 30, "{} recordings", recordings.len());
    for (name, data) in recordings {
        assert_eq!(fuzz::streams(&data), Ok(()), "{name}");
    }
}

/// A connection that the proxy understands gives the fuzzer more to change than one that is passed
/// through.
#[test]
fn they_are_cut_as_they_came() {
    let (_, data) = recording::all()
        .into_iter()
        .find(|(name, _)| name == "client-basic")
        .unwrap();
    let mut relay = peal_proxy::ClientProxy::new(
        peal_wire::DecodeLimits::default(),
        std::time::Duration::from_secs(1),
    );
    let mut rest = data.as_slice();
    let mut welcomed = false;
    while let Some((length, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(usize::from(length >> 1));
        rest = behind;
        relay.feed(
            if length & 1 == 0 {
                peal_proxy::ProxySide::Client
            } else {
                peal_proxy::ProxySide::Server
            },
            piece,
        );
        welcomed |= matches!(
            relay.next_event(),
            Some(peal_proxy::ProxyEvent::Welcomed(Some(_)))
        );
    }
    assert!(welcomed);
}

/// Found by the fuzzer: a client registers under the tag of events, so that the event after it looks like the reply.
#[test]
fn registration_under_tag_of_events_holds_no_event() {
    let data = include_bytes!("recording/registration-under-tag-of-events");
    assert_eq!(fuzz::streams(data), Ok(()));
}
