//! The memory of a request that is held for a decision: once for the policies' copy, once for the
//! request itself.
use peal_model::{PolicyRequest, TargetProc};

/// Returns the memory of a whole request, in bytes.
pub(super) fn bytes_of(request: &PolicyRequest) -> usize {
    let targets = request
        .targets
        .len()
        .saturating_mul(2 * size_of::<TargetProc>());
    request.subject.bytes().saturating_add(targets)
}
