//! Tokens, and the sessions of browsers that have shown one. Secrets are kept as digests and compared in
//! constant time.
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use subtle::ConstantTimeEq;

/// Random bytes of a session's name, and of the token in its forms.
const SECRET_BYTES: usize = 32;

/// Rights at the console.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ConsoleRights {
    /// May look.
    View,
    /// May look, change modules and replay calls.
    Change,
}

/// Digest of a secret.
#[derive(Clone, Copy)]
struct SecretDigest([u8; 32]);

impl SecretDigest {
    fn of(secret: &str) -> SecretDigest {
        SecretDigest(Sha256::digest(secret.as_bytes()).into())
    }

    fn is_of(&self, secret: &str) -> bool {
        self.0.ct_eq(&SecretDigest::of(secret).0).into()
    }
}

/// Tokens of the configuration.
pub(crate) struct AccessTokens {
    viewer: Option<SecretDigest>,
    admin: Option<SecretDigest>,
}

impl AccessTokens {
    pub(crate) fn new(viewer: Option<&str>, admin: Option<&str>) -> AccessTokens {
        AccessTokens {
            viewer: viewer.map(SecretDigest::of),
            admin: admin.map(SecretDigest::of),
        }
    }

    /// Returns the rights of a token; none if it is wrong.
    pub(crate) fn rights(&self, token: &str) -> Option<ConsoleRights> {
        let is = |known: &Option<SecretDigest>| known.is_some_and(|known| known.is_of(token));
        // Both are compared, so that the time does not tell which one was nearer.
        let (viewer, admin) = (is(&self.viewer), is(&self.admin));
        match (admin, viewer) {
            (true, _) => Some(ConsoleRights::Change),
            (false, true) => Some(ConsoleRights::View),
            (false, false) => None,
        }
    }
}

/// Session of a browser.
#[derive(Clone)]
struct Session {
    rights: ConsoleRights,
    form_token: String,
    begun: Instant,
}

/// New session.
pub(crate) struct NewSession {
    /// Name of the session, which is the secret of the cookie.
    pub(crate) name: String,
}

/// Valid session.
#[derive(Clone)]
pub(crate) struct ActiveSession {
    pub(crate) rights: ConsoleRights,
    /// Token that the forms of the session carry.
    pub(crate) form_token: String,
}

/// Sessions of all browsers, bounded in number and time.
pub(crate) struct Sessions {
    /// By the digests of their names: the time of a search tells nothing about the names.
    sessions: Mutex<BTreeMap<[u8; 32], Session>>,
    max: usize,
    lifetime: Duration,
}

impl Sessions {
    pub(crate) fn new(max: usize, lifetime: Duration) -> Sessions {
        Sessions {
            sessions: Mutex::default(),
            max,
            lifetime,
        }
    }

    /// Begins a session. Beyond the bound another one ends: only who has a token can begin any. It is the oldest of
    /// those with the fewest rights; viewers log no administrator out.
    pub(crate) fn begin(&self, rights: ConsoleRights, now: Instant) -> io::Result<NewSession> {
        let name = random_text()?;
        let session = Session {
            rights,
            form_token: random_text()?,
            begun: now,
        };
        let mut sessions = self.valid(now);
        while sessions.len() >= self.max {
            let oldest = sessions
                .iter()
                .min_by_key(|(_, session)| (session.rights, session.begun));
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else {
                break;
            };
            sessions.remove(&oldest);
        }
        sessions.insert(SecretDigest::of(&name).0, session);
        Ok(NewSession { name })
    }

    /// Returns the session of this name, unless it has ended.
    pub(crate) fn get(&self, name: &str, now: Instant) -> Option<ActiveSession> {
        let sessions = self.valid(now);
        let session = sessions.get(&SecretDigest::of(name).0)?;
        Some(ActiveSession {
            rights: session.rights,
            form_token: session.form_token.clone(),
        })
    }

    /// Ends a session.
    pub(crate) fn end(&self, name: &str, now: Instant) {
        self.valid(now).remove(&SecretDigest::of(name).0);
    }

    fn valid(&self, now: Instant) -> MutexGuard<'_, BTreeMap<[u8; 32], Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| now.duration_since(session.begun) < self.lifetime);
        sessions
    }
}

/// Returns true if a form carries the token of its session.
pub(crate) fn is_form_token(session: &ActiveSession, given: &str) -> bool {
    SecretDigest::of(&session.form_token).is_of(given)
}

/// Returns random bytes in hexadecimal digits.
fn random_text() -> io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // The kernel gives up to 256 bytes at once.
    if count < SECRET_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_gives_its_rights_and_no_other_does() {
        let tokens = AccessTokens::new(Some("viewer's token"), Some("admin's token"));
        assert_eq!(tokens.rights("viewer's token"), Some(ConsoleRights::View));
        assert_eq!(tokens.rights("admin's token"), Some(ConsoleRights::Change));
        for wrong in ["", "viewer's toke", "viewer's token ", "Viewer's token"] {
            assert_eq!(tokens.rights(wrong), None, "{wrong:?}");
        }
        let none = AccessTokens::new(None, Some("admin's token"));
        assert_eq!(none.rights(""), None);
    }

    #[test]
    fn sessions_end_by_number_time_and_wish() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let begin = |seconds| {
            sessions
                .begin(ConsoleRights::View, at(seconds))
                .unwrap()
                .name
        };
        let (first, second, third) = (begin(0), begin(1), begin(2));
        assert!(first.len() == 64 && first != second);
        assert!(sessions.get(&first, at(3)).is_none());
        let found = sessions.get(&second, at(3)).unwrap();
        assert!(is_form_token(&found, &found.form_token) && !is_form_token(&found, &second));
        sessions.end(&second, at(3));
        assert!(sessions.get(&second, at(3)).is_none());
        assert!(sessions.get(&third, at(61)).is_some());
        assert!(sessions.get(&third, at(62)).is_none());
    }

    #[test]
    fn sessions_of_viewers_end_before_those_of_administrators() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        let now = Instant::now();
        let begin = |rights| sessions.begin(rights, now).unwrap().name;
        let admin = begin(ConsoleRights::Change);
        let viewers: Vec<String> = (0..3).map(|_| begin(ConsoleRights::View)).collect();
        assert!(sessions.get(&admin, now).is_some());
        let left = viewers
            .iter()
            .filter(|name| sessions.get(name, now).is_some());
        assert_eq!(left.count(), 1);
    }
}
