//! Signatures as minisign 0.11 makes them, and other texts.
use super::*;

const SIGNED: &[u8] = b"the quick component";
const KEY: &str = "RWTwSd/iavDgxzz7FiTeU4rdUxsJhVtrhwsRruPzD+mz135uWfQ8pPYT";
const UNTRUSTED: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
/// Of `minisign -S`.
const SIGNATURE: &str = "\
untrusted comment: signature from minisign secret key
RUTwSd/iavDgx88qef0ONUbm8jxVoOIPzhzflFdyv7hrlyVtth+9CQ0TlaMgMHwtMF+KGt0Qm6Y1xhgRRpXpwJO4HwH2IpG/tgg=
trusted comment: a comment
qfoPjkiZZ/T1SxlyU/QyFxxqQYbgGEYwpV5OxbUiN0V1zuodBh+G5IF2FNb9NCnrZUtsDnW7fNii+/Fm4+ctBA==
";
/// Of `minisign -S -l`, of the same bytes.
const LEGACY: &str = "\
untrusted comment: signature from minisign secret key
RWTwSd/iavDgx0vn0D3kRj4o6SaVFCUcCKaxkAhczcq4B4et8O3/SPfiKZBOLwSg9cTIuWwz4W4bDGlc0LRUyPw+fyg8kM2rtA4=
trusted comment: timestamp:1795312622\tfile:f
/+Xs9KdNtV+u/qGgogr2Z4/GXnlJvd5BzvhoDjUkFT8+6mQzPP7Fvcu3QO0JWDC/YZvvnCyhmbJytNvoLE1CAA==
";

fn key(text: &str) -> TrustedKey {
    TrustedKey::parse(text).unwrap()
}

fn checked(text: &str, bytes: &[u8], keys: &[TrustedKey]) -> Result<Signer, SignatureError> {
    Signature::parse(text)?.signer(bytes, keys)
}

#[test]
fn signature_of_minisign_is_distinguished_from_others() {
    let keys = [key(UNTRUSTED), key(KEY)];
    let signer = checked(SIGNATURE, SIGNED, &keys).unwrap();
    assert_eq!(
        (signer.key, signer.comment.as_str()),
        (key(KEY), "a comment")
    );
    let id = key(KEY).id();
    assert_eq!(
        checked(SIGNATURE, SIGNED, &keys[..1]),
        Err(SignatureError::UntrustedKey(id))
    );
    assert_eq!(checked(LEGACY, SIGNED, &keys), Err(SignatureError::Legacy));
    assert_eq!(
        checked(SIGNATURE, b"the quick componenT", &keys),
        Err(SignatureError::Wrong(id))
    );
    assert_eq!(
        checked(SIGNATURE, b"", &keys),
        Err(SignatureError::Wrong(id))
    );
    // What is said of the bytes is signed as well; what minisign calls untrusted is not.
    assert_eq!(
        checked(&SIGNATURE.replace("a comment", "a Comment"), SIGNED, &keys),
        Err(SignatureError::Wrong(id))
    );
    assert!(checked(&SIGNATURE.replace("secret key", "nobody"), SIGNED, &keys).is_ok());
}

#[test]
fn any_change_of_signature_is_refused_without_panic() {
    let keys = [key(KEY)];
    let line = |number: usize| SIGNATURE.lines().nth(number).unwrap();
    for cut in 0..SIGNATURE.len() - 1 {
        assert!(
            checked(&SIGNATURE[..cut], SIGNED, &keys).is_err(),
            "cut at {cut}"
        );
    }
    for at in [1, 3] {
        for position in 0..line(at).len() {
            let mut changed = line(at).to_owned();
            let other = if changed.as_bytes()[position] == b'A' {
                "B"
            } else {
                "A"
            };
            changed.replace_range(position..=position, other);
            let text = SIGNATURE.replace(line(at), &changed);
            assert!(
                checked(&text, SIGNED, &keys).is_err(),
                "line {at}, {position}"
            );
        }
        for instead in ["", "AAAA", "====", "\u{202e}", &line(at).repeat(2)] {
            assert_eq!(
                checked(&SIGNATURE.replace(line(at), instead), SIGNED, &keys),
                Err(SignatureError::Format)
            );
        }
    }
    assert_eq!(Signature::parse("\n\n\n\n"), Err(SignatureError::Format));
}

#[test]
fn signature_requirement_follows_rules_of_owner() {
    let rules = Modules {
        require_signature: vec![ModuleOwner::Site, ModuleOwner::User],
        trusted_keys: vec![key(UNTRUSTED)],
        user_keys: vec![key(KEY)],
        ..Modules::default()
    };
    let signature = Signature::parse(SIGNATURE);
    let of = |owner| lacking(&rules, (owner, None), SIGNED, &signature);
    assert_eq!(
        (of(ModuleOwner::User), of(ModuleOwner::JobSupplied)),
        (None, None)
    );
    assert_eq!(
        of(ModuleOwner::Site).unwrap(),
        "must be signed (modules.require_signature has \"site\"): it is signed with key C7E0F06AE2DF49F0, which is not trusted \
         (modules.trusted_keys)"
    );
    let missing = Err(SignatureError::Missing("q.wasm.minisig".into()));
    let told = lacking(&rules, (ModuleOwner::User, None), SIGNED, &missing).unwrap();
    assert!(
        told.ends_with(
            "it is not signed: there is no q.wasm.minisig (`peal module sign` makes one)"
        ),
        "{told}"
    );
    let keyless = Modules {
        require_signature: vec![ModuleOwner::JobSupplied],
        ..Modules::default()
    };
    let told = lacking(
        &keyless,
        (ModuleOwner::JobSupplied, None),
        SIGNED,
        &signature,
    )
    .unwrap();
    assert!(
        told.ends_with("; no key is trusted yet: modules.trusted_keys"),
        "{told}"
    );
}

