//! Messages that a server sends without a request: events and forwarded output.
use crate::{WireError, packed::CommandNumber, reader::MessageReader, writer::MessageWriter};
use peal_model::{Bytes, CommandCode, Event, Info, IofChannel, Nspace, Proc, Range, rank};

/// Output of a proc for a peer that pulls it ([`crate::Tag::IOF`]).
#[derive(Clone, PartialEq, Debug)]
pub struct IofOutput {
    /// Proc that wrote the output.
    pub source: Proc,
    /// Channel of the output.
    pub channels: IofChannel,
    /// Local id of the pull; zero for output that a tool gets without one.
    pub local_id: u64,
    /// Infos of the output.
    pub infos: Vec<Info>,
    /// The output; empty at the end of the stream.
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

/// Reads an event. A source without namespace is `None`. A missing range, as in cached events, is
/// [`Range::Undef`].
pub(crate) fn event(r: &mut MessageReader<'_>) -> Result<Event, WireError> {
    let CommandNumber(number) = r.one()?;
    let expected = CommandCode::Notify.number();
    if number != expected {
        return Err(WireError::NotAnEvent { number, expected });
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
        // The message always has a source. An empty namespace stands for none.
        None => w.one(&Proc::new(Nspace::default(), rank::PMIX_RANK_UNDEF))?,
    }
    w.counted(&event.infos)?;
    if event.range == Range::Undef {
        Ok(())
    } else {
        w.one(&event.range)
    }
}
