//! Data of jobs and ranks that a server sends: packed fields within byte objects.
use crate::{WireError, packed::Packed, reader::MessageReader, value, writer::MessageWriter};
use peal_model::{
    Commit, DataType, JobEntry, JobInfo, Key, Kval, Proc, RankData, SharedData, Value,
    data_type as dt, key, number,
};

/// Type of a buffer, which occurs in fields but not in values.
const BUFFER: DataType = DataType(number::PMIX_BUFFER as u16);

/// Reads a namespace and the data of its job, up to the end.
pub(crate) fn job(r: &mut MessageReader<'_>) -> Result<JobInfo, WireError> {
    Ok(JobInfo {
        nspace: r.one()?,
        entries: r.list_until_end("job data", entry)?,
    })
}

pub(crate) fn put_job(w: &mut MessageWriter<'_>, job: &JobInfo) -> Result<(), WireError> {
    w.one(&job.nspace)?;
    w.count("job data", job.entries.len())?;
    job.entries.iter().try_for_each(|entry| put_entry(w, entry))
}

/// Reads a key-value pair, or the data of one rank, which are wrapped as one.
fn entry(r: &mut MessageReader<'_>) -> Result<JobEntry, WireError> {
    r.header(dt::PMIX_KVAL, 1)?;
    let key = Key::unpack(r)?;
    let data_type = r.type_code()?;
    if key != key::PMIX_PROC_BLOB || data_type != dt::PMIX_BYTE_OBJECT {
        return Ok(JobEntry::Job(Kval {
            key,
            value: value::untyped(r, data_type)?,
        }));
    }
    let bytes = r.byte_object("data of a rank")?;
    r.within("data of a rank", bytes, r.buffer_type(), |r| {
        Ok(JobEntry::Rank(r.one()?, r.until_end()?))
    })
}

fn put_entry(w: &mut MessageWriter<'_>, entry: &JobEntry) -> Result<(), WireError> {
    match entry {
        JobEntry::Job(kval) => w.one(kval),
        JobEntry::Rank(rank, kvals) => {
            let bytes = w.apart(|w| {
                w.one(rank)?;
                w.each(kvals)
            })?;
            w.one(&Kval::new(
                key::PMIX_PROC_BLOB,
                Value::ByteObject(bytes.into()),
            ))
        }
    }
}

/// Reads the job data of several namespaces, each in a byte object, up to the end.
pub(crate) fn jobs(r: &mut MessageReader<'_>) -> Result<Vec<JobInfo>, WireError> {
    r.list_until_end("job data", |r| r.nested("job data", job))
}

pub(crate) fn put_jobs(w: &mut MessageWriter<'_>, jobs: &[JobInfo]) -> Result<(), WireError> {
    jobs.iter()
        .try_for_each(|job| w.nested(|w| put_job(w, job)))
}

/// Reads the data that procs have put, each in a byte object, up to the end.
pub(crate) fn ranks(r: &mut MessageReader<'_>) -> Result<Vec<RankData>, WireError> {
    let rank = |r: &mut MessageReader<'_>| {
        Ok(RankData {
            proc: r.one::<Proc>()?,
            kvals: r.until_end()?,
        })
    };
    r.list_until_end("rank data", |r| r.nested("rank data", rank))
}

pub(crate) fn put_ranks(w: &mut MessageWriter<'_>, ranks: &[SharedData]) -> Result<(), WireError> {
    ranks.iter().try_for_each(|rank| {
        w.nested(|w| {
            w.one(&rank.proc)?;
            w.each(&rank.kvals)
        })
    })
}

/// Reads the values of one scope: a field of the scope and a buffer, which carries its own type.
pub(crate) fn commit(r: &mut MessageReader<'_>) -> Result<Commit, WireError> {
    let scope = r.one()?;
    r.header(BUFFER, 1)?;
    // The fields inside follow the type of the buffer, which may differ from that of the message.
    let buffer_type = r.byte("buffer type")?.try_into()?;
    let bytes = r.byte_object("committed data")?;
    let kvals = r.within(
        "committed data",
        bytes,
        buffer_type,
        MessageReader::until_end,
    )?;
    Ok(Commit { scope, kvals })
}

pub(crate) fn put_commit(w: &mut MessageWriter<'_>, commit: &Commit) -> Result<(), WireError> {
    w.one(&commit.scope)?;
    let bytes = w.apart(|w| w.each(&commit.kvals))?;
    w.header(BUFFER, 1);
    w.byte(w.codec().buffer_type.number());
    w.byte_object(&bytes);
    Ok(())
}
