//! Packing of messages to clients. An event for many clients is packed once for all with the same
//! codec, and so are the data of a job for its procs, and the members of a group for them.
use crate::{
    client_writer::ClientWriter, connection::ConnectionError, outbox::Outgoing,
    trace_limit::warn_once,
};
use peal_model::{CommandCode, Event, GroupResult, JobEntry, JobInfo, Reply, code};
use peal_wire::{Codec, Frame, IofOutput, Tag, WireError};
use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Cache of the messages that were packed last.
#[derive(Default)]
pub(crate) struct Packing {
    /// Event. Its other recipients are usually served right after.
    event: Mutex<Option<PackedEvent>>,
    job_data: Mutex<Option<PackedJobData>>,
    group: Mutex<Option<PackedGroup>>,
}

struct PackedEvent {
    event: Arc<Event>,
    codec: Codec,
    frame: Arc<[u8]>,
}

/// Data of a job, until as many clients have got them as the job has ranks. All of these ask for
/// them when they start, usually with the same tag, and those of a large job are long.
struct PackedJobData {
    job: Weak<JobInfo>,
    tag: u32,
    codec: Codec,
    frame: Arc<Vec<u8>>,
    /// Number of clients that have not got them yet.
    left: usize,
}

/// Answer to the members of a group that was formed, until it is another group's turn. All local ones get
/// it at once, and it names all members.
struct PackedGroup {
    result: Weak<GroupResult>,
    command: CommandCode,
    codec: Codec,
    payload: Vec<u8>,
}

/// Message that was packed, alone or for several clients.
pub(crate) enum PackedFrame {
    /// Event.
    Event(Arc<[u8]>),
    /// Data of a job, for several of its procs.
    JobData(Arc<Vec<u8>>),
    /// Bytes for this client alone.
    Own(Vec<u8>),
}

impl Deref for PackedFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            PackedFrame::Event(frame) => frame,
            PackedFrame::JobData(frame) => frame,
            PackedFrame::Own(frame) => frame,
        }
    }
}

impl PackedJobData {
    fn of(tag: u32, job: &Arc<JobInfo>, codec: &Codec) -> Result<PackedJobData, WireError> {
        let reply = Reply::JobData(job.clone());
        let ranks = job
            .entries
            .iter()
            .filter(|entry| matches!(entry, JobEntry::Rank(..)));
        Ok(PackedJobData {
            job: Arc::downgrade(job),
            tag,
            codec: *codec,
            frame: Arc::new(answer(tag, CommandCode::JobData, &reply, codec)?),
            left: ranks.count(),
        })
    }
}

