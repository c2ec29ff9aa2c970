//! Bounds on what one call may pass: a wrong count or a cycle ends in a status, not in a crash.
use super::ConvertError;
use peal_model::Nspace;
use peal_wire::DecodeLimits;

/// Counters of one call, against the limits of messages ([`DecodeLimits`]): what is larger could
/// not be sent. Also the namespace that its procs share.
#[derive(Debug, Default)]
pub struct ReadBounds {
    limits: DecodeLimits,
    depth: usize,
    elements: usize,
    bytes: usize,
    /// The latest namespace of a proc.
    pub(super) last_nspace: Nspace,
}

fn check(what: &'static str, found: usize, limit: usize) -> Result<(), ConvertError> {
    if found > limit {
        Err(ConvertError::TooLarge { what, found, limit })
    } else {
        Ok(())
    }
}

impl ReadBounds {
    /// Enters one more level of nested values. After an error the counters are of no more use.
    pub(crate) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut ReadBounds) -> Result<T, ConvertError>,
    ) -> Result<T, ConvertError> {
        self.depth += 1;
        check("depth of nested values", self.depth, self.limits.max_depth)?;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Counts the elements of an array or list. The limit holds for all lists of the call together.
    pub(crate) fn count(&mut self, elements: usize) -> Result<(), ConvertError> {
        self.elements = self.elements.saturating_add(elements);
        check("number of elements", self.elements, self.limits.max_count)
    }

    /// Counts the bytes of a string or byte object.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), ConvertError> {
        self.bytes = self.bytes.saturating_add(bytes);
        check("number of bytes", self.bytes, self.limits.max_message)
    }

    /// Returns the longest string, in bytes with its NUL.
    pub(crate) fn max_string(&self) -> usize {
        self.limits.max_string
    }
}
