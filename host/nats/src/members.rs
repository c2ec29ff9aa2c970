//! The servers of a cluster, as the stream of members has them.
use crate::{
    link::NatsLink,
    records::{RecordReadError, RecordReader},
    subjects::ClusterSubject,
};
use peal_cluster::{Membership, decode_record};

/// Reads the servers of a cluster from the stream of members.
///
/// # Errors
///
/// Fails if the stream cannot be read.
pub async fn read_members(link: &NatsLink) -> Result<Membership, RecordReadError> {
    let mut reader = RecordReader::new(&link.client, &link.subjects);
    reader.look().await?;
    let mut membership = Membership::new();
    while let Some(record) = reader.next_after(membership.last()).await? {
        let at = record.at;
        let writer = match link.subjects.parse(&record.subject) {
            Ok(ClusterSubject::Member { node } | ClusterSubject::Verdict { by: node }) => node,
            Ok(_) | Err(_) => {
                membership.skip(at);
                continue;
            }
        };
        let applied = decode_record(&record.bytes)
            .ok()
            .map(|record| membership.apply(at, writer, record));
        if !matches!(applied, Some(Ok(_))) {
            // The servers leave out what they cannot apply, too.
            membership.skip(at);
        }
    }
    Ok(membership)
}
