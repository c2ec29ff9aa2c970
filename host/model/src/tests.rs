//! Tests of the vocabulary.
use crate::*;

#[test]
fn attribute_alias_has_the_key_of_its_attribute() {
    let aliases = [
        (
            key::PMIX_EVENT_ORDER_PREPEND,
            "PMIX_EVENT_ORDER_PREPEND",
            "PMIX_EVENT_HDLR_PREPEND",
        ),
        (
            key::PMIX_ADD_MEMBERS,
            "PMIX_ADD_MEMBERS",
            "PMIX_GROUP_ADD_MEMBERS",
        ),
    ];
    for (alias, name, canonical) in aliases {
        assert_eq!(
            Key::from(alias).standard_name(),
            Some(canonical),
            "keys are printed by the newer name"
        );
        assert!(
            names::ATTRIBUTES
                .iter()
                .any(|attribute| attribute.name == name && attribute.key == alias.0)
        );
    }
}

#[test]
fn statuses_print_their_standard_names() {
    assert_eq!(code::PMIX_ERR_TIMEOUT.to_string(), "PMIX_ERR_TIMEOUT (-24)");
    assert_eq!(format!("{:?}", code::PMIX_SUCCESS), "PMIX_SUCCESS (0)");
    assert_eq!(Status(-3005).to_string(), "-3005");
    assert_eq!(
        Status::PEAL_ERR_MODULE_TIMEOUT.to_string(),
        "PEAL_ERR_MODULE_TIMEOUT (-1000002)"
    );
}

#[test]
fn a_status_is_found_by_name_alias_and_number() {
    assert_eq!(Status::from_name("PMIX_ERR_TIMEOUT"), Some(Status(-24)));
    assert_eq!(
        Status::from_name("PMIX_ERR_LOST_SERVER_CONNECTION"),
        Some(code::PMIX_ERR_LOST_CONNECTION_TO_SERVER)
    );
    assert_eq!(Status::from_name("-3005"), Some(Status(-3005)));
    assert_eq!(Status::from_name("PMIX_NO_SUCH_THING"), None);
    assert_eq!(Status::from_name("PMIX_SCOPE_UNDEF"), None);
}

#[test]
fn procs_cover_by_rank_and_namespace() {
    let job = Nspace::new("job").unwrap();
    let all = Proc::all(job.clone());
    let one = Proc::new(job, Rank(1));
    assert!(all.covers(&one) && !one.covers(&all) && one.overlaps(&all));
    assert!(!all.covers(&Proc::new(Nspace::new("other").unwrap(), Rank(1))));
    assert_eq!(all.to_string(), "job:PMIX_RANK_WILDCARD");
}

#[test]
fn too_long_and_nul_are_refused_by_name() {
    let error = Nspace::new(&"x".repeat(256)).unwrap_err().to_string();
    assert_eq!(error, "namespace has 256 bytes; the limit is 255");
    assert!(Nspace::new(&"x".repeat(255)).is_ok());
    assert!(Key::new("a\0b").is_err());
}

#[test]
fn names_of_launchers_are_namespaces_of_jobs() {
    let names = [
        "prterun-host-1234@1",
        "slurm.pmix.123.0",
        "1234567",
        "prte.host:77@0",
        "a b",
        "f\u{192}2X",
        "-n",
        "solver*",
    ];
    for name in names {
        assert_eq!(
            Nspace::of_job(name).map(|job| job.to_string()).as_deref(),
            Ok(name)
        );
    }
}

#[test]
fn namespaces_with_control_characters_are_refused() {
    for character in [
        '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{202e}',
        '\u{2066}',
    ] {
        let text = format!("a{character}LD_PRELOAD=/evil.so");
        let character = IdentError::Character {
            text: text.clone(),
            character,
        };
        assert_eq!(Nspace::new(&text), Err(character));
    }
    assert!(
        Nspace::try_from("a\nb".to_owned()).is_err(),
        "nor is one that is deserialized"
    );
}

#[test]
fn job_names_not_usable_as_file_names_are_refused() {
    for name in ["", ".", "..", "a/b", "/", "../x"] {
        assert!(Nspace::of_job(name).is_err(), "{name:?}");
        assert!(
            Nspace::new(name).is_ok(),
            "{name:?}: a group may be called so"
        );
    }
    assert!(Nspace::of_job(&"x".repeat(256)).is_err());
}

#[test]
fn an_array_holds_one_type() {
    let mixed = DataArray::new(
        data_type::PMIX_BOOL,
        vec![Value::Bool(true), Value::Byte(1)],
    )
    .unwrap_err();
    assert_eq!(
        mixed.to_string(),
        "element 1 is a PMIX_BYTE (2), expected PMIX_BOOL (1)"
    );
}

#[test]
fn the_last_of_a_repeated_key_counts() {
    let infos = [
        Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true)),
        Info::new(key::PMIX_COLLECT_DATA, Value::Bool(false)),
    ];
    assert!(!infos.is_true(key::PMIX_COLLECT_DATA));
}

#[test]
fn enumerations_round_trip_and_refuse_the_unknown() {
    for range in Range::ALL {
        assert_eq!(Range::try_from(range.number()), Ok(*range));
    }
    assert_eq!(
        Range::try_from(9).unwrap_err().to_string(),
        "9 is not a pmix_data_range_t"
    );
    assert_eq!(Range::Namespace.to_string(), "PMIX_RANGE_NAMESPACE (3)");
}

#[test]
fn keys_of_any_length_are_equal_and_ordered_as_texts() {
    let texts: Vec<String> = (0..Key::MAX).map(|len| "k".repeat(len) + "z").collect();
    let keys: Vec<Key> = texts.iter().map(|text| Key::new(text).unwrap()).collect();
    for (text, key) in texts.iter().zip(&keys) {
        assert_eq!((key.as_str(), key.as_bytes()), (&**text, text.as_bytes()));
        for (other_text, other) in texts.iter().zip(&keys) {
            assert_eq!(key.cmp(other), text.cmp(other_text));
            assert_eq!(key == other, text == other_text);
        }
    }
    assert!(Key::new(&"k".repeat(Key::MAX + 1)).is_err());
    assert_eq!(Key::new("schlüssel").unwrap().as_str(), "schlüssel");
}
