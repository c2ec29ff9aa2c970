//! Values that a proc has put, by key and qualifiers (`PMIX_QUALIFIED_VALUE`).
use peal_model::{Info, InfoFlags, Key, Kval, Size, Value, key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of values of one key with different qualifiers, because each new one is compared
/// with all of them.
const MAX_QUALIFIED: usize = 256;

/// The value that a get seeks: a key, and the qualifiers that the value must have. Without
/// qualifiers, a value that has none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoughtValue {
    pub(crate) key: Key,
    qualifiers: Vec<Info>,
}

impl SoughtValue {
    /// Returns a key with the qualifiers among a get's infos.
    pub(crate) fn new(key: Key, infos: &[Info]) -> SoughtValue {
        SoughtValue {
            key,
            qualifiers: infos
                .iter()
                .filter(|info| is_qualifier(info))
                .cloned()
                .collect(),
        }
    }
}

/// A value that was put with qualifiers.
#[derive(Debug, Serialize, Deserialize)]
struct QualifiedValue {
    qualifiers: Vec<Info>,
    /// The value with its qualifiers, as put.
    whole: Value,
}

impl QualifiedValue {
    fn has(&self, qualifiers: &[Info]) -> bool {
        qualifiers
            .iter()
            .all(|wanted| self.qualifiers.iter().any(|info| is_same(info, wanted)))
    }

    /// Returns true if both have the same qualifiers, in any order.
    fn is_like(&self, other: &QualifiedValue) -> bool {
        self.has(&other.qualifiers) && other.has(&self.qualifiers)
    }

    fn bytes(&self) -> usize {
        bytes(&key::PMIX_QUALIFIED_VALUE.into(), &self.whole)
    }
}

/// Error for a key with too many values of different qualifiers.
#[derive(Debug)]
pub(crate) struct TooManyQualified;

/// Values of one scope.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PutValues {
    plain: BTreeMap<Key, Value>,
    qualified: BTreeMap<Key, Vec<QualifiedValue>>,
}

impl PutValues {
    /// Adds a value. Replaces one with the same key and qualifiers.
    pub(crate) fn insert(&mut self, kval: Kval) -> Result<(), TooManyQualified> {
        match qualified(kval) {
            Ok((key, value)) => self.insert_qualified(key, value)?,
            Err(Kval { key, value }) => drop(self.plain.insert(key, value)),
        }
        Ok(())
    }

    fn insert_qualified(
        &mut self,
        key: Key,
        value: QualifiedValue,
    ) -> Result<(), TooManyQualified> {
        let values = self.qualified.entry(key).or_default();
        // First, because the value that is replaced does not count towards the limit.
        values.retain(|known| !known.is_like(&value));
        if values.len() >= MAX_QUALIFIED {
            return Err(TooManyQualified);
        }
        values.push(value);
        Ok(())
    }

    /// Adds values for which [`PutValues::has_room_for`] returned true.
    pub(crate) fn extend(&mut self, other: PutValues) {
        self.plain.extend(other.plain);
        for (key, values) in other.qualified {
            for value in values {
                // The caller has checked the limit.
                let _ = self.insert_qualified(key.clone(), value);
            }
        }
    }

    /// Returns true if the values fit beside those of the same keys.
    pub(crate) fn has_room_for(&self, other: &PutValues) -> bool {
        other.qualified.iter().all(|(key, values)| {
            let known = self.qualified.get(key).into_iter().flatten();
            let stay = known.filter(|known| !values.iter().any(|value| value.is_like(known)));
            stay.count() + values.len() <= MAX_QUALIFIED
        })
    }

    /// Returns the memory of the values, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let plain = self.plain.iter().map(|(key, value)| bytes(key, value));
        plain
            .chain(self.qualified.values().flatten().map(QualifiedValue::bytes))
            .fold(0, usize::saturating_add)
    }

    /// Returns the memory of the values that other values would replace, in bytes.
    pub(crate) fn bytes_replaced_by(&self, other: &PutValues) -> usize {
        let plain = other
            .plain
            .keys()
            .filter_map(|key| self.plain.get_key_value(key));
        let plain = plain.map(|(key, value)| bytes(key, value));
        let qualified = other.qualified.iter().flat_map(|(key, values)| {
            let known = self.qualified.get(key).into_iter().flatten();
            known
                .filter(|known| values.iter().any(|value| value.is_like(known)))
                .map(QualifiedValue::bytes)
        });
        plain.chain(qualified).fold(0, usize::saturating_add)
    }

    /// Returns true if the sought value exists.
    pub(crate) fn has(&self, sought: &SoughtValue) -> bool {
        if sought.qualifiers.is_empty() {
            return self.plain.contains_key(&sought.key);
        }
        self.qualified
            .get(&sought.key)
            .into_iter()
            .flatten()
            .any(|value| value.has(&sought.qualifiers))
    }

    /// Returns all values.
    pub(crate) fn kvals(&self) -> impl Iterator<Item = Kval> {
        self.kvals_beside(&EMPTY)
    }

    /// Returns all values that another set does not have.
    pub(crate) fn kvals_beside(&self, other: &PutValues) -> impl Iterator<Item = Kval> {
        // Values of global scope are in both sets and must be returned once.
        let plain = self
            .plain
            .iter()
            .filter(|(key, _)| !other.plain.contains_key(*key));
        let plain = plain.map(|(key, value)| Kval {
            key: key.clone(),
            value: value.clone(),
        });
        let qualified = self.qualified.iter().flat_map(|(key, values)| {
            let theirs = other
                .qualified
                .get(key)
                .map(Vec::as_slice)
                .unwrap_or_default();
            values
                .iter()
                .filter(|value| !theirs.iter().any(|other| other.is_like(value)))
        });
        plain
            .chain(qualified.map(|value| Kval::new(key::PMIX_QUALIFIED_VALUE, value.whole.clone())))
    }
}

