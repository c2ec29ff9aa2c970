//! Removal of secrets. The value of an info with a key that is configured as secret is replaced by
//! a digest. Copies of it in the same record are replaced as well, wherever a client or guest wrote
//! a value: in other infos and in bytes and texts of guests. Names from the server stay even if a
//! secret contains them: kinds, outcomes, namespaces, keys. So every record stays readable.
//!
//! Nothing is remembered between records: a secret of one user changes no record about another
//! user.
use crate::{
    AuditEntry, EntryError,
    entry::{DecisionEntry, to_cbor},
    key::DigestKey,
};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use ciborium::Value as Cbor;
use peal_model::{ChainResult, Info, Value, key};
use peal_sandbox::{CallEnd, CallOutput, CallSubject, HostCallAnswer};
use std::collections::BTreeSet;

/// Minimum length of a secret for the search of copies. Shorter ones would match everywhere.
const SHORTEST: usize = 4;
/// Maximum number of secrets per record for which copies are searched. The infos of further secrets
/// are still replaced.
const SOUGHT: usize = 32;
/// Number of leading bytes of a secret that identify a copy.
const SOUGHT_BYTES: usize = 256;
/// Fields with texts from clients, guests or admins, which can be any text. All other texts of
/// records are names.
const FREE_TEXTS: [&str; 8] = [
    "reason",
    "message",
    "command",
    "arguments",
    "environment",
    "directory",
    "path",
    "Err",
];
/// Field of a mail, in which all texts can be any text.
const MAIL: &str = "mail";

/// The keys of infos with secret values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secrets(BTreeSet<String>);

impl Default for Secrets {
    /// Returns the keys of credentials, of encryption and of network security.
    fn default() -> Secrets {
        let keys = [
            key::PMIX_CREDENTIAL,
            key::PMIX_CRYPTO_KEY,
            key::PMIX_ALLOC_NETWORK_SEC_KEY,
        ];
        Secrets(keys.iter().map(|key| key.0.to_owned()).collect())
    }
}

impl FromIterator<String> for Secrets {
    fn from_iter<I: IntoIterator<Item = String>>(keys: I) -> Secrets {
        Secrets(keys.into_iter().collect())
    }
}

impl Secrets {
    /// Returns true if one of the infos, or an info within its value, has a secret value.
    pub fn are_in(&self, infos: &[Info]) -> bool {
        infos.iter().any(|info| self.is_info(info))
    }

    fn is_info(&self, info: &Info) -> bool {
        self.0.contains(info.key.as_str()) || self.are_in_value(&info.value)
    }

    fn are_in_value(&self, value: &Value) -> bool {
        match value {
            Value::Info(info) => self.is_info(info),
            Value::DataArray(array) => array.items().iter().any(|item| self.are_in_value(item)),
            Value::Value(value) => self.are_in_value(value),
            Value::Kval(kval) => {
                self.0.contains(kval.key.as_str()) || self.are_in_value(&kval.value)
            }
            Value::Pdata(data) => {
                self.0.contains(data.key.as_str()) || self.are_in_value(&data.value)
            }
            Value::App(app) => self.are_in(&app.infos),
            // Other values hold no infos.
            _ => false,
        }
    }
}

/// Removes secrets from entries.
pub(crate) struct Scrubber {
    secrets: Secrets,
    key: DigestKey,
}

impl Scrubber {
    pub(crate) fn new(secrets: Secrets, key: DigestKey) -> Scrubber {
        Scrubber { secrets, key }
    }

    /// Returns the body of an entry without its secrets; `None` if it has none. The time grows with
    /// the size of the entry; call it without holding a lock.
    pub(crate) fn scrubbed(&self, entry: &AuditEntry) -> Option<Result<Vec<u8>, EntryError>> {
        // Most entries have no secret, and this search spares them the tree.
        self.is_in(entry).then(|| self.body(entry))
    }

