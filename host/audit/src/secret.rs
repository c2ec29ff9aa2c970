//! Secrets: what an admin says must not be kept is replaced by its digest, wherever in a record it stands.
use crate::{
    Entry, EntryError, Keys,
    entry::{Decision, to_cbor},
};
use ciborium::Value as Cbor;
use peal_model::{Info, Step, Value, key};
use peal_sandbox::{Answer, End, Output, Subject};
use std::collections::{BTreeSet, VecDeque};

/// Shorter ones would be found everywhere.
const SHORTEST: usize = 4;
/// How many secrets are looked for, the latest. A guest may remember one and hand it over in a later call.
const REMEMBERED: usize = 256;

/// The keys of infos whose values are secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secrets(BTreeSet<String>);

impl Default for Secrets {
    /// Credentials, and keys of encryption and of networks.
    fn default() -> Secrets {
        let keys = [key::PMIX_CREDENTIAL, key::PMIX_CRYPTO_KEY, key::PMIX_ALLOC_NETWORK_SEC_KEY];
        Secrets(keys.iter().map(|key| key.0.to_owned()).collect())
    }
}

impl FromIterator<String> for Secrets {
    fn from_iter<I: IntoIterator<Item = String>>(keys: I) -> Secrets {
        Secrets(keys.into_iter().collect())
    }
}

/// Takes secrets out of what is written.
pub(crate) struct Scrubber {
    secrets: Secrets,
    seen: VecDeque<Vec<u8>>,
}

impl Scrubber {
    pub(crate) fn new(secrets: Secrets) -> Scrubber {
        Scrubber { secrets, seen: VecDeque::new() }
    }

    /// An entry as it may be kept.
    pub(crate) fn body(&mut self, entry: &Entry, keys: &Keys) -> Result<Vec<u8>, EntryError> {
        if self.seen.is_empty() && !self.is_in(entry) {
            return to_cbor(entry);
        }
        let mut tree = Cbor::serialized(entry).map_err(|error| EntryError::Unwritable(error.to_string()))?;
        self.collect(&mut tree, keys);
        self.replace(&mut tree, keys);
        to_cbor(&tree)
    }

