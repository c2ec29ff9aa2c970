//! The servers of a cluster, as the stream of members has them.
use crate::{
    link::NatsLink,
    records::{ReadStep, RecordReadError, RecordReader, StoredRecord},
    streams::ClusterStream,
    subjects::ClusterSubject,
};
use peal_cluster::{Membership, RecordPosition, decode_record};

/// Reads the servers of a cluster from the stream of members.
///
/// # Errors
///
/// Fails if the stream cannot be read.
pub async fn read_members(link: &NatsLink) -> Result<Membership, RecordReadError> {
    let mut reader = RecordReader::new(&link.client, &link.subjects, ClusterStream::Members);
    let mut membership = Membership::new();
    reader.begin(RecordPosition::default());
    loop {
        match reader.next().await {
            ReadStep::Record(record) => apply(&mut membership, link, &record),
            ReadStep::End(_) => return Ok(membership),
            ReadStep::Failed(error) => return Err(error),
            ReadStep::Restarted => {
                membership = Membership::new();
                reader.begin(RecordPosition::default());
            }
        }
    }
}

/// Applies a record. Servers leave out what cannot be applied, too.
fn apply(membership: &mut Membership, link: &NatsLink, record: &StoredRecord) {
    let writer = match link.subjects.parse(&record.subject) {
        Ok(ClusterSubject::Member { node } | ClusterSubject::Verdict { by: node }) => Some(node),
        Ok(_) | Err(_) => None,
    };
    let applied = writer
        .zip(decode_record(&record.bytes).ok())
        .is_some_and(|(writer, change)| membership.apply(record.at, writer, change).is_ok());
    if !applied {
        membership.skip(record.at);
    }
}
