//! Resolution of names of nodes, compared with a model that counts, and bounded for any text.
use peal_core::job_control::nodes::{NodesError, expand};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn names(text: &str) -> Vec<String> {
    expand(text, 1000).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn ranges_keep_their_zeros_and_names_their_order() {
    assert_eq!(names("node[01-03]"), ["node01", "node02", "node03"]);
    assert_eq!(names("node[8-11]"), ["node8", "node9", "node10", "node11"]);
    assert_eq!(
        names("b,a[2],c[1,03-04]x"),
        ["b", "a2", "c1x", "c03x", "c04x"]
    );
    assert_eq!(names("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
    assert_eq!(names("node1, node[1-2]"), ["node1", "node2"], "each once");
    assert_eq!(names("[7].cluster.example"), ["7.cluster.example"]);
    assert_eq!(names("node[01-16]").len(), 16);
}

#[test]
fn invalid_node_text_is_refused_with_its_invalid_part() {
    let refused = |text: &str| expand(text, 1000).unwrap_err();
    for text in ["", ",", "a,,b", "a,"] {
        assert!(matches!(refused(text), NodesError::Nameless(_)), "{text:?}");
    }
    for text in ["a[1", "a]1[", "a1]", "a[1-[2]]", "a[1]]"] {
        assert!(matches!(refused(text), NodesError::Bracket(_)), "{text:?}");
    }
    for text in [
        "a[]",
        "a[x]",
        "a[3-1]",
        "a[1-2-3]",
        "a[-1]",
        "a[1-]",
        "a[1,]",
        "a[ 1]",
        "a[+1]",
        "a[1234567890]",
    ] {
        assert!(matches!(refused(text), NodesError::Range(_)), "{text:?}");
    }
    for text in ["a b", "a/b", "a;rm", "knöd[1]", "../[1-2]"] {
        assert!(matches!(refused(text), NodesError::Name(_)), "{text:?}");
    }
    let long = format!("{}[1-9]{}", "a".repeat(200), "b".repeat(60));
    assert!(matches!(refused(&long), NodesError::Name(_)));
    assert_eq!(
        refused("node[3-1]").to_string().split(';').next(),
        Some("\"3-1\" is no range of numbers")
    );
}

#[test]
fn more_than_may_be_are_refused_before_they_are_made() {
    for text in [
        "n[0-999999999]",
        "a[1-500],b[1-501]",
        "a[1-100]b[1-100]c[1-100]",
        "a[1-999,1-999]",
    ] {
        assert_eq!(
            expand(text, 1000),
            Err(NodesError::TooMany { most: 1000 }),
            "{text}"
        );
    }
    assert_eq!(expand("a[1-500],b[1-500]", 1000).unwrap().len(), 1000);
    assert_eq!(expand("a", 0), Err(NodesError::TooMany { most: 0 }));
}

#[test]
fn names_of_pmix_generate_regex_are_read() {
    // As release 4.2.2 makes them of node1,node2,node3 and its like.
    assert_eq!(names("pmix[node[1:1-3]]"), ["node1", "node2", "node3"]);
    assert_eq!(
        names("pmix[odin[3:9-10,17],thor]"),
        ["odin009", "odin010", "odin017", "thor"]
    );
    assert_eq!(names("pmix[a.b.c-12,a.b.c-13]"), ["a.b.c-12", "a.b.c-13"]);
    assert_eq!(names("pmix[[2:7].cluster]"), ["07.cluster"]);
    assert_eq!(names("raw:node1,login"), ["node1", "login"]);
    assert_eq!(expand("blob:", 10), Err(NodesError::Compressed));
    for text in ["pmix[n[x:1-2]]", "pmix[n[999:1-2]]", "n[1:1-2]"] {
        assert!(
            matches!(expand(text, 10), Err(NodesError::Range(_))),
            "{text:?}"
        );
    }
    assert_eq!(
        expand("pmix[n[1:0-9999]]", 100),
        Err(NodesError::TooMany { most: 100 })
    );
}

#[test]
fn regular_expressions_of_an_end_name_all_that_they_match() {
    assert_eq!(
        names("node(0[1-3]|1[0-1])"),
        ["node01", "node02", "node03", "node10", "node11"]
    );
    assert_eq!(names("^n\\d$").len(), 10);
    assert_eq!(
        names("r[1-2](a|b)?,login"),
        ["r1", "r1a", "r1b", "r2", "r2a", "r2b", "login"]
    );
    assert_eq!(names("x(1|2){1}"), ["x1", "x2"]);
    assert_eq!(names("n[01]{2}"), ["n00", "n01", "n10", "n11"]);
    for text in [
        "node.*",
        "node[0-9]+",
        "n(",
        "n\\",
        "(a b)",
        "n(é)",
        "n\\d{1000000}",
    ] {
        let refused = expand(text, 1000).unwrap_err();
        assert!(
            matches!(refused, NodesError::Pattern(_) | NodesError::Name(_)),
            "{text:?}: {refused}"
        );
    }
    for text in ["(a)?", "(){1000000000}"] {
        assert!(
            matches!(expand(text, 1000), Err(NodesError::Nameless(_))),
            "{text:?}"
        );
    }
    for text in ["n[0-9]{4}", "((a|b){30}){30}"] {
        assert_eq!(
            expand(text, 1000),
            Err(NodesError::TooMany { most: 1000 }),
            "{text:?}"
        );
    }
}

/// A part of a name, and how it is written: by itself, or as numbers of some width in brackets.
#[derive(Clone, Debug)]
enum Part {
    Plain(String),
    Numbers {
        first: u32,
        count: u32,
        width: usize,
    },
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[a-z._-]{1,4}".prop_map(Part::Plain),
        (0u32..200, 1u32..5, 1usize..4).prop_map(|(first, count, width)| Part::Numbers {
            first,
            count,
            width
        }),
    ]
}

proptest! {
    #[test]
    fn node_text_names_same_nodes_as_enumeration(items in prop::collection::vec(prop::collection::vec(part(), 1..4), 1..4)) {
        let mut text = Vec::new();
        let mut wanted = Vec::new();
        let mut seen = BTreeSet::new();
        for parts in &items {
            let written: String = parts.iter().map(|part| match part {
                Part::Plain(plain) => plain.clone(),
                Part::Numbers { first, count, width } => {
                    format!("[{first:0width$}-{}]", first + count - 1)
                }
            }).collect();
            text.push(written);
            // Counts like a clock: the last part is the fastest.
            let digits: Vec<u32> = parts.iter().map(|part| match part {
                Part::Plain(_) => 1,
                Part::Numbers { count, .. } => *count,
            }).collect();
            for at in 0..digits.iter().product::<u32>() {
                let mut left = at;
                let mut name: Vec<String> = Vec::new();
                for (part, base) in parts.iter().zip(&digits).rev() {
                    let digit = left % base;
                    left /= base;
                    name.push(match part {
                        Part::Plain(plain) => plain.clone(),
                        Part::Numbers { first, width, .. } => {
                            // The width is that of the first number as it is written.
                            let width = format!("{first:0width$}").len();
                            format!("{:0width$}", first + digit)
                        }
                    });
                }
                let name: String = name.into_iter().rev().collect();
                if seen.insert(name.clone()) {
                    wanted.push(name);
                }
            }
        }
        prop_assert_eq!(expand(&text.join(","), 100_000).unwrap(), wanted);
    }

    #[test]
    fn any_node_text_is_resolved_or_refused_within_bounds(text in "[a-c0-9\\[\\],-]{0,40}") {
        if let Ok(nodes) = expand(&text, 50) {
            prop_assert!(!nodes.is_empty() && nodes.len() <= 50);
            prop_assert!(nodes.iter().all(|node| !node.is_empty() && !node.contains(['[', ']', ','])));
            prop_assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
        }
    }
}
