//! Data that the servers of several nodes exchange through the host environment, which does not look
//! at them.
//!
//! A host environment returns the data of several servers one behind the other, so each server writes
//! a frame with its length.
use peal_core::{
    group::{NodeContribution, NodeFailure, NodeParticipant},
    server::{Completeness, FenceContribution, PutSnapshot},
};
use peal_model::{Bytes, Info, Infos, Proc, RankData, Status, Value, code, key};
use peal_stub::{CodecError, FrameLimit, MessageDecoder};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version of the form. Servers of other versions are refused.
const VERSION: u16 = 2;

/// Data of one server, with the version of their form.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeData<T> {
    version: u16,
    data: T,
}

/// Contribution of one server to a fence, or the values of one proc.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeValues {
    attendance: Attendance,
    values: Vec<RankData>,
}

/// Attendance of the procs of a server at a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Attendance {
    Full,
    Partial,
}

impl<T> NodeData<T> {
    fn of(data: T) -> NodeData<T> {
        let version = VERSION;
        NodeData { version, data }
    }
}

impl NodeData<NodeValues> {
    /// Creates the contribution of this server to a collective.
    pub(crate) fn of_fence(contribution: FenceContribution) -> NodeData<NodeValues> {
        // The host environment carries one collective after the other, so their order is known.
        let own = contribution.data.into_iter().map(|data| data.values);
        NodeData::of(NodeValues {
            attendance: match contribution.attendance {
                Completeness::Full => Attendance::Full,
                Completeness::Partial => Attendance::Partial,
            },
            values: own.collect(),
        })
    }

    /// Creates the values of one proc.
    pub(crate) fn of_proc(values: RankData) -> NodeData<NodeValues> {
        NodeData::of(NodeValues {
            attendance: Attendance::Full,
            values: vec![values],
        })
    }
}

/// Participant in an operation on a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct ParticipantData {
    proc: Proc,
    infos: Vec<Info>,
    values: Option<RankData>,
}

/// Contribution of one server to an operation on a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct GroupData {
    participants: Vec<ParticipantData>,
    failure: Option<FailureData>,
}

/// Reason for which an operation has failed on a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct FailureData {
    status: Status,
    reason: String,
}

/// Encodes the contribution of this server to an operation on a group.
pub(crate) fn encode_group(own: NodeContribution) -> Result<Bytes, Status> {
    let participants = own.participants.into_iter().map(|own| ParticipantData {
        proc: own.proc,
        infos: own.infos,
        values: own.data,
    });
    let failure = own
        .failure
        .map(|NodeFailure { status, reason }| FailureData { status, reason });
    encode(&NodeData::of(GroupData {
        participants: participants.collect(),
        failure,
    }))
}

/// Decodes the contributions of all servers from the infos of a host environment. One that exchanges
/// no data has none.
pub(crate) fn decode_groups(infos: &[Info]) -> Result<NodeContribution, Status> {
    let mut all = NodeContribution::default();
    let Some(Value::ByteObject(bytes)) = infos.value_of(key::PMIX_GROUP_ENDPT_DATA) else {
        return Ok(all);
    };
    for GroupData {
        participants,
        failure,
    } in decode_all(bytes)?
    {
        let participants = participants.into_iter().map(|found| NodeParticipant {
            proc: found.proc,
            infos: found.infos,
            data: found.values,
        });
        all.participants.extend(participants);
        let failure = failure.map(|FailureData { status, reason }| NodeFailure { status, reason });
        all.failure = all.failure.or(failure);
    }
    Ok(all)
}

/// Encodes the data of this server.
pub(crate) fn encode(data: &NodeData<impl Serialize>) -> Result<Bytes, Status> {
    let frame = peal_stub::encode(data, FrameLimit::default());
    frame.map(Bytes::from).map_err(|error| {
        tracing::warn!(%error, "data for other nodes not encoded");
        code::PMIX_ERR_OUT_OF_RESOURCE
    })
}

/// Decodes the data of all servers.
pub(crate) fn decode_contributions(bytes: &Bytes) -> Result<FenceContribution, Status> {
    let mut all = FenceContribution {
        data: Vec::new(),
        attendance: Completeness::Full,
    };
    for data in decode_all::<NodeValues>(bytes)? {
        all.data
            .extend(data.values.into_iter().map(PutSnapshot::from));
        if data.attendance == Attendance::Partial {
            all.attendance = Completeness::Partial;
        }
    }
    Ok(all)
}

