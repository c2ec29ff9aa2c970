//! The recorded connections of `data/wire-vectors`, cut into messages.
use peal_model::CommandCode;
use peal_wire::{fuzz::Kind, *};
use std::{collections::HashMap, fs, path::PathBuf};

/// One recorded connection.
pub struct Recording {
    /// The name of its file.
    pub name: String,
    /// Bytes of the client.
    pub client: Vec<u8>,
    /// Bytes of the server; empty if it refused the client.
    pub server: Vec<u8>,
}

/// A frame with its sender and its decoded kind.
pub struct Message {
    /// Codec of the sender.
    pub codec: Codec,
    /// Kind of the payload.
    pub kind: Kind,
    /// The frame.
    pub frame: Frame,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/wire-vectors")
}

/// Every recording, by name.
pub fn all() -> Vec<Recording> {
    let files = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.iter().map(|name| Recording::open(name)).collect()
}

impl Recording {
    /// The recording of that name.
    pub fn open(name: &str) -> Recording {
        let text = fs::read_to_string(folder().join(format!("{name}.hex"))).unwrap();
        let mut recording = Recording {
            name: name.to_owned(),
            client: Vec::new(),
            server: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (side, hex) = line.split_once(' ').unwrap();
            let bytes = if hex == "EOF" { Vec::new() } else { unhex(hex) };
            match side {
                "c" => recording.client.extend(bytes),
                "s" => recording.server.extend(bytes),
                _ => panic!("{name}: {side} is no side"),
            }
        }
        recording
    }

    /// The handshake of the client, and its bytes.
    pub fn hello(&self) -> (Hello, &[u8]) {
        let mut rest = &*self.client;
        let hello = HelloDecoder::new(DecodeLimits::default())
            .feed(&mut rest)
            .unwrap()
            .unwrap();
        (hello, &self.client[..self.client.len() - rest.len()])
    }

    /// The answer to it, and its bytes; nothing if the client was refused.
    pub fn welcome(&self) -> Option<(Welcome, &[u8])> {
        let (hello, _) = self.hello();
        let mut rest = &*self.server;
        let welcome = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()))
            .feed(&mut rest)
            .unwrap()?;
        Some((welcome, &self.server[..self.server.len() - rest.len()]))
    }

    /// The frames of both sides, first those of the client.
    pub fn messages(&self) -> Vec<Message> {
        let (hello, said) = self.hello();
        let codec = Codec::of(&hello, DecodeLimits::default());
        let requests = self.frames(&self.client[said.len()..]);
        // The reply to an unknown command is a status alone, like that to a finalize.
        let command = |frame: &Frame| {
            codec
                .decode_request(&frame.payload)
                .map_or(CommandCode::Finalize, |request| request.command())
        };
        let commands: HashMap<Tag, CommandCode> = requests
            .iter()
            .map(|frame| (frame.tag, command(frame)))
            .collect();
        let requests = requests.into_iter().map(|frame| Message {
            codec,
            kind: Kind::Request,
            frame,
        });

        let answered = self.welcome().map_or(0, |(_, said)| said.len());
        let replies = self.frames(&self.server[answered..]);
        let dialect = Dialect::new(self.server_release(hello.release.version()), hello.encoding);
        let replies = replies.into_iter().map(|frame| Message {
            codec: Codec { dialect, ..codec },
            kind: match frame.tag {
                Tag::NOTIFY => Kind::Event,
                Tag::IOF => Kind::Output,
                tag => Kind::Reply(commands[&tag]),
            },
            frame,
        });
        requests.chain(replies).collect()
    }

    fn frames(&self, stream: &[u8]) -> Vec<Frame> {
        let mut decoder = FrameDecoder::new(&DecodeLimits::default());
        let mut rest = stream;
        let mut frames = Vec::new();
        while let Some(frame) = decoder.feed(&mut rest).unwrap() {
            frames.push(frame);
        }
        assert!(
            decoder.is_between_frames(),
            "{}: a frame is cut short",
            self.name
        );
        let again: Vec<u8> = frames
            .iter()
            .flat_map(|frame| frame.encode().unwrap())
            .collect();
        assert_eq!(again, stream, "{}", self.name);
        frames
    }

    /// The release of the server: that of the client but for two recordings.
    fn server_release(&self, client: Version) -> Version {
        match self.name.as_str() {
            "client5-server4" => Version::new(4, 2, 2),
            "client4-server5-group" => Version::new(5, 0, 11),
            _ => client,
        }
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