    /// Whether some info of an entry has a secret key.
    fn is_in(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Call(call) => {
                let record = &call.record;
                let subject = match &record.subject {
                    Subject::None => false,
                    Subject::Settings(settings) => self.any(settings),
                    Subject::Event(call) => self.any(&call.event.infos) || self.steps(&call.steps),
                    Subject::Policy(call) => {
                        self.any(&call.request.infos) || self.any(&call.request.directives) || self.steps(&call.steps)
                    }
                    Subject::Log(call) => {
                        self.any(&call.request.data) || self.any(&call.request.directives) || self.steps(&call.steps)
                    }
                };
                let told = record.host_calls.iter().filter_map(|call| call.answer.as_ref());
                let told = told.filter_map(|answer| if let Answer::Infos(infos) = answer { Some(infos) } else { None });
                subject
                    || told.into_iter().any(|infos| self.any(infos))
                    || matches!(&record.end, End::Returned { output, .. } if self.output(output))
            }
            Entry::Decision(Decision { asked, reasons, .. }) => {
                self.any(&asked.infos) || self.any(&asked.directives) || self.any(reasons)
            }
            _ => false,
        }
    }

    fn output(&self, output: &Output) -> bool {
        let amended =
            [&output.amendment.infos, &output.amendment.data].into_iter().flatten().any(|infos| self.any(infos));
        let both = |one: &[Info], other: &[Info]| self.any(one) || self.any(other);
        amended
            || self.any(&output.infos)
            || output.notifications.iter().any(|raised| self.any(&raised.infos))
            || output.controls.iter().any(|asked| self.any(&asked.directives))
            || output.reports.iter().any(|report| both(&report.data, &report.directives))
    }

    fn steps(&self, steps: &[Step]) -> bool {
        steps.iter().any(|step| self.any(&step.infos))
    }

    fn any(&self, infos: &[Info]) -> bool {
        infos.iter().any(|info| self.info(info))
    }

    fn info(&self, info: &Info) -> bool {
        self.secrets.0.contains(info.key.as_str()) || self.value(&info.value)
    }

    fn value(&self, value: &Value) -> bool {
        match value {
            Value::Info(info) => self.info(info),
            Value::DataArray(array) => array.items().iter().any(|item| self.value(item)),
            Value::Value(value) => self.value(value),
            _ => false,
        }
    }

    /// Replaces the values of secret infos, and remembers what they were.
    fn collect(&mut self, tree: &mut Cbor, keys: &Keys) {
        match tree {
            Cbor::Array(items) => items.iter_mut().for_each(|item| self.collect(item, keys)),
            Cbor::Tag(_, inner) => self.collect(inner, keys),
            Cbor::Map(entries) => {
                let is_secret = entries.iter().any(|(name, key)| {
                    name.as_text() == Some("key") && key.as_text().is_some_and(|key| self.secrets.0.contains(key))
                });
                let value = entries.iter_mut().find(|(name, _)| name.as_text() == Some("value"));
                if let (true, Some((_, value))) = (is_secret, value) {
                    self.remember(value);
                    let digest = match text_of(value) {
                        // As it is where a guest hands it over again.
                        Some(text) => digest(keys, text),
                        None => to_cbor(value).map(|bytes| digest(keys, &bytes)).unwrap_or_default(),
                    };
                    *value = Cbor::Map(vec![("String".into(), Cbor::Bytes(digest.into_bytes()))]);
                }
                entries.iter_mut().for_each(|(_, value)| self.collect(value, keys));
            }
            _ => {}
        }
    }

    fn remember(&mut self, value: &Cbor) {
        match value {
            Cbor::Text(text) => self.look_for(text.as_bytes()),
            Cbor::Bytes(bytes) => self.look_for(bytes),
            Cbor::Array(items) => items.iter().for_each(|item| self.remember(item)),
            Cbor::Tag(_, inner) => self.remember(inner),
            Cbor::Map(entries) => entries.iter().for_each(|(_, value)| self.remember(value)),
            _ => {}
        }
    }

    fn look_for(&mut self, secret: &[u8]) {
        if secret.len() < SHORTEST || self.seen.iter().any(|seen| seen == secret) {
            return;
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(secret.to_owned());
    }

    /// Replaces whatever holds a secret, as a whole.
    fn replace(&self, tree: &mut Cbor, keys: &Keys) {
        match tree {
            Cbor::Text(text) if self.holds(text.as_bytes()) => *text = digest(keys, text.as_bytes()),
            Cbor::Bytes(bytes) if self.holds(bytes) => *bytes = digest(keys, bytes).into_bytes(),
            Cbor::Array(items) => items.iter_mut().for_each(|item| self.replace(item, keys)),
            Cbor::Tag(_, inner) => self.replace(inner, keys),
            Cbor::Map(entries) => entries.iter_mut().for_each(|(_, value)| self.replace(value, keys)),
            _ => {}
        }
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        self.seen.iter().any(|secret| bytes.windows(secret.len()).any(|window| window == secret.as_slice()))
    }
}

/// The bytes of a value that is a string.
fn text_of(value: &Cbor) -> Option<&[u8]> {
    let (_, text) = value.as_map()?.iter().find(|(name, _)| name.as_text() == Some("String"))?;
    text.as_bytes().map(Vec::as_slice)
}

/// What begins that which stands for a secret.
pub(crate) const MARK: &str = "secret:";

/// What stands for a secret, so that equal ones can be told.
fn digest(keys: &Keys, secret: &[u8]) -> String {
    format!("{MARK}{}", peal_sandbox::Digest(keys.digest(secret)))
}
