//! Capability `random`: where random numbers come from.
use crate::bindings::peal::pmix::random;
use crate::host::Host;
use crate::meter::Stop;
use crate::services::Answer;
use peal_model::{Status, code};
use rustix::rand::{GetRandomFlags, getrandom};

/// The most bytes at once.
const MAX_BYTES: u32 = 65_536;

/// A source of random numbers. Called on a guest thread.
pub trait Random: Send + Sync {
    /// Fills this, or says with which status it could not.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Status>;
}

/// The system's.
struct System;

impl Random for System {
    fn fill(&self, mut bytes: &mut [u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            match getrandom(&mut *bytes, GetRandomFlags::empty()) {
                Ok(len) => bytes = bytes.get_mut(len..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(code::PMIX_ERR_NOT_AVAILABLE),
            }
        }
        Ok(())
    }
}

impl Host {
    /// Random bytes from where this module has them from.
    pub(crate) fn draw(&self, bytes: &mut [u8]) -> Result<(), Status> {
        self.services.random.as_deref().unwrap_or(&System).fill(bytes)
    }
}

impl random::Host for Host {
    fn bytes(&mut self, len: u32) -> Answer<Vec<u8>> {
        self.host_call(|host| {
            let mut bytes = match usize::try_from(len) {
                Ok(size) if len <= MAX_BYTES => vec![0; size],
                _ => return Ok(Err(code::PMIX_ERR_BAD_PARAM.0)),
            };
            Ok(host.draw(&mut bytes).map(|()| bytes).map_err(|status| status.0))
        })
    }

    fn number(&mut self) -> wasmtime::Result<u64> {
        self.host_call(|host| {
            let mut bytes = [0; 8];
            host.draw(&mut bytes).map_err(|_| Stop::NoRandom)?;
            Ok(u64::from_le_bytes(bytes))
        })
    }
}