impl Packing {
    /// Packs an event for a client of this codec.
    pub(crate) fn event(&self, event: Arc<Event>, codec: &Codec) -> Result<Arc<[u8]>, WireError> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut last = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(PackedEvent { frame, .. }) = last
            .as_ref()
            .filter(|last| Arc::ptr_eq(&last.event, &event) && last.codec == *codec)
        {
            return Ok(frame.clone());
        }
        let payload = codec.encode_event(&event)?;
        let frame: Arc<[u8]> = Frame {
            pindex: 0,
            tag: Tag::NOTIFY,
            payload,
        }
        .encode()?
        .into();
        *last = Some(PackedEvent {
            event,
            codec: *codec,
            frame: frame.clone(),
        });
        Ok(frame)
    }

    /// Packs a message for a client. Returns none if there is nothing to send: no request of that tag is open,
    /// or the message cannot be packed for this client, which is logged.
    ///
    /// # Errors
    ///
    /// Fails if the client must be disconnected.
    pub(crate) fn message(
        &self,
        outgoing: &Outgoing,
        writer: &ClientWriter,
    ) -> Result<Option<PackedFrame>, ConnectionError> {
        Ok(match outgoing {
            Outgoing::Event(event) => match self.event(event.clone(), &writer.codec) {
                Ok(frame) => Some(PackedFrame::Event(frame)),
                Err(error) => {
                    warn_once!(writer.unfit, %error, "event not packed for client and dropped");
                    None
                }
            },
            Outgoing::Output(printed) => match output(printed, &writer.codec) {
                Ok(frame) => Some(PackedFrame::Own(frame)),
                Err(error) => {
                    warn_once!(writer.unfit, %error, "output not packed for client and dropped");
                    None
                }
            },
            Outgoing::Reply { tag, reply } => self.reply(*tag, reply, writer)?,
            Outgoing::Rest(rest) => Some(PackedFrame::Own(rest.clone())),
            Outgoing::Milestone => None,
        })
    }

    /// Packs the answer to an open request of a client, and closes the request. An answer that
    /// cannot be packed is replaced by a status. Returns `None` if no request of this tag is open.
    fn reply(
        &self,
        tag: u32,
        reply: &Reply,
        writer: &ClientWriter,
    ) -> Result<Option<PackedFrame>, ConnectionError> {
        let Some(command) = writer.open.close(tag) else {
            return Ok(None);
        };
        match self.answer(tag, command, reply, &writer.codec, |_| true) {
            Ok(frame) => Ok(frame),
            // The client would take a status for the job data.
            Err(error) if command == CommandCode::JobData => Err(ConnectionError::JobData(error)),
            // The client's release may lack a type of the answer. Send a status, so that the client
            // does not wait for ever.
            Err(error) => {
                warn_once!(writer.unfit, %error, "answer not packed for client");
                let payload = writer.codec.encode_status(code::PMIX_ERR_PACK_FAILURE)?;
                let frame = Frame {
                    pindex: 0,
                    tag: Tag(tag),
                    payload,
                };
                Ok(Some(PackedFrame::Own(frame.encode()?)))
            }
        }
    }

    /// Packs the answer to a request with this command. Returns `None` if a frame of its length is not wanted.
    pub(crate) fn answer(
        &self,
        tag: u32,
        command: CommandCode,
        reply: &Reply,
        codec: &Codec,
        is_wanted: impl FnOnce(usize) -> bool,
    ) -> Result<Option<PackedFrame>, WireError> {
        let frame = match (command, reply) {
            (CommandCode::JobData, Reply::JobData(job)) => {
                let frame = self.job_data(tag, job, codec, is_wanted)?;
                return Ok(frame.map(PackedFrame::JobData));
            }
            (_, Reply::Group(result)) => self.group(tag, command, result, codec)?,
            _ => answer(tag, command, reply, codec)?,
        };
        Ok(Some(frame)
            .filter(|frame| is_wanted(frame.len()))
            .map(PackedFrame::Own))
    }

    fn group(
        &self,
        tag: u32,
        command: CommandCode,
        result: &Arc<GroupResult>,
        codec: &Codec,
    ) -> Result<Vec<u8>, WireError> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut last = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.take().filter(|last| {
            // Another result is in another place as long as `last` refers to this one.
            Weak::as_ptr(&last.result) == Arc::as_ptr(result)
                && last.command == command
                && last.codec == *codec
        });
        let packed = match known {
            Some(known) => known,
            None => PackedGroup {
                result: Arc::downgrade(result),
                command,
                codec: *codec,
                payload: codec.encode_reply(command, &Reply::Group(result.clone()))?,
            },
        };
        let frame = Frame {
            pindex: 0,
            tag: Tag(tag),
            payload: packed.payload.clone(),
        };
        *last = Some(packed);
        frame.encode()
    }

    fn job_data(
        &self,
        tag: u32,
        job: &Arc<JobInfo>,
        codec: &Codec,
        is_wanted: impl FnOnce(usize) -> bool,
    ) -> Result<Option<Arc<Vec<u8>>>, WireError> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut last = self.job_data.lock().unwrap_or_else(PoisonError::into_inner);
        // Changed job data are in another place: this one stays in use as long as `last` refers
        // to it.
        let known = last.take().filter(|last| {
            Weak::as_ptr(&last.job) == Arc::as_ptr(job) && last.tag == tag && last.codec == *codec
        });
        let packed = match known {
            Some(known) => known,
            None => PackedJobData::of(tag, job, codec)?,
        };
        // A frame that is not wanted now is packed again, for the same client.
        let frame = Some(packed.frame.clone()).filter(|frame| is_wanted(frame.len()));
        let left = packed.left.saturating_sub(usize::from(frame.is_some()));
        *last = Some(PackedJobData { left, ..packed }).filter(|_| left > 0);
        Ok(frame)
    }
}

