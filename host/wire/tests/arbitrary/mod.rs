//! Any message that a peer of some release can send.
mod messages;
mod values;

pub use messages::{event, hello, output, reply, request};
pub use values::{value, value_types};

use peal_model::CommandCode;
use peal_wire::{BufferType, Codec, DecodeLimits, Dialect, fuzz::DIALECTS};
use proptest::{prelude::*, sample::select};

/// Any dialect.
pub fn codec() -> impl Strategy<Value = Codec> {
    (
        select(&DIALECTS[..]),
        select(vec![BufferType::NonDescribed, BufferType::Described]),
    )
        .prop_map(|((version, encoding), buffer_type)| Codec {
            dialect: Dialect::new(version, encoding),
            buffer_type,
            limits: DecodeLimits::default(),
        })
}

/// Any command that a dialect has.
pub fn command(dialect: Dialect) -> impl Strategy<Value = CommandCode> {
    select(CommandCode::ALL).prop_filter("too new", move |command| dialect.has_command(*command))
}
