//! Who looks which process holds a socket: this process, or one beside it where the kernel lets this one look into no other.
use super::process::{self, ObservedProcess};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long a process beside us may take to look through all others.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest question or answer, in bytes.
const LONGEST: u64 = 256;

/// Where the holder of a socket is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum SearchStart {
    /// In a process and its descendants.
    Below(u32),
    /// In the processes of a user; the first that was started of those that are found.
    Of(u32),
    /// The same, where one that was started of late will do: quicker.
    Latest(u32),
    /// In one process.
    In(u32),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SocketQuery {
    search: SearchStart,
    inode: u64,
}

impl SocketQuery {
    /// The holder that was started first, of those that are found.
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

/// Whoever looks into processes.
#[derive(Debug, Default)]
pub struct ProcessObserver(ObserverMode);

#[derive(Debug, Default)]
enum ObserverMode {
    /// We do.
    #[default]
    Here,
    /// A process at the other end; none where there is no understanding with it any more.
    Beside(Mutex<Option<BufReader<UnixStream>>>),
}

impl ProcessObserver {
    /// Has a process look that runs [`observe`] at the other end.
    pub fn beside(stream: UnixStream) -> io::Result<ProcessObserver> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(ProcessObserver(ObserverMode::Beside(Mutex::new(Some(
            BufReader::new(stream),
        )))))
    }

    /// The process that holds a socket; none if there is none, or it may not be looked at.
    pub(super) fn holder(&self, search: SearchStart, inode: u64) -> Option<ObservedProcess> {
        let question = SocketQuery { search, inode };
        let ObserverMode::Beside(line) = &self.0 else {
            return question.answer();
        };
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        match ask(line.as_mut()?, question) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "whoever looks into processes for us is gone: tools, and clones of procs, are refused from now on");
                *line = None;
                None
            }
        }
    }
}

fn ask(
    line: &mut BufReader<UnixStream>,
    question: SocketQuery,
) -> io::Result<Option<ObservedProcess>> {
    write_message(line.get_mut(), &question)?;
    read_message(line)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Looks into processes for whoever is at the other end, until that is closed.
pub fn observe(stream: UnixStream) -> io::Result<()> {
    let mut line = BufReader::new(stream);
    while let Some(question) = read_message::<SocketQuery>(&mut line)? {
        write_message(line.get_mut(), &question.answer())?;
    }
    Ok(())
}

fn write_message(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn read_message<T: for<'t> Deserialize<'t>>(
    line: &mut BufReader<UnixStream>,
) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    if line.take(LONGEST).read_until(b'\n', &mut text)? == 0 {
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
        let (me, inode, uid) = (
            std::process::id(),
            held.metadata().unwrap().ino(),
            held.metadata().unwrap().uid(),
        );
        let looking = thread::spawn(move || observe(theirs).unwrap());
        let (here, beside) = (
            ProcessObserver::default(),
            ProcessObserver::beside(ours).unwrap(),
        );
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
        looking.join().unwrap();

        let (ours, theirs) = UnixStream::pair().unwrap();
        let lonely = ProcessObserver::beside(ours).unwrap();
        drop(theirs);
        assert_eq!(lonely.holder(SearchStart::In(me), inode), None);
        assert_eq!(lonely.holder(SearchStart::In(me), inode), None, "and still");
    }

    #[test]
    fn invalid_question_ends_observer() {
        for nonsense in ["\n", "{}\n", &"x".repeat(1000)] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(nonsense.as_bytes()).unwrap();
            assert!(observe(theirs).is_err(), "{nonsense:?}");
        }
    }
}