/// Packs output of a proc for a client of this codec.
pub(crate) fn output(output: &IofOutput, codec: &Codec) -> Result<Vec<u8>, WireError> {
    Frame {
        pindex: 0,
        tag: Tag::IOF,
        payload: codec.encode_output(output)?,
    }
    .encode()
}

/// Packs the answer to a request with this command for a client of this codec.
pub(crate) fn answer(
    tag: u32,
    command: CommandCode,
    reply: &Reply,
    codec: &Codec,
) -> Result<Vec<u8>, WireError> {
    Frame {
        pindex: 0,
        tag: Tag(tag),
        payload: codec.encode_reply(command, reply)?,
    }
    .encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Kval, Nspace, Proc, Rank, Value, key};
    use peal_wire::{BufferType, DecodeLimits, Dialect, Encoding, Release};

    fn job(entries: &[Rank]) -> Arc<JobInfo> {
        let entry = |rank: &Rank| {
            JobEntry::Rank(*rank, vec![Kval::new(key::PMIX_APPNUM, Value::Uint32(0))])
        };
        Arc::new(JobInfo {
            nspace: Nspace::new("job").unwrap(),
            entries: entries.iter().map(entry).collect(),
        })
    }

    fn codec() -> Codec {
        let release: Release = "4.2.2".parse().unwrap();
        Codec {
            dialect: Dialect::new(release.version(), Encoding::V41),
            buffer_type: BufferType::NonDescribed,
            limits: DecodeLimits::default(),
        }
    }

    #[test]
    fn packed_result_of_a_group_serves_its_members_alone() {
        let result = |ranks: std::ops::Range<u32>| {
            let nspace = Nspace::new("job").unwrap();
            let members = ranks.map(|rank| Proc::new(nspace.clone(), Rank(rank)));
            Arc::new(GroupResult {
                status: code::PMIX_SUCCESS,
                members: members.collect(),
                context_id: Some(1),
                jobs: Vec::new(),
                infos: Vec::new(),
            })
        };
        let (packing, codec) = (Packing::default(), codec());
        let other = Codec {
            buffer_type: BufferType::Described,
            ..codec
        };
        let (first, second) = (result(0..3), result(0..4));
        let command = CommandCode::GroupConstruct;
        // Each differs from the one before in one respect.
        for (tag, result, codec) in [
            (100, &first, &codec),
            (101, &first, &codec),
            (101, &second, &codec),
            (101, &second, &other),
        ] {
            let reply = Reply::Group(result.clone());
            assert_eq!(
                packing.group(tag, command, result, codec),
                answer(tag, command, &reply, codec)
            );
        }
        let mut kept = packing.group.lock().unwrap();
        kept.as_mut().unwrap().payload.clear();
        drop(kept);
        let frame = packing.group(101, command, &second, &other).unwrap();
        let reply = Reply::Group(second);
        assert_ne!(frame, answer(101, command, &reply, &other).unwrap());
    }

    #[test]
    fn job_data_are_packed_once_for_all_ranks() {
        let codec = codec();
        let packing = Packing::default();
        let pack = |tag, job: &Arc<JobInfo>| {
            let packed = packing.job_data(tag, job, &codec, |_| true).unwrap();
            packed.unwrap()
        };
        let is_kept = || packing.job_data.lock().unwrap().is_some();

        let mut first = job(&[Rank(0), Rank(1), Rank(2)]);
        let frame = pack(100, &first);
        assert!(Arc::ptr_eq(&frame, &pack(100, &first)) && is_kept());
        let unwanted = packing.job_data(100, &first, &codec, |_| false);
        assert!(unwanted.unwrap().is_none() && is_kept());
        assert!(Arc::ptr_eq(&frame, &pack(100, &first)) && !is_kept());

        // Another tag, another job and changed data are packed again.
        let frame = pack(100, &first);
        assert_ne!(frame, pack(101, &first));
        assert_ne!(pack(101, &first), pack(101, &job(&[Rank(0), Rank(1)])));
        let frame = pack(100, &first);
        Arc::make_mut(&mut first).entries.pop();
        assert_ne!(frame, pack(100, &first));
    }
}
