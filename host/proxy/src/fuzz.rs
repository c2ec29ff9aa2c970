//! Properties that must hold for any bytes, however they are split: for the fuzz target and the
//! tests.
use crate::{ClientProxy, EventDisposition, ProxyEvent, ProxySide};
use peal_model::Status;
use peal_wire::DecodeLimits;
use std::time::Duration;

/// Patience of the proxies; no time passes in a run.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest piece that a length byte can state.
const LONGEST: usize = 127;

/// Checks that a proxy without handlers passes on every byte, and that one with handlers never
/// fails. The data are pieces of the two streams in turn: a length, whose lowest bit is the
/// side, and as many bytes.
pub fn streams(data: &[u8]) -> Result<(), String> {
    let mut plain = ClientProxy::new(DecodeLimits::default(), PATIENCE);
    let mut handling = ClientProxy::new(DecodeLimits::default(), PATIENCE);
    // There is no connection yet, so no request can fail.
    let _ = handling.register_codes(&[Status(-1), Status::DEFAULT_HANDLER]);
    for (side, piece) in pieces(data) {
        plain.feed(side, piece);
        handling.feed(side, piece);
        while let Some(happening) = handling.next_event() {
            if let ProxyEvent::Event { number, .. } = happening {
                handling.decided(number, EventDisposition::Pass(Vec::new()));
            }
        }
    }
    for (from, to) in [
        (ProxySide::Client, ProxySide::Server),
        (ProxySide::Server, ProxySide::Client),
    ] {
        plain.ended(from);
        handling.ended(from);
        let sent = bytes_of(from, data);
        let passed = plain.take(to);
        if sent != passed {
            return Err(format!(
                "{from:?} sent {} bytes, but {} different bytes were passed on",
                sent.len(),
                passed.len()
            ));
        }
    }
    if !handling.is_settled() {
        return Err("an event with a verdict still waits".to_owned());
    }
    Ok(())
}

/// Returns the data that [`streams`] reads as these pieces, in this order, as seeds of the fuzzer.
pub fn data_of_streams<'a>(pieces: impl IntoIterator<Item = (ProxySide, &'a [u8])>) -> Vec<u8> {
    let mut data = Vec::new();
    for (side, bytes) in pieces {
        for piece in bytes.chunks(LONGEST) {
            let length = u8::try_from(piece.len()).unwrap_or_default() << 1;
            data.push(if side == ProxySide::Client {
                length
            } else {
                length | 1
            });
            data.extend_from_slice(piece);
        }
    }
    data
}

fn bytes_of(side: ProxySide, data: &[u8]) -> Vec<u8> {
    pieces(data)
        .filter(|(from, _)| *from == side)
        .flat_map(|(_, piece)| piece)
        .copied()
        .collect()
}

/// Returns the pieces of both sides, in their order.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = (ProxySide, &[u8])> {
    std::iter::from_fn(move || {
        let (length, behind) = data.split_first()?;
        let side = if length & 1 == 0 {
            ProxySide::Client
        } else {
            ProxySide::Server
        };
        let (piece, behind) = behind
            .split_at_checked(usize::from(length >> 1))
            .unwrap_or((behind, &[]));
        data = behind;
        Some((side, piece))
    })
}