#[test]
fn a_signature_is_looked_for_beside_its_component() {
    let dir = tempfile::tempdir().unwrap();
    let component = dir.path().join("q.wasm");
    assert_eq!(
        Signature::beside(&component),
        Err(SignatureError::Missing(dir.path().join("q.wasm.minisig")))
    );
    std::fs::write(dir.path().join("q.wasm.minisig"), SIGNATURE).unwrap();
    assert_eq!(Signature::beside(&component).unwrap().key(), key(KEY).id());
    let flood = SIGNATURE.to_owned() + &" ".repeat(20_000);
    std::fs::write(dir.path().join("q.wasm.minisig"), flood).unwrap();
    let told = Signature::beside(&component).unwrap_err().to_string();
    assert!(told.ends_with("it has more than 16384 bytes"), "{told}");
    std::fs::remove_file(dir.path().join("q.wasm.minisig")).unwrap();
    std::fs::create_dir(dir.path().join("q.wasm.minisig")).unwrap();
    let told = Signature::beside(&component).unwrap_err().to_string();
    assert!(
        told.contains("cannot read its signature") && told.contains("regular file"),
        "{told}"
    );
}

#[test]
fn a_comment_stays_on_its_line() {
    assert_eq!(
        plain("timestamp:1\tfile:\"a\\b\"\u{1b}[2J\u{202e}"),
        "timestamp:1 file:\"a\\b\"\\u{1b}[2J\\u{202e}"
    );
}

#[test]
fn conditions_of_a_comment_are_read_as_they_are_written() {
    let expires = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_795_312_622);
    let conditions = SignatureConditions {
        module: Some("quota".to_owned()),
        version: None,
        expires: Some(expires),
    };
    let id = key(KEY).id();
    let of_comment = |comment: &str| SignatureConditions::of_comment(comment, id);
    let comment = conditions.after("reviewed by Ada");
    assert_eq!(comment, "reviewed by Ada\tmodule:quota\texpires:1795312622");
    assert_eq!(of_comment(&comment), Ok(conditions.clone()));
    let with_version = SignatureConditions {
        version: Some(semver::Version::new(1, 2, 0)),
        ..conditions.clone()
    };
    let comment = with_version.after("reviewed by Ada");
    assert_eq!(
        comment,
        "reviewed by Ada\tpeal-signature:2\tversion:1.2.0\tmodule:quota\texpires:1795312622"
    );
    assert_eq!(of_comment(&comment), Ok(with_version));
    assert_eq!(
        of_comment("peal-signature:3\tversion:1.2.0"),
        Err(SignatureError::LaterFormat { key: id, format: 3 })
    );
    assert_eq!(
        SignatureConditions::default().after("a comment"),
        "a comment"
    );
    for none in [
        "",
        "timestamp:1795312622\tfile:f\thashed",
        "a module:quota expires:1",
    ] {
        assert_eq!(
            of_comment(none),
            Ok(SignatureConditions::default()),
            "{none}"
        );
    }
    for nonsense in [
        "expires:",
        "expires:tomorrow",
        "expires:-1",
        "expires:99999999999999999999",
        "version:1.2",
        "version:",
        "peal-signature:two",
    ] {
        assert_eq!(
            of_comment(nonsense),
            Err(SignatureError::Conditions(id)),
            "{nonsense}"
        );
    }

    let past = expires - std::time::Duration::from_secs(1);
    assert_eq!(
        (conditions.at(past, id), conditions.of_module("quota", id)),
        (Ok(()), Ok(()))
    );
    assert_eq!(
        conditions.at(expires, id),
        Err(SignatureError::Expired { key: id, expires })
    );
    let other = SignatureError::OtherModule {
        key: id,
        module: "quota".to_owned(),
    };
    assert_eq!(conditions.of_module("quotas", id), Err(other));
}

#[test]
fn expired_signature_still_says_its_version() {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let trusted = [key(&pair.pk.to_base64())];
    let conditions = SignatureConditions {
        module: None,
        version: Some(semver::Version::new(2, 0, 0)),
        expires: Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1)),
    };
    let comment = conditions.after("a comment");
    let signed = minisign::sign(Some(&pair.pk), &pair.sk, SIGNED, Some(&comment), None).unwrap();
    let signature = Signature::parse(&signed.into_string()).unwrap();
    assert!(matches!(
        signature.signer(SIGNED, &trusted),
        Err(SignatureError::Expired { .. })
    ));
    assert_eq!(
        signature.verified(SIGNED, &trusted).unwrap().conditions,
        conditions
    );
    assert_eq!(signature.claimed_conditions(), Ok(conditions));
}