    fn body(&self, entry: &AuditEntry) -> Result<Vec<u8>, EntryError> {
        let unwritable = |error: String| EntryError::Unwritable(error);
        let mut tree = Cbor::serialized(entry).map_err(|error| unwritable(error.to_string()))?;
        let mut sought = BTreeSet::new();
        self.replace_values(&mut tree, &mut sought);
        if !sought.is_empty() {
            let search = AhoCorasick::builder()
                // The search is built for one record. A DFA, the usual choice for few patterns,
                // takes longer to build.
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&sought);
            let search = search.map_err(|error| unwritable(error.to_string()))?;
            Copies {
                search,
                key: &self.key,
            }
            .replace(&mut tree, MatchPosition::Name);
        }
        to_cbor(&tree)
    }

    /// Returns true if an info of the entry has a secret key.
    fn is_in(&self, entry: &AuditEntry) -> bool {
        match entry {
            AuditEntry::Call(call) => {
                let record = &call.record;
                let subject = match &record.subject {
                    CallSubject::None => false,
                    CallSubject::Settings(settings) => self.any(settings),
                    CallSubject::Event(call) => {
                        self.any(&call.event.infos) || self.steps(&call.steps)
                    }
                    CallSubject::Policy(call) => {
                        self.any(call.request.subject.infos())
                            || self.any(call.request.subject.directives())
                            || self.steps(&call.steps)
                    }
                    CallSubject::Log(call) => {
                        self.any(&call.request.data)
                            || self.any(&call.request.directives)
                            || self.steps(&call.steps)
                    }
                };
                let answers = record
                    .host_calls
                    .iter()
                    .filter_map(|call| call.answer.as_ref());
                // Only infos have keys. Copies in other answers are sought once a secret is known.
                let answers = answers.filter_map(|answer| {
                    if let HostCallAnswer::Infos(infos) = answer {
                        Some(infos)
                    } else {
                        None
                    }
                });
                subject
                    || answers.into_iter().any(|infos| self.any(infos))
                    || matches!(&record.end, CallEnd::Returned { output, .. } if self.output(output))
            }
            AuditEntry::Decision(DecisionEntry {
                request, reasons, ..
            }) => {
                self.any(request.subject.infos())
                    || self.any(request.subject.directives())
                    || self.any(reasons)
            }
            // No other kind of entry holds infos.
            _ => false,
        }
    }

    fn output(&self, output: &CallOutput) -> bool {
        let amended = [&output.amendment.infos, &output.amendment.data]
            .into_iter()
            .flatten()
            .any(|infos| self.any(infos));
        let both = |one: &[Info], other: &[Info]| self.any(one) || self.any(other);
        amended
            || self.any(&output.infos)
            || output
                .notifications
                .iter()
                .any(|raised| self.any(&raised.infos))
            || output
                .controls
                .iter()
                .any(|control| self.any(&control.directives))
            || output
                .reports
                .iter()
                .any(|report| both(&report.data, &report.directives))
    }

    fn steps(&self, steps: &[ChainResult]) -> bool {
        steps.iter().any(|step| self.any(&step.infos))
    }

    fn any(&self, infos: &[Info]) -> bool {
        self.secrets.are_in(infos)
    }

    /// Replaces the values of secret infos and collects the byte strings to search for.
    fn replace_values(&self, tree: &mut Cbor, sought: &mut BTreeSet<Vec<u8>>) {
        match tree {
            Cbor::Array(items) => items
                .iter_mut()
                .for_each(|item| self.replace_values(item, sought)),
            Cbor::Tag(_, inner) => self.replace_values(inner, sought),
            Cbor::Map(entries) => {
                let is_secret = entries.iter().any(|(name, key)| {
                    name.as_text() == Some("key")
                        && key
                            .as_text()
                            .is_some_and(|key| self.secrets.0.contains(key))
                });
                // Only the value of an info is a map or a text: a guest's state has keys too, and
                // its value is bytes.
                let value = entries.iter_mut().find(|(name, value)| {
                    name.as_text() == Some("value") && (value.is_map() || value.is_text())
                });
                if let (true, Some((_, value))) = (is_secret, value) {
                    collect(value, sought);
                    let digest = match text_of(value) {
                        // The digest of the bare text equals that of a copy which a guest hands
                        // over.
                        Some(text) => digest(&self.key, text),
                        None => to_cbor(value)
                            .map(|bytes| digest(&self.key, &bytes))
                            .unwrap_or_default(),
                    };
                    *value = Cbor::Map(vec![("String".into(), Cbor::Bytes(digest.into_bytes()))]);
                }
                entries
                    .iter_mut()
                    .for_each(|(_, value)| self.replace_values(value, sought));
            }
            _ => {}
        }
    }
}

