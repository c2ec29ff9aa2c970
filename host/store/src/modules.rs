//! Versions of the module set: each is a document with the components that it names, so that a
//! server can go back to one when its files changed or are invalid.
use crate::{Store, StoreError, read, stored};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

/// The SHA-256 of a component.
pub type ComponentDigest = [u8; 32];

/// Override of a module's configuration by an admin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ModuleOverride {
    /// The module is not called.
    Disabled,
    /// The module with this component is active, although it is configured as a shadow.
    Promoted(ComponentDigest),
}

impl ModuleOverride {
    fn word(self) -> &'static str {
        match self {
            ModuleOverride::Disabled => "disabled",
            ModuleOverride::Promoted(_) => "promoted",
        }
    }

    fn digest(self) -> Option<ComponentDigest> {
        match self {
            ModuleOverride::Disabled => None,
            ModuleOverride::Promoted(digest) => Some(digest),
        }
    }

    /// Reads an override; `None` for one that only a later Peal knows.
    fn read(word: &str, digest: Option<ComponentDigest>) -> Option<ModuleOverride> {
        match (word, digest) {
            ("disabled", _) => Some(ModuleOverride::Disabled),
            ("promoted", Some(digest)) => Some(ModuleOverride::Promoted(digest)),
            _ => None,
        }
    }
}

/// The component of a module to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewPart<'a> {
    /// The digest of the component.
    pub digest: ComponentDigest,
    /// The bytes of the component.
    pub bytes: &'a [u8],
    /// The text of its signature, if there is one.
    pub signature: Option<&'a str>,
}

/// The stored component of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModulePart {
    /// The digest of the component.
    pub digest: ComponentDigest,
    /// The text of its signature, if there was one.
    pub signature: Option<String>,
}

/// A version of the module set to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'a> {
    /// The cause of the change.
    pub cause: &'a str,
    /// The configuration of the modules.
    pub document: &'a str,
    /// The components of the document's modules, in the same order.
    pub components: &'a [NewPart<'a>],
}

/// A stored version of the module set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleVersion {
    /// The number of the version. Later versions have greater numbers.
    pub number: u64,
    /// The time in seconds since the epoch.
    pub at: u64,
    /// The cause of the change.
    pub cause: String,
    /// The configuration of the modules.
    pub document: String,
    /// The components of the document's modules, in the same order.
    pub components: Vec<ModulePart>,
}

impl Store {
    /// Stores a version and its components. Keeps the latest `keep` versions and drops the others
    /// with components that only they use. Returns the number of the version.
    pub fn keep_modules(
        &self,
        version: NewVersion<'_>,
        at: u64,
        keep: u32,
    ) -> Result<u64, StoreError> {
        self.write(|transaction| {
            // Drop old versions first, so that the new one can use their space.
            let latest = "select number from module_version order by number desc limit ?1";
            let before = keep.saturating_sub(1);
            // Their parts go by `on delete cascade`.
            transaction.execute(&format!("delete from module_version where number not in ({latest})"), [before])?;
            // Components that the new version also uses stay, so that they are not written again.
            let wanted = version.components.iter().map(|part| part.digest.as_slice());
            drop_components(transaction, wanted)?;
            for NewPart { digest, bytes, .. } in version.components {
                // Versions share components that did not change.
                let insert = "insert into component (digest, bytes) values (?1, ?2) on conflict do nothing";
                transaction.execute(insert, params![digest, bytes])?;
            }
            let insert = "insert into module_version (at, cause, document) values (?1, ?2, ?3)";
            transaction.execute(insert, params![stored(at), version.cause, version.document])?;
            let number = transaction.last_insert_rowid();
            for (place, NewPart { digest, signature, .. }) in version.components.iter().enumerate() {
                let insert = "insert into module_part (version, place, digest, signature) values (?1, ?2, ?3, ?4)";
                transaction.execute(insert, params![number, stored(place as u64), digest, signature])?;
            }
            Ok(read(number))
        })
    }

    /// Returns the stored versions, latest first.
    pub fn module_versions(&self) -> Result<Vec<ModuleVersion>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare(
                "select number, at, cause, document from module_version order by number desc",
            )?;
            let versions = select.query_map([], |row| {
                let (number, at): (i64, i64) = (row.get(0)?, row.get(1)?);
                let cause = row.get(2)?;
                let document = row.get(3)?;
                Ok(ModuleVersion {
                    number: read(number),
                    at: read(at),
                    cause,
                    document,
                    components: parts(connection, number)?,
                })
            })?;
            versions.collect()
        })
    }

    /// Returns the bytes of a component, if it is stored.
    pub fn component(&self, digest: &ComponentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        let select = "select bytes from component where digest = ?1";
        self.read(|connection| {
            connection
                .query_row(select, params![digest], |row| row.get(0))
                .optional()
        })
    }

    /// Returns the overrides with the names of their modules.
    pub fn module_overrides(&self) -> Result<BTreeSet<(String, ModuleOverride)>, StoreError> {
        self.read(|connection| {
            let mut select =
                connection.prepare("select name, kind, digest from module_override")?;
            let overrides = select.query_map([], |row| {
                let (kind, digest): (String, Option<ComponentDigest>) = (row.get(1)?, row.get(2)?);
                Ok((row.get(0)?, ModuleOverride::read(&kind, digest)))
            })?;
            // An override that this Peal does not know must not hide the others.
            let known = overrides.filter_map(|read| {
                read.map(|(name, module_override)| Some((name, module_override?)))
                    .transpose()
            });
            known.collect()
        })
    }

    /// Replaces all overrides.
    pub fn override_modules(
        &self,
        overrides: &BTreeSet<(String, ModuleOverride)>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute("delete from module_override", [])?;
            let insert =
                "insert or replace into module_override (name, kind, digest) values (?1, ?2, ?3)";
            let keep = |(name, module_override): &(String, ModuleOverride)| {
                transaction
                    .execute(
                        insert,
                        params![name, module_override.word(), module_override.digest()],
                    )
                    .map(drop)
            };
            overrides.iter().try_for_each(keep)
        })
    }
}