static EMPTY: PutValues = PutValues {
    plain: BTreeMap::new(),
    qualified: BTreeMap::new(),
};

/// Splits a qualified value into its key and value. Returns other pairs unchanged.
fn qualified(kval: Kval) -> Result<(Key, QualifiedValue), Kval> {
    if kval.key != key::PMIX_QUALIFIED_VALUE {
        return Err(kval);
    }
    let infos = match &kval.value {
        Value::DataArray(array) => array.as_infos().unwrap_or_default(),
        _ => Vec::new(),
    };
    let Some((primary, rest)) = infos.split_first() else {
        return Err(kval);
    };
    let qualifiers: Vec<Info> = rest
        .iter()
        .filter(|info| is_qualifier(info))
        .map(|info| (*info).clone())
        .collect();
    if qualifiers.is_empty() {
        // A wrapped value without qualifiers equals a plain one.
        return Err(Kval {
            key: primary.key.clone(),
            value: primary.value.clone(),
        });
    }
    Ok((
        primary.key.clone(),
        QualifiedValue {
            qualifiers,
            whole: kval.value,
        },
    ))
}

fn is_qualifier(info: &Info) -> bool {
    info.flags.contains(InfoFlags::QUALIFIER)
}

fn is_same(one: &Info, other: &Info) -> bool {
    one.key == other.key && one.value == other.value
}

fn bytes(key: &Key, value: &Value) -> usize {
    Size::of(value).bytes.saturating_add(key.as_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{DataArray, KeyName};

    const A: KeyName = KeyName("a");
    const SIDE: KeyName = KeyName("side");

    fn side(number: u32) -> Info {
        Info {
            flags: InfoFlags::QUALIFIER,
            ..Info::new(SIDE, Value::Uint32(number))
        }
    }

    fn put(value: u32, qualifiers: &[Info]) -> Kval {
        let infos = [&[Info::new(A, Value::Uint32(value))], qualifiers].concat();
        Kval::new(
            key::PMIX_QUALIFIED_VALUE,
            Value::DataArray(DataArray::infos(infos)),
        )
    }

    fn values(kvals: impl IntoIterator<Item = Kval>) -> PutValues {
        let mut values = PutValues::default();
        kvals
            .into_iter()
            .for_each(|kval| values.insert(kval).unwrap());
        values
    }

    #[test]
    fn values_of_one_key_differ_by_their_qualifiers() {
        let put_all = values([put(1, &[side(1)]), put(2, &[side(2)]), put(3, &[side(2)])]);
        assert_eq!(
            put_all.kvals().collect::<Vec<_>>(),
            [put(1, &[side(1)]), put(3, &[side(2)])]
        );
        let has = |infos: &[Info]| put_all.has(&SoughtValue::new(A.into(), infos));
        assert_eq!(
            [&[side(1)][..], &[side(2)], &[side(3)], &[]].map(has),
            [true, true, false, false]
        );
        let unflagged = Info::new(SIDE, Value::Uint32(3));
        assert_eq!(
            values([put(1, &[unflagged])]).kvals().collect::<Vec<_>>(),
            [Kval::new(A, Value::Uint32(1))]
        );
    }

    #[test]
    fn byte_count_equals_stored_values() {
        let mut all = values([put(1, &[side(1)]), Kval::new(A, Value::Bool(true))]);
        let more = values([put(2, &[side(1)])]);
        let before = all.bytes();
        let replaced = all.bytes_replaced_by(&more);
        assert_eq!(replaced, more.bytes());
        all.extend(more);
        assert_eq!(all.bytes(), before);
    }

    #[test]
    fn qualified_values_of_one_key_are_bounded() {
        let most = u32::try_from(MAX_QUALIFIED).unwrap();
        let mut full = values((0..most).map(|number| put(number, &[side(number)])));
        let one_more = values([put(0, &[side(most)])]);
        let replacing = values([put(9, &[side(0)])]);
        assert!(!full.has_room_for(&one_more) && full.has_room_for(&replacing));
        assert!(full.insert(put(0, &[side(most)])).is_err());
        assert_eq!(full.kvals().count(), MAX_QUALIFIED);
    }
}
