//! Properties that must hold for any bytes in place of a trail: for the fuzz targets and the tests.
use crate::{AuditEntry, Exported, Statement, entry::to_cbor, journal::count_after, readable};
use std::path::Path;

/// Reads bytes as the body of a record, as a journal, as a line of a checkpoint file, and as an
/// exported trail. Whatever is read is written as it is read again.
pub fn readers(data: &[u8]) -> Result<(), String> {
    if let Ok(entry) = AuditEntry::read(data) {
        let body = to_cbor(&entry).map_err(|error| error.to_string())?;
        let again = AuditEntry::read(&body).map_err(|error| error.to_string())?;
        let second = to_cbor(&again).map_err(|error| error.to_string())?;
        // Not the entries: a number that is none differs from itself.
        if body != second {
            return Err(format!("{entry:?} is read as {again:?}"));
        }
    }
    // Bytes that are no body are refused.
    drop(readable(data));
    let most = data.len() as u64;
    let records = count_after(data, 0);
    if records > most {
        return Err(format!("{records} records in {most} bytes"));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(statement) = text.parse::<Statement>()
        && statement.to_string().parse() != Ok(statement.clone())
    {
        return Err(format!("{statement} is not read again"));
    }
    drop(Exported::read(data, Path::new("export")));
    Ok(())
}