/// Drops components that no version uses, except for `but`.
fn drop_components<'a>(
    connection: &Connection,
    but: impl Iterator<Item = &'a [u8]>,
) -> rusqlite::Result<()> {
    let but: Vec<&[u8]> = but.collect();
    let mut select = connection.prepare(
        "select digest from component where digest not in (select digest from module_part)",
    )?;
    let unused: Vec<Vec<u8>> = select
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // Compared here: SQL has no parameter for a list of any length.
    for digest in unused
        .iter()
        .filter(|digest| !but.contains(&digest.as_slice()))
    {
        connection.execute("delete from component where digest = ?1", params![digest])?;
    }
    Ok(())
}

fn parts(connection: &Connection, version: i64) -> rusqlite::Result<Vec<ModulePart>> {
    let select = "select digest, signature from module_part where version = ?1 order by place";
    let mut select = connection.prepare_cached(select)?;
    let part = |row: &Row<'_>| {
        Ok(ModulePart {
            digest: row.get(0)?,
            signature: row.get(1)?,
        })
    };
    select.query_map([version], part)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreSettings;

    #[test]
    fn latest_versions_are_kept_with_their_components() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(&dir.path().join("store.db"), StoreSettings::default()).unwrap();
        let store = open();
        let one = [1; 32];
        let two = [2; 32];
        let three = [3; 32];
        let keep =
            |store: &Store, document: &str, components: &[(ComponentDigest, &'static [u8])], at| {
                // Those with odd digests are signed.
                let signature = |digest: &ComponentDigest| (digest[0] % 2 == 1).then_some("signed");
                let part = |(digest, bytes): &(ComponentDigest, &'static [u8])| NewPart {
                    digest: *digest,
                    bytes,
                    signature: signature(digest),
                };
                let components: Vec<NewPart<'_>> = components.iter().map(part).collect();
                store
                    .keep_modules(
                        NewVersion {
                            cause: "start",
                            document,
                            components: &components,
                        },
                        at,
                        2,
                    )
                    .unwrap()
            };
        let first = keep(&store, "a", &[(one, b"one"), (two, b"two")], 10);
        let second = keep(&store, "b", &[(two, b"two"), (one, b"one")], 20);
        assert_eq!(store.module_versions().unwrap().len(), 2);
        let third = keep(&store, "c", &[(three, b"three"), (three, b"three")], 30);
        drop(store);
        let store = open();
        let versions = store.module_versions().unwrap();
        let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
        assert_eq!(numbers, [third, second]);
        assert!(first < second && second < third);
        assert_eq!((versions[1].document.as_str(), versions[1].at), ("b", 20));
        let unsigned = ModulePart {
            digest: two,
            signature: None,
        };
        let signed = ModulePart {
            digest: one,
            signature: Some("signed".to_owned()),
        };
        assert_eq!(versions[1].components, [unsigned, signed], "in their order");
        assert_eq!(store.component(&one).unwrap().as_deref(), Some(&b"one"[..]));
        let fourth = keep(&store, "d", &[(three, b"three")], 40);
        assert!(fourth > third);
        assert_eq!(
            store.component(&one).unwrap(),
            None,
            "nothing names it any more"
        );
        assert_eq!(
            store.component(&three).unwrap().as_deref(),
            Some(&b"three"[..])
        );
    }

    #[test]
    fn settings_of_administrators_persist() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(&dir.path().join("store.db"), StoreSettings::default()).unwrap();
        assert!(open().module_overrides().unwrap().is_empty());
        let overrides = BTreeSet::from([
            ("night".to_owned(), ModuleOverride::Disabled),
            ("quota".to_owned(), ModuleOverride::Disabled),
            ("quota".to_owned(), ModuleOverride::Promoted([7; 32])),
        ]);
        open().override_modules(&overrides).unwrap();
        assert_eq!(open().module_overrides().unwrap(), overrides);
        open().override_modules(&BTreeSet::new()).unwrap();
        assert!(open().module_overrides().unwrap().is_empty());
    }
}
