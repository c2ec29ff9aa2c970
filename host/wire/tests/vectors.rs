//! Every recorded message reads, and writes again to the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

mod recording;

use peal_model::{CommandCode, Event, JobEntry, Nspace, Proc, Range, Rank, Reply, Request};
use peal_wire::{fuzz::Kind, *};
use recording::{Message, Recording, all};

#[test]
fn every_handshake_is_written_as_it_was_read() {
    let recordings = all();
    assert_eq!(recordings.len(), 37);
    for recording in recordings {
        let (hello, said) = recording.hello();
        assert_eq!(
            hello.encode(DecodeLimits::default()).unwrap(),
            said,
            "{}",
            recording.name
        );
        match recording.welcome() {
            Some((welcome, said)) => assert_eq!(welcome.encode(), said, "{}", recording.name),
            None => {
                assert!(["reject-unknown-nspace", "singleton5-refused"].contains(&&*recording.name))
            }
        }
    }
}

#[test]
fn every_message_is_written_as_it_was_read() {
    let mut seen = 0;
    for recording in all() {
        for Message { codec, kind, frame } in recording.messages() {
            let name = format!("{} {:?} {kind:?}", recording.name, frame.tag);
            seen += 1;
            // A heartbeat says nothing, and one program tries a command that no release has.
            if frame.tag == Tag::HEARTBEAT {
                assert_eq!(frame.payload, []);
            } else if frame.payload == [2, 99] {
                assert_eq!(
                    codec.decode_request(&frame.payload),
                    Err(WireError::UnknownCommand { number: 99 })
                );
            } else {
                let written = kind
                    .rewrite(&codec, &frame.payload)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(written.unwrap(), frame.payload, "{name}");
            }
        }
    }
    assert_eq!(seen, 550);
}

fn requests(name: &str) -> Vec<Request> {
    let messages = Recording::open(name).messages();
    let requests = messages
        .iter()
        .filter(|message| message.kind == Kind::Request);
    requests
        .map(|message| {
            message
                .codec
                .decode_request(&message.frame.payload)
                .unwrap()
        })
        .collect()
}

fn replies(name: &str, command: CommandCode) -> Vec<Reply> {
    let messages = Recording::open(name).messages();
    let replies = messages
        .iter()
        .filter(|message| message.kind == Kind::Reply(command));
    replies
        .map(|message| {
            message
                .codec
                .decode_reply(command, &message.frame.payload)
                .unwrap()
        })
        .collect()
}

fn first_event(name: &str) -> Event {
    let messages = Recording::open(name).messages();
    let event = messages
        .iter()
        .find(|message| message.kind == Kind::Event)
        .unwrap();
    event.codec.decode_event(&event.frame.payload).unwrap()
}

#[test]
fn client_hello_identifies_client() {
    let recording = Recording::open("client-basic");
    let (hello, _) = recording.hello();
    assert_eq!(
        hello.peer,
        PeerKind::Client(Proc::new(Nspace::new("labns").unwrap(), Rank(0)))
    );
    assert_eq!(
        hello.credential,
        Credential::Native(ClaimedUser { uid: 0, gid: 0 })
    );
    assert_eq!(
        (hello.release.as_str(), hello.encoding, hello.gds.as_str()),
        ("4.2.2rc2", Encoding::V41, Some("hash"))
    );
    assert_eq!(recording.welcome().unwrap().0, Welcome::Client { index: 0 });
    let commands: Vec<_> = requests("client-basic")
        .iter()
        .map(Request::command)
        .collect();
    use CommandCode::*;
    assert_eq!(
        commands,
        [
            JobData,
            RegisterEvents,
            Notify,
            Log,
            Fence,
            DeregisterEvents,
            Finalize
        ]
    );
}

#[test]
fn a_tool_gets_a_name() {
    let recording = Recording::open("tool5-needs-id");
    let (hello, _) = recording.hello();
    assert_eq!(
        hello.peer,
        PeerKind::Tool(ClaimedUser { uid: 0, gid: 0 }, ToolIdentifier::Wanted)
    );
    let keys: Vec<_> = hello.infos.iter().map(|info| info.key.as_str()).collect();
    assert!(
        keys.contains(&"pmix.euid") && keys.contains(&"pmix.cmd.line"),
        "{keys:?}"
    );
    let Some((
        Welcome::Tool {
            name: Some(name),
            server,
            security,
        },
        _,
    )) = recording.welcome()
    else {
        panic!("no name");
    };
    assert_eq!(
        (name.nspace.as_str(), server.nspace.as_str(), security.0),
        ("toolns", "labserver", 0)
    );
}

#[test]
fn the_data_of_ranks_are_unwrapped() {
    let [Reply::JobData(job)] = &replies("client-basic", CommandCode::JobData)[..] else {
        panic!("no job data");
    };
    let Some(JobEntry::Rank(rank, kvals)) = job.entries.last() else {
        panic!("no rank");
    };
    assert_eq!((rank.0, kvals.len()), (0, 5));
}

#[test]
fn group_is_packed_in_the_form_of_the_release() {
    let group = |name| match &replies(name, CommandCode::GroupConstruct)[..] {
        [Reply::Group(told)] => (told.members.len(), told.context_id),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(group("group-construct-0"), (0, Some(42)));
    assert_eq!(group("client5-group-0"), (2, Some(42)));
    assert_eq!(group("client4-server5-group"), (2, Some(42)));
    assert_eq!(group("client5-server4"), (0, Some(42)));
}

#[test]
fn a_cached_event_has_no_range() {
    let cached = first_event("event-cached");
    let live = first_event("event-sink");
    assert_eq!((cached.range, live.range), (Range::Undef, Range::Namespace));
    assert_eq!(
        (cached.code, cached.source, cached.infos),
        (live.code, live.source, live.infos)
    );
}

#[test]
fn described_buffers_have_equal_contents() {
    assert_eq!(
        Recording::open("client-described").hello().0.buffer_type,
        BufferType::Described
    );
    assert_eq!(
        requests("client-described")[..3],
        requests("client-basic")[..3]
    );
}
