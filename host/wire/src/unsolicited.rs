//! What a server sends unasked: events and forwarded output.
use crate::{WireError, packed::CommandNumber, reader::MessageReader, writer::MessageWriter};
use peal_model::{Bytes, CommandCode, Event, Info, IofChannel, Nspace, Proc, Range, rank};

/// Output of a proc on its way to one who asked for it ([`crate::Tag::IOF`]).
#[derive(Clone, PartialEq, Debug)]
pub struct IofOutput {
    /// The proc that wrote it.
    pub source: Proc,
    /// Which channel it was written to.
    pub channels: IofChannel,
    /// The local id of the request to pull; zero for what a tool gets by itself.
    pub local_id: u64,
    /// What else is known.
    pub infos: Vec<Info>,
    /// The output; nothing at the end of the stream.
    pub data: Bytes,
}

pub(crate) fn output(r: &mut MessageReader<'_>) -> Result<IofOutput, WireError> {
    let output = IofOutput {
        source: r.one()?,
        channels: r.one()?,
        local_id: r.one()?,
        infos: r.counted()?,
        data: r.one()?,
    };
    r.finish("an output message")?;
    Ok(output)
}

pub(crate) fn put_output(w: &mut MessageWriter<'_>, output: &IofOutput) -> Result<(), WireError> {
    w.one(&output.source)?;
    w.one(&output.channels)?;
    w.one(&output.local_id)?;
    w.counted(&output.infos)?;
    w.one(&output.data)
}

/// An event. A source without namespace is none; a range that is not there, as in events from the cache, is
/// [`Range::Undef`].
pub(crate) fn event(r: &mut MessageReader<'_>) -> Result<Event, WireError> {
    let CommandNumber(number) = r.one()?;
    let wanted = CommandCode::Notify.number();
    if number != wanted {
        return Err(WireError::NotAnEvent { number, wanted });
    }
    let (code, source): (_, Proc) = (r.one()?, r.one()?);
    let infos = r.counted()?;
    let range = r.one_or_end()?.unwrap_or(Range::Undef);
    r.finish("an event")?;
    Ok(Event {
        code,
        source: Some(source).filter(|source| !source.nspace.is_empty()),
        range,
        infos,
    })
}

pub(crate) fn put_event(w: &mut MessageWriter<'_>, event: &Event) -> Result<(), WireError> {
    w.one(&CommandNumber(CommandCode::Notify.number()))?;
    w.one(&event.code)?;
    match &event.source {
        Some(source) => w.one(source)?,
        None => w.one(&Proc::new(Nspace::default(), rank::PMIX_RANK_UNDEF))?,
    }
    w.counted(&event.infos)?;
    if event.range == Range::Undef {
        Ok(())
    } else {
        w.one(&event.range)
    }
}
