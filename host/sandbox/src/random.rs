//! Capability `random`: sources of random numbers.
use crate::bindings::peal::pmix::random;
use crate::host_calls::HostCallRequest;
use crate::instance_state::InstanceState;
use crate::meter::CallAbort;
use crate::services::CapabilityResult;
use peal_model::{Status, code};
use rustix::rand::{GetRandomFlags, getrandom};

/// Bound on the random bytes of one host call.
const MAX_BYTES: u32 = 65_536;

/// A source of random numbers, called on a guest thread.
pub trait Random: Send + Sync {
    /// Fills a buffer, or returns the status of the failure.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Status>;
}

/// Random numbers of the system.
struct System;

impl Random for System {
    fn fill(&self, mut bytes: &mut [u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            // Beyond 256 bytes a signal can interrupt the call or cut its result short.
            match getrandom(&mut *bytes, GetRandomFlags::empty()) {
                Ok(len) => bytes = bytes.get_mut(len..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(code::PMIX_ERR_NOT_AVAILABLE),
            }
        }
        Ok(())
    }
}

impl InstanceState {
    /// Returns random bytes from the module's source.
    pub(crate) fn draw(&mut self, len: usize) -> Result<Result<Vec<u8>, Status>, CallAbort> {
        // Recorded, since a replay must return the same bytes.
        self.recorded_answer(
            || HostCallRequest::Random { len: len as u64 },
            |host| {
                let mut bytes = vec![0; len];
                let filled = host
                    .services
                    .random
                    .as_deref()
                    .unwrap_or(&System)
                    .fill(&mut bytes);
                Ok(filled.map(|()| bytes))
            },
        )
    }

    /// Returns a random number from the module's source.
    pub(crate) fn draw_number(&mut self) -> Result<u64, CallAbort> {
        let bytes = self.draw(8)?.map_err(|_| CallAbort::NoRandom)?;
        Ok(bytes.try_into().map(u64::from_le_bytes).unwrap_or_default())
    }
}

impl random::Host for InstanceState {
    fn get_random_bytes(&mut self, len: u32) -> CapabilityResult<Vec<u8>> {
        self.meter.count()?;
        match usize::try_from(len) {
            Ok(size) if len <= MAX_BYTES => Ok(self.draw(size)?.map_err(|status| status.0)),
            _ => Ok(Err(code::PMIX_ERR_BAD_PARAM.0)),
        }
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.meter.count()?;
        Ok(self.draw_number()?)
    }
}
