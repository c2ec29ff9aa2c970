//! Names of clusters and of their nodes. Both are parts of subjects of NATS and names of files.
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 63;

/// Error for a text that is not a name of a cluster or node.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{text:?} is no name of a {kind}; one has 1 to {MAX_NAME} characters of A-Z, a-z, 0-9, _ and -"
)]
pub struct ClusterNameError {
    kind: &'static str,
    text: String,
}

/// Defines a type for the names of one kind of thing.
macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident $kind:literal;)+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ClusterNameError;

            fn from_str(text: &str) -> Result<Self, ClusterNameError> {
                if is_name(text) {
                    Ok($name(text.to_owned()))
                } else {
                    Err(ClusterNameError { kind: $kind, text: shown(text) })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = ClusterNameError;

            fn try_from(text: String) -> Result<Self, ClusterNameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+ };
}

names! {
    /// Name of a cluster: servers of one site that meet on NATS.
    ClusterName "cluster";
    /// Name of a node in its cluster, which has at most one server there.
    NodeName "node";
}

impl NodeName {
    /// Returns the name of the node with a host name: that name up to its first dot.
    ///
    /// # Errors
    ///
    /// Fails if that part is not a name of a node.
    pub fn from_hostname(hostname: &str) -> Result<NodeName, ClusterNameError> {
        hostname.split('.').next().unwrap_or_default().parse()
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the beginning of a text of any length, for an error.
fn shown(text: &str) -> String {
    text.chars().take(MAX_NAME + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_1_to_63_characters_of_their_alphabet() {
        for text in ["a", "n1", "rack-2_node", &"x".repeat(63)] {
            let name: NodeName = text.parse().unwrap();
            assert_eq!(name.as_str(), text);
            assert_eq!(
                ClusterName::try_from(text.to_owned()).unwrap().to_string(),
                text
            );
        }
        for text in [
            "",
            "a.b",
            "*",
            ">",
            "a b",
            "é",
            "a\n",
            "a/b",
            &"x".repeat(64),
        ] {
            assert!(text.parse::<NodeName>().is_err(), "{text:?}");
            assert!(text.parse::<ClusterName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn error_names_kind_text_and_valid_names() {
        let error = "a.b".parse::<ClusterName>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"a.b\" is no name of a cluster; one has 1 to 63 characters of A-Z, a-z, 0-9, _ and -"
        );
        let long = "x".repeat(1 << 20).parse::<NodeName>().unwrap_err();
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn node_is_first_part_of_hostname() {
        let name = |hostname| NodeName::from_hostname(hostname).map(String::from);
        assert_eq!(name("n1.example.org").as_deref(), Ok("n1"));
        assert_eq!(name("n1").as_deref(), Ok("n1"));
        assert!(name(".example.org").is_err() && name("").is_err());
    }
}
