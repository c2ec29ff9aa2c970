//! Property that must hold for any values that a guest pushes: for the fuzz target and the tests.
use crate::{
    ModuleLimits,
    bindings::peal::pmix::types as wit,
    call_data::{CallSubject, OpaqueTable},
    lift::Lifter,
    meter::{CallClock, CallMeter},
};
use peal_model::{Size, Value};
use std::time::Instant;

/// Bytes that a call may push.
const OUTPUT_BYTES: usize = 1 << 16;
/// Deepest nesting of a lifted value: that of arrays, of the infos in them, and of the value itself.
const MAX_DEPTH: usize = 3 * 17;

/// Lifts infos and arrays that the bytes choose. What is lifted was charged to the call, and nests no
/// deeper than a value may.
pub fn lift(data: &[u8]) -> Result<(), String> {
    let mut bytes = Choices(data);
    let arrays = bytes.list(Choices::array);
    let infos = bytes.list(Choices::info);
    let limits = ModuleLimits {
        output_bytes: OUTPUT_BYTES,
        ..ModuleLimits::default()
    };
    let mut meter = CallMeter::new(limits, CallClock::Wall(Instant::now()));
    meter.begin();
    let (subject, opaques) = (CallSubject::default(), OpaqueTable::default());
    let lifter = Lifter::new(&subject, &opaques, &mut meter);
    // A refusal is what most bytes deserve.
    let Ok(infos) = lifter.content(wit::FlatInfos { infos, arrays }) else {
        return Ok(());
    };
    let size = Size::of(&Value::DataArray(
        peal_model::DataArray::new(
            peal_model::data_type::PMIX_INFO,
            infos
                .into_iter()
                .map(|info| Value::Info(Box::new(info)))
                .collect(),
        )
        .map_err(|error| error.to_string())?,
    ));
    let charged = meter.usage().output;
    if size.depth > MAX_DEPTH {
        return Err(format!("a value nests {} deep", size.depth));
    }
    if charged > OUTPUT_BYTES {
        return Err(format!("{charged} bytes were charged, of {OUTPUT_BYTES}"));
    }
    // What is counted differs in small things, such as the array around the infos.
    if size.bytes > 2 * charged + 1024 {
        return Err(format!(
            "{} bytes were lifted, and {charged} charged",
            size.bytes
        ));
    }
    Ok(())
}

/// Reader of choices. At the end every choice is the first one.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn small(&mut self) -> u32 {
        u32::from(self.byte())
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.byte() % 8;
        (0..count).map(|_| item(self)).collect()
    }

    fn text(&mut self) -> String {
        let count = usize::from(self.byte());
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(taken).into_owned()
    }

    fn proc(&mut self) -> wit::Proc {
        wit::Proc {
            nspace: self.text(),
            rank: self.small(),
        }
    }

    fn info(&mut self) -> wit::Info {
        wit::Info {
            key: self.text(),
            flags: wit::InfoFlags::empty(),
            value: self.value(),
        }
    }

    fn array(&mut self) -> wit::Array {
        wit::Array {
            element: u16::from(self.byte()),
            items: match self.byte() % 3 {
                0 => wit::ArrayItems::Values(self.list(Choices::value)),
                1 => wit::ArrayItems::Infos(self.list(Choices::info)),
                _ => wit::ArrayItems::Procs(self.list(Choices::proc)),
            },
        }
    }

    fn value(&mut self) -> wit::Value {
        let number = |bytes: &mut Self| bytes.number();
        match self.byte() % 14 {
            0 => wit::Value::Undef,
            1 => wit::Value::Text(self.text()),
            2 => wit::Value::Array(self.small() % 8),
            3 => wit::Value::Bytes(self.text().into_bytes()),
            4 => wit::Value::Proc(self.proc()),
            5 => wit::Value::Nspace(self.text()),
            6 => wit::Value::Other(wit::Opaque {
                data_type: u16::from(self.byte()),
                handle: self.small(),
            }),
            7 => wit::Value::Uint64(number(self)),
            8 => wit::Value::Float64(f64::from_bits(number(self))),
            9 => wit::Value::Status(self.byte().cast_signed().into()),
            10 => wit::Value::Rank(self.small()),
            11 => wit::Value::Boolean(self.byte() > 127),
            12 => wit::Value::Range(wit::Range::Custom),
            _ => wit::Value::Timeval((number(self).cast_signed(), number(self).cast_signed())),
        }
    }
}