fn decode_all<T: DeserializeOwned>(bytes: &Bytes) -> Result<Vec<T>, Status> {
    let bytes = bytes.as_slice();
    let refused = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, bytes = bytes.len(), "data of other nodes not understood");
        code::PMIX_ERR_UNPACK_FAILURE
    };
    let mut all = Vec::new();
    let mut decoder = MessageDecoder::new(FrameLimit::default());
    decoder.push(bytes);
    loop {
        let next: Result<Option<NodeData<T>>, CodecError> = decoder.next_message();
        match next {
            Err(error) => return Err(refused(&error)),
            Ok(None) if decoder.pending() > 0 => return Err(refused(&"the data end too early")),
            Ok(None) => return Ok(all),
            Ok(Some(data)) if data.version != VERSION => {
                let error = format!(
                    "version {} of the form, this server has {VERSION}",
                    data.version
                );
                return Err(refused(&error));
            }
            Ok(Some(data)) => all.push(data.data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{KeyName, Kval, Nspace, Proc, Rank, Value};

    fn contribution(rank: u32, attendance: Completeness) -> FenceContribution {
        FenceContribution {
            data: vec![PutSnapshot::from(RankData {
                proc: Proc::new(Nspace::new("job").unwrap(), Rank(rank)),
                kvals: vec![Kval::new(KeyName("test.a"), Value::Uint32(rank))],
            })],
            attendance,
        }
    }

    #[test]
    fn contributions_of_several_servers_are_read_together() {
        let parts = [Completeness::Full, Completeness::Partial];
        let mut bytes = Vec::new();
        for (rank, attendance) in (0..).zip(parts) {
            let data = NodeData::of_fence(contribution(rank, attendance));
            bytes.extend_from_slice(encode(&data).unwrap().as_slice());
        }
        let all = decode_contributions(&bytes.into()).unwrap();
        assert_eq!(all.attendance, Completeness::Partial);
        let both = [0, 1].map(|rank| contribution(rank, Completeness::Full).data.remove(0));
        assert_eq!(all.data, both);
    }

    #[test]
    fn participants_of_several_servers_are_read_together() {
        let participant = |rank: u32| NodeParticipant {
            proc: Proc::new(Nspace::new("job").unwrap(), Rank(rank)),
            infos: vec![Info::new(KeyName("test.a"), Value::Uint32(rank))],
            data: None,
        };
        let failure = NodeFailure {
            status: code::PMIX_GROUP_CONSTRUCT_ABORT,
            reason: "a participant has ended".to_owned(),
        };
        let bytes = [None, Some(failure.clone())].map(|failure| {
            let participants = vec![participant(u32::from(failure.is_some()))];
            let own = NodeContribution {
                participants,
                failure,
            };
            encode_group(own).unwrap()
        });
        let bytes = Bytes::from(bytes.map(|bytes| bytes.as_slice().to_vec()).concat());
        let infos = [Info::new(
            key::PMIX_GROUP_ENDPT_DATA,
            Value::ByteObject(bytes),
        )];
        let all = decode_groups(&infos).unwrap();
        assert_eq!(all.participants, [0, 1].map(participant));
        assert_eq!(all.failure, Some(failure));
        assert_eq!(decode_groups(&[]), Ok(NodeContribution::default()));
    }

    #[test]
    fn cut_or_foreign_data_are_refused() {
        let bytes = encode(&NodeData::of_fence(contribution(0, Completeness::Full))).unwrap();
        let bytes = bytes.as_slice();
        let cut = Bytes::from(&bytes[..bytes.len() - 1]);
        assert_eq!(
            decode_contributions(&cut),
            Err(code::PMIX_ERR_UNPACK_FAILURE)
        );
        let other = NodeData {
            version: VERSION + 1,
            ..NodeData::of_fence(contribution(0, Completeness::Full))
        };
        let refused = decode_contributions(&encode(&other).unwrap());
        assert_eq!(refused, Err(code::PMIX_ERR_UNPACK_FAILURE));
    }
}