/// Collects the strings and bytes of a value. Other texts in a value are names of types.
fn collect(value: &Cbor, sought: &mut BTreeSet<Vec<u8>>) {
    match value {
        Cbor::Bytes(bytes) if bytes.len() >= SHORTEST && sought.len() < SOUGHT => {
            sought.insert(bytes.get(..SOUGHT_BYTES).unwrap_or(bytes).to_owned());
        }
        Cbor::Array(items) => items.iter().for_each(|item| collect(item, sought)),
        Cbor::Tag(_, inner) => collect(inner, sought),
        Cbor::Map(entries) => entries.iter().for_each(|(_, value)| collect(value, sought)),
        _ => {}
    }
}

/// Kind of text at a position in an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchPosition {
    /// A name from the server.
    Name,
    /// A free text.
    Free,
    /// A text in a mail.
    Mail,
}

impl MatchPosition {
    /// Returns the kind of text in a field.
    fn of_field(self, name: &str) -> MatchPosition {
        match name {
            _ if self == MatchPosition::Mail || name == MAIL => MatchPosition::Mail,
            name if FREE_TEXTS.contains(&name) => MatchPosition::Free,
            _ => MatchPosition::Name,
        }
    }
}

/// Search for copies of all secrets of an entry at once.
struct Copies<'a> {
    search: AhoCorasick,
    key: &'a DigestKey,
}

impl Copies<'_> {
    /// Replaces every text or byte string that contains a secret, as a whole.
    fn replace(&self, tree: &mut Cbor, position: MatchPosition) {
        match tree {
            Cbor::Text(text)
                if position != MatchPosition::Name && self.search.is_match(text.as_str()) =>
            {
                *text = digest(self.key, text.as_bytes());
            }
            // Strings and byte objects are serialized as bytes, names and numbers are not.
            Cbor::Bytes(bytes) if !is_digest(bytes) && self.search.is_match(bytes.as_slice()) => {
                *bytes = digest(self.key, bytes).into_bytes();
            }
            Cbor::Array(items) => items
                .iter_mut()
                .for_each(|item| self.replace(item, position)),
            Cbor::Tag(_, inner) => self.replace(inner, position),
            Cbor::Map(entries) => {
                for (name, value) in entries {
                    self.replace(value, position.of_field(name.as_text().unwrap_or_default()));
                }
            }
            _ => {}
        }
    }
}

/// Returns the bytes of a value that is a string.
fn text_of(value: &Cbor) -> Option<&[u8]> {
    let (_, text) = value
        .as_map()?
        .iter()
        .find(|(name, _)| name.as_text() == Some("String"))?;
    text.as_bytes().map(Vec::as_slice)
}

/// Prefix of the replacement of a secret.
pub(crate) const MARK: &str = "secret:";
/// Length of the replacement.
const DIGEST: usize = MARK.len() + 64;

/// Returns the replacement of a secret. Equal secrets have equal replacements.
fn digest(key: &DigestKey, secret: &[u8]) -> String {
    format!("{MARK}{}", peal_sandbox::Digest(key.digest(secret)))
}

/// Returns true if `bytes` are a replacement.
fn is_digest(bytes: &[u8]) -> bool {
    bytes.len() == DIGEST && bytes.starts_with(MARK.as_bytes())
}

#[cfg(test)]
mod tests;
