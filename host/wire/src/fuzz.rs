//! Properties that must hold for any bytes. The fuzz targets of `tests/fuzz` and the corpus test
//! call them; an `Err` is a violation. Feature `fuzz` only.
use crate::{
    BufferType, Codec, DecodeLimits, Dialect, Encoding, FrameDecoder, Hello, HelloDecoder, Version,
    WelcomeDecoder, WelcomeForm, WireError,
};
use peal_model::CommandCode;

/// One release of each row of the dialect table, in its newest encoding.
pub const DIALECTS: [(Version, Encoding); 9] = [
    (Version::new(4, 1, 0), Encoding::V4),
    (Version::new(4, 2, 2), Encoding::V41),
    (Version::new(4, 2, 3), Encoding::V41),
    (Version::new(4, 2, 9), Encoding::V41),
    (Version::new(5, 0, 3), Encoding::V41),
    (Version::new(5, 0, 11), Encoding::V41),
    (Version::new(6, 0, 0), Encoding::V51),
    (Version::new(6, 1, 0), Encoding::V61),
    (Version::new(7, 0, 0), Encoding::V61),
];

/// Kind of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request.
    Request,
    /// A reply to a command.
    Reply(CommandCode),
    /// An event.
    Event,
    /// Forwarded output.
    Output,
}

impl Kind {
    const REPLY: u8 = 3;

    fn selector(self) -> [u8; 2] {
        match self {
            Kind::Request => [0, 0],
            Kind::Event => [1, 0],
            Kind::Output => [2, 0],
            Kind::Reply(command) => [Self::REPLY, command.number()],
        }
    }

    fn selected([kind, command]: [u8; 2]) -> Option<Kind> {
        match kind {
            0 => Some(Kind::Request),
            1 => Some(Kind::Event),
            2 => Some(Kind::Output),
            Self::REPLY => CommandCode::try_from(command).ok().map(Kind::Reply),
            _ => None,
        }
    }

    /// Decodes a payload of this kind and encodes it again. The outer error is of decoding, the
    /// inner one of encoding.
    pub fn rewrite(
        self,
        codec: &Codec,
        payload: &[u8],
    ) -> Result<Result<Vec<u8>, WireError>, WireError> {
        Ok(match self {
            Kind::Request => codec.encode_request(&codec.decode_request(payload)?),
            Kind::Reply(command) => {
                codec.encode_reply(command, &codec.decode_reply(command, payload)?)
            }
            Kind::Event => codec.encode_event(&codec.decode_event(payload)?),
            Kind::Output => codec.encode_output(&codec.decode_output(payload)?),
        })
    }
}

/// Checks that a decoded handshake can be encoded and decodes to the same, and welcomes likewise.
/// Splitting the bytes must not change the result.
pub fn handshake(data: &[u8]) -> Result<(), String> {
    let limits = DecodeLimits::default();
    for form in [
        WelcomeForm::Client,
        WelcomeForm::Tool,
        WelcomeForm::NamedTool,
    ] {
        if let Ok(Some(welcome)) = WelcomeDecoder::new(form).feed(&mut &*data) {
            let again = WelcomeDecoder::new(form).feed(&mut &*welcome.encode());
            same("welcome", &Ok(Some(welcome)), &again)?;
        }
    }
    let whole = HelloDecoder::new(limits).feed(&mut &*data);
    if let Some((mut front, mut back)) = data.split_at_checked(data.len() / 2) {
        let mut decoder = HelloDecoder::new(limits);
        let halves = match decoder.feed(&mut front) {
            Ok(None) => decoder.feed(&mut back),
            early => early,
        };
        same(
            "handshake in halves",
            &format!("{whole:?}"),
            &format!("{halves:?}"),
        )?;
    }
    let Ok(Some(hello)) = whole else {
        return Ok(());
    };
    let written = rewrite_hello(&hello, limits)?;
    let read = HelloDecoder::new(limits).feed(&mut &*written);
    let again = read.map_err(|error| format!("encoded handshake is not decoded: {error}"))?;
    let again = again.ok_or("a handshake does not end where it did")?;
    same("handshake", &written, &rewrite_hello(&again, limits)?)
}

fn rewrite_hello(hello: &Hello, limits: DecodeLimits) -> Result<Vec<u8>, String> {
    hello
        .encode(limits)
        .map_err(|error| format!("decoded handshake is not encoded: {error}"))
}

/// Returns the input from which [`message`] gets this payload; `None` if no row has the codec's
/// release.
pub fn data_of_message(codec: &Codec, kind: Kind, payload: &[u8]) -> Option<Vec<u8>> {
    let row = DIALECTS
        .iter()
        .position(|row| row.0 == codec.dialect.version())?;
    let [kind, command] = kind.selector();
    Some(
        [
            &[
                u8::try_from(row).ok()?,
                codec.buffer_type.number(),
                kind,
                command,
            ],
            payload,
        ]
        .concat(),
    )
}

/// Checks that a decoded message can be encoded and decodes to the same. The first four bytes
/// choose the dialect, the buffer type and the kind of the rest. The rest is also split into frames
/// in two ways.
pub fn message(data: &[u8]) -> Result<(), String> {
    let Some(([dialect, buffer_type, kind @ ..], payload)) = data.split_first_chunk::<4>() else {
        return Ok(());
    };
    frames(payload)?;
    let chosen = DIALECTS.get(usize::from(*dialect) % DIALECTS.len());
    let (Some((version, encoding)), Some(kind)) = (chosen, Kind::selected(*kind)) else {
        return Ok(());
    };
    let buffer_type = BufferType::try_from(*buffer_type).unwrap_or(BufferType::NonDescribed);
    let codec = Codec {
        dialect: Dialect::new(*version, *encoding),
        buffer_type,
        limits: DecodeLimits::default(),
    };
    match kind.rewrite(&codec, payload) {
        Err(_) => Ok(()),
        // A peer may send a command that its release lacks, but it is never sent one.
        Ok(Err(WireError::CommandNotInRelease { .. })) => Ok(()),
        Ok(Err(error)) => Err(format!(
            "{kind:?} towards {codec:?} does not write again: {error}"
        )),
        Ok(Ok(written)) => match kind.rewrite(&codec, &written) {
            Ok(Ok(again)) => same("message", &written, &again),
            other => Err(format!(
                "{kind:?} towards {codec:?} does not read again: {other:?}"
            )),
        },
    }
}

fn frames(stream: &[u8]) -> Result<(), String> {
    let limits = DecodeLimits {
        max_message: 1 << 16,
        ..DecodeLimits::default()
    };
    let mut whole = FrameDecoder::new(&limits);
    let mut bytewise = FrameDecoder::new(&limits);
    let mut rest = stream;
    let mut cut = Vec::new();
    for byte in stream {
        match bytewise.feed(&mut std::slice::from_ref(byte)) {
            Ok(None) => {}
            Ok(Some(frame)) => cut.push(frame),
            Err(_) => break,
        }
    }
    let mut at_once = Vec::new();
    while let Ok(Some(frame)) = whole.feed(&mut rest) {
        at_once.push(frame);
    }
    same("frames", &at_once, &cut)?;
    same(
        "place between frames",
        &whole.is_between_frames(),
        &bytewise.is_between_frames(),
    )
}

fn same<T: PartialEq + std::fmt::Debug>(part: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other {
        Ok(())
    } else {
        Err(format!("{part}: {one:?} became {other:?}"))
    }
}
