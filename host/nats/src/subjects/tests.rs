//! Tests of subjects: each is written and parsed, and everything else is refused.
#![allow(clippy::unwrap_used, reason = "this is test code")]
use super::*;

fn subjects() -> ClusterSubjects {
    ClusterSubjects::new("site".parse().unwrap())
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// Each kind of subject, its text, and its sender.
fn all() -> Vec<(ClusterSubject, &'static str, &'static str)> {
    vec![
        (
            ClusterSubject::Broadcast { from: node("a") },
            "peal.site.from.a.all",
            "a",
        ),
        (
            ClusterSubject::Direct {
                from: node("a"),
                to: node("b"),
            },
            "peal.site.from.a.to.b",
            "a",
        ),
        (
            ClusterSubject::Member { node: node("a") },
            "peal.site.members.a",
            "a",
        ),
        (
            ClusterSubject::Verdict { by: node("a") },
            "peal.site.verdicts.a",
            "a",
        ),
        (
            ClusterSubject::Seal { node: node("a") },
            "peal.site.seals.a",
            "a",
        ),
        (
            ClusterSubject::Deployment { by: node("a") },
            "peal.site.deployments.a",
            "a",
        ),
        (
            ClusterSubject::Readiness { node: node("a") },
            "peal.site.readiness.a",
            "a",
        ),
        (
            ClusterSubject::Ask {
                to: node("b"),
                from: node("a"),
            },
            "peal.site.ask.b.a",
            "a",
        ),
        (
            ClusterSubject::Answer {
                to: node("a"),
                from: node("b"),
                request: u64::MAX,
            },
            "peal.site.inbox.a.b.18446744073709551615",
            "b",
        ),
    ]
}

#[test]
fn every_subject_is_written_and_parsed_with_its_sender() {
    for (subject, text, sender) in all() {
        assert_eq!(subjects().text(&subject), text);
        assert_eq!(subjects().parse(text), Ok(subject.clone()));
        assert_eq!(subject.sender().as_str(), sender, "{text}");
        // Names that are words of subjects are names all the same.
        let words: Vec<&str> = text
            .split('.')
            .map(|part| match part {
                "a" => "all",
                "b" => "to",
                part => part,
            })
            .collect();
        let words = words.join(".");
        assert_eq!(subjects().text(&subjects().parse(&words).unwrap()), words);
    }
}

#[test]
fn texts_near_a_subject_are_refused() {
    for (_, text, _) in all() {
        for near in [
            format!("{text}."),
            format!("{text}.x"),
            format!("x{text}"),
            format!(".{text}"),
            text.replace("site", "other"),
            text.replace("site", "sites"),
            text.replace("site.", "site"),
            text.replace(".a", ".*"),
            text.replace(".a", "."),
            text.replace(".a", ".a b"),
            text.replace("peal", "PEAL"),
        ] {
            assert!(near == text || subjects().parse(&near).is_err(), "{near:?}");
        }
    }
    for text in [
        "",
        "peal",
        "peal.site",
        "peal.site.from.a",
        "peal.site.from.a.to",
        "peal.site.sequenced",
        "peal.site.sequenced.members.a",
        "peal.site.inbox.a.b.-1",
        "peal.site.inbox.a.b.+1",
        "peal.site.inbox.a.b.01",
        "peal.site.inbox.a.b.18446744073709551616",
        "peal.site.administration.x",
        "$JS.API.STREAM.INFO.PEAL_site_MEMBERS",
    ] {
        assert!(subjects().parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn error_names_subject_and_cluster() {
    let error = subjects().parse("peal.other.from.a.all").unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"peal.other.from.a.all\" is no subject of messages in cluster site; one is peal.site.from.NODE.all or another of its subjects"
    );
    assert!(
        subjects()
            .parse(&"x".repeat(1 << 20))
            .unwrap_err()
            .to_string()
            .len()
            < 400
    );
}

/// Returns true if a pattern of NATS contains a subject.
fn contains(pattern: &str, subject: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('.'), subject.split('.'));
    loop {
        match (patterns.next(), parts.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(word), Some(part)) if word == part => {}
            _ => return false,
        }
    }
}

#[test]
fn patterns_contain_exactly_their_subjects() {
    let (subjects, a, b) = (subjects(), node("a"), node("b"));
    for (pattern, contained) in [
        (subjects.broadcasts(), vec!["peal.site.from.a.all"]),
        (subjects.messages_to(&b), vec!["peal.site.from.a.to.b"]),
        (subjects.messages_from(&a), vec!["peal.site.from.a.to.b"]),
        // Messages under their own subjects are sent there.
        (subjects.sequenced(), vec![]),
        (subjects.asks_to(&b), vec!["peal.site.ask.b.a"]),
        (subjects.asks_from(&a), vec!["peal.site.ask.b.a"]),
        (
            subjects.inbox(&a),
            vec!["peal.site.inbox.a.b.18446744073709551615"],
        ),
        (
            subjects.answers_from(&b),
            vec!["peal.site.inbox.a.b.18446744073709551615"],
        ),
        (subjects.messages_to(&a), vec![]),
        (subjects.asks_to(&a), vec![]),
        (subjects.inbox(&b), vec![]),
        (subjects.answers_from(&a), vec![]),
    ] {
        let found: Vec<&str> = all()
            .iter()
            .map(|(_, text, _)| *text)
            .filter(|text| contains(&pattern, text))
            .collect();
        assert_eq!(found, contained, "{pattern}");
    }
}
