//! Export of a trail as lines of JSON.
use crate::{
    AuditError, ExportError, TrailSource,
    exported::{ExportLine, Record},
    source::call_of,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, Filter, SealKind, TrailRow};
use std::{collections::BTreeSet, io::Write, path::PathBuf};

/// Writes the records that match `filter`, the blobs they refer to, and the seals. Returns the
/// number of records.
pub fn export(
    source: &TrailSource,
    filter: &Filter,
    out: &mut impl Write,
) -> Result<u64, AuditError> {
    // The writer has no path that an error could name.
    let path = PathBuf::from("the output");
    let io = |source| ExportError::Io {
        path: path.clone(),
        source,
    };
    let mut line = |line: &ExportLine| -> Result<(), AuditError> {
        serde_json::to_writer(&mut *out, line).map_err(|error| io(error.into()))?;
        out.write_all(b"\n").map_err(io)?;
        Ok(())
    };
    let mut count = 0;
    let mut known = BTreeSet::new();
    source.each::<AuditError>(filter, |row| {
        count += 1;
        let mut wanted = Vec::new();
        // Only calls refer to blobs: to the facts of the module, and by these to its component.
        if let Some(call) = call_of(&row)? {
            wanted.push(call.facts);
            wanted.extend(source.facts(&call)?.map(|facts| facts.digest));
        }
        // A blob is written once, before the first record that refers to it.
        for digest in wanted {
            if known.insert(digest)
                && let Some(bytes) = source.blob(&digest)?
            {
                line(&ExportLine::Blob {
                    digest,
                    bytes: STANDARD.encode(bytes),
                })?;
            }
        }
        let TrailRow {
            seq,
            at,
            kind,
            module,
            job,
            uid,
            outcome,
            body,
            hash,
        } = row;
        let body = STANDARD.encode(body);
        let hash = Digest(hash);
        line(&ExportLine::Record(Record {
            seq,
            at,
            kind,
            module,
            job,
            uid,
            outcome,
            body,
            hash,
        }))
    })?;
    // Seals are about the trail as a whole, so the filter does not apply to them.
    let seals = [SealKind::Anchor, SealKind::Head].map(|kind| source.seal(kind));
    for seal in seals {
        seal?.map_or(Ok(()), |seal| line(&ExportLine::Seal(seal.to_string())))?;
    }
    source
        .checkpoints()?
        .iter()
        .try_for_each(|seal| line(&ExportLine::Seal(seal.to_string())))?;
    for DroppedRows {
        last,
        body,
        signature,
    } in source.dropped()?
    {
        line(&ExportLine::Dropped {
            last,
            body: STANDARD.encode(body),
            signature: STANDARD.encode(signature),
        })?;
    }
    Ok(count)
}
