//! Observer of processes, which finds the process that holds a socket. It is this process, or a
//! helper process where confinement prevents this one from reading the files of others.
use super::process::{self, ObservedProcess};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Time limit of a query to the helper process, which may look through all processes.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Upper bound of the length of a message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 256;

/// Set of processes in which the holder of a socket is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum SearchStart {
    /// A process and its descendants.
    Below(u32),
    /// All processes of a user; the first started of those found.
    Of(u32),
    /// All processes of a user, the latest started first. It is faster, but may find another holder
    /// than `Of`.
    Latest(u32),
    /// One process.
    In(u32),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SocketQuery {
    search: SearchStart,
    inode: u64,
}

impl SocketQuery {
    /// Returns the holder of the socket.
    fn answer(self) -> Option<ObservedProcess> {
        let SocketQuery { search, inode } = self;
        match search {
            SearchStart::Below(root) => {
                process::holder_below(root, inode).and_then(ObservedProcess::of)
            }
            SearchStart::Of(uid) => process::holders(uid, inode).into_iter().next(),
            SearchStart::Latest(uid) => process::latest_holder(uid, inode),
            SearchStart::In(pid) => process::holds(pid, inode)
                .then(|| ObservedProcess::of(pid))
                .flatten(),
        }
    }
}

/// Observer of processes.
#[derive(Debug, Default)]
pub struct ProcessObserver(ObserverMode);

#[derive(Debug, Default)]
enum ObserverMode {
    /// This process.
    #[default]
    Here,
    /// The helper process at the other end of the connection; none after an error.
    Beside(Mutex<Option<BufReader<UnixStream>>>),
}

impl ProcessObserver {
    /// Returns an observer that queries the process that runs [`observe`] at the other end.
    pub fn beside(stream: UnixStream) -> io::Result<ProcessObserver> {
        stream.set_read_timeout(Some(QUERY_TIMEOUT))?;
        stream.set_write_timeout(Some(QUERY_TIMEOUT))?;
        Ok(ProcessObserver(ObserverMode::Beside(Mutex::new(Some(
            BufReader::new(stream),
        )))))
    }

    /// Returns the process that holds a socket; none if it is not found or its files may not be
    /// read.
    pub(super) fn holder(&self, search: SearchStart, inode: u64) -> Option<ObservedProcess> {
        let request = SocketQuery { search, inode };
        let ObserverMode::Beside(stream) = &self.0 else {
            return request.answer();
        };
        // The lock is held until the answer is read, because answers carry no number of their
        // query.
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        match query(stream.as_mut()?, request) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "process observer exited; refusing tools and clones of procs");
                // After an error, requests and answers may no longer match, so the connection is
                // not used again.
                *stream = None;
                None
            }
        }
    }
}

fn query(
    stream: &mut BufReader<UnixStream>,
    request: SocketQuery,
) -> io::Result<Option<ObservedProcess>> {
    write_message(stream.get_mut(), &request)?;
    read_message(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Answers queries about processes until the connection is closed.
pub fn observe(stream: UnixStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_message::<SocketQuery>(&mut stream)? {
        write_message(stream.get_mut(), &request.answer())?;
    }
    Ok(())
}

fn write_message(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn read_message<T: for<'t> Deserialize<'t>>(
    stream: &mut BufReader<UnixStream>,
) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    if stream
        .take(MAX_MESSAGE_BYTES)
        .read_until(b'\n', &mut text)?
        == 0
    {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::fd::OwnedFd, os::unix::fs::MetadataExt, thread};

    #[test]
    fn observer_sees_same_as_server_and_its_exit_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let held = File::from(OwnedFd::from(ours.try_clone().unwrap()));
        let me = std::process::id();
        let inode = held.metadata().unwrap().ino();
        let uid = held.metadata().unwrap().uid();
        let observer = thread::spawn(move || observe(theirs).unwrap());
        let here = ProcessObserver::default();
        let beside = ProcessObserver::beside(ours).unwrap();
        for search in [
            SearchStart::In(me),
            SearchStart::Below(me),
            SearchStart::Of(uid),
            SearchStart::Latest(uid),
        ] {
            let found = beside.holder(search, inode);
            assert_eq!(found.map(|process| process.pid), Some(me), "{search:?}");
            assert_eq!(found, here.holder(search, inode));
        }
        for search in [
            SearchStart::In(0),
            SearchStart::Below(0),
            SearchStart::Of(uid + 1),
            SearchStart::Latest(uid + 1),
        ] {
            assert_eq!(beside.holder(search, inode), None, "{search:?}");
        }
        drop((beside, held));
        observer.join().unwrap();

        let (ours, theirs) = UnixStream::pair().unwrap();
        let lonely = ProcessObserver::beside(ours).unwrap();
        drop(theirs);
        assert_eq!(lonely.holder(SearchStart::In(me), inode), None);
        assert_eq!(lonely.holder(SearchStart::In(me), inode), None, "and still");
    }

    #[test]
    fn invalid_request_ends_observer() {
        for nonsense in ["\n", "{}\n", &"x".repeat(1000)] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(nonsense.as_bytes()).unwrap();
            assert!(observe(theirs).is_err(), "{nonsense:?}");
        }
    }
}
