//! Datagram of a forked child that becomes a proc. It comes with the credentials of the kernel
//! (`SCM_CREDENTIALS`), so that the server knows which process the proc is.
//!
//! A forked child may use no allocator and no lock. The datagram is therefore bytes in fixed places:
//! the rank in four bytes, little-endian, then the namespace.
use peal_model::{IdentError, Nspace, Proc, Rank};
use thiserror::Error;

/// Length of the longest datagram: a rank and a namespace.
pub const MAX_LENGTH: usize = 4 + 255;

/// Reason why a datagram names no proc.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForkMessageError {
    /// The datagram has no rank.
    #[error("message of a forked child has {0} bytes, a rank has 4")]
    Short(usize),
    /// The namespace is not UTF-8.
    #[error("namespace in the message of a forked child is not UTF-8")]
    Text,
    /// The text is no namespace.
    #[error("message of a forked child: {0}")]
    Nspace(#[from] IdentError),
}

/// Writes the datagram for a proc into `place`. Returns its length, or `None` if the namespace has no
/// room. Uses no allocator.
pub fn write(nspace: &[u8], rank: Rank, place: &mut [u8; MAX_LENGTH]) -> Option<usize> {
    let (number, name) = place.split_at_mut(4);
    number.copy_from_slice(&rank.0.to_le_bytes());
    // The rank may be written already: without a length the caller sends nothing.
    name.get_mut(..nspace.len())?.copy_from_slice(nspace);
    Some(4 + nspace.len())
}

/// Reads a datagram.
///
/// # Errors
///
/// Fails if the datagram is too short or has no valid namespace.
pub fn read(datagram: &[u8]) -> Result<Proc, ForkMessageError> {
    let short = || ForkMessageError::Short(datagram.len());
    let (rank, name) = datagram.split_first_chunk::<4>().ok_or_else(short)?;
    let name = str::from_utf8(name).map_err(|_| ForkMessageError::Text)?;
    let nspace = Nspace::new(name)?;
    Ok(Proc::new(nspace, Rank(u32::from_le_bytes(*rank))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_datagram_is_read_as_the_same_proc() {
        let mut place = [0; MAX_LENGTH];
        let len = write(b"slurm.pmix.1.0", Rank(7), &mut place).unwrap();
        let proc = read(&place[..len]).unwrap();
        assert_eq!(
            proc,
            Proc::new(Nspace::new("slurm.pmix.1.0").unwrap(), Rank(7))
        );
        let longest = [b'n'; 255];
        assert_eq!(write(&longest, Rank(0), &mut place), Some(MAX_LENGTH));
        assert_eq!(write(&[b'n'; 256], Rank(0), &mut place), None);
    }

    #[test]
    fn invalid_datagrams_are_refused_with_the_reason() {
        assert_eq!(read(&[1, 2]), Err(ForkMessageError::Short(2)));
        assert_eq!(read(&[0, 0, 0, 0, 0xff]), Err(ForkMessageError::Text));
        assert!(matches!(
            read(b"\0\0\0\0a\nb"),
            Err(ForkMessageError::Nspace(_))
        ));
    }
}
