//! Capabilities that a process drops.
use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};

/// Drops all capabilities of the calling thread but those of `kept` that it has, from all its sets.
/// No program that it starts later has others.
pub(crate) fn keep(kept: CapabilitySet) -> rustix::io::Result<()> {
    // Without this, a set-user-ID program would get the capabilities of its owner.
    set_no_new_privs(true)?;
    let held = capabilities(None)?;
    // A process without this capability has no use of the bounding set: it limits what a program
    // gains, and no program gains anything.
    if held.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set(kept)?;
    }
    match clear_ambient_capability_set() {
        // Kernels before 4.3 have no ambient set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    let remaining = held.permitted & kept;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & kept,
            permitted: remaining,
            inheritable: CapabilitySet::empty(),
        },
    )
}

fn shrink_bounding_set(kept: CapabilitySet) -> rustix::io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => {
                remove_capability_from_bounding_set(capability)?;
            }
            Ok(_) => {}
            // The kernel knows no capability with this number, nor with a higher one.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
