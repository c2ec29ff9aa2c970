//! Services of the server's own host environment for jobs of other launchers.
use crate::{
    admin::JobRegistrar,
    host_environment::{HostEnvironment, UpcallFuture},
};
use peal_model::{Info, IofChannel, Proc, Query, Status, Text, UserIdentity};
use serde::{Deserialize, Serialize};

/// Proc or tool that pulls output, with its own id of the pull. Each message to it contains the id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Puller {
    /// Proc or tool.
    pub proc: Proc,
    /// Id of the pull.
    pub local_id: u64,
}

/// Pull of output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StreamPull {
    /// Proc or tool that pulls.
    pub puller: Puller,
    /// Procs whose output is pulled.
    pub sources: Vec<Proc>,
    /// Channels that are pulled.
    pub channels: IofChannel,
}

impl StreamPull {
    /// Id of the pull of a job that its puller has spawned. Client and server agree on it.
    pub const DEFAULT: u64 = 0;
}

/// Key of a query, with the answer of the server's own host environment.
#[derive(Clone, PartialEq, Debug)]
pub struct QueriedKey {
    /// The number of its query.
    pub query: usize,
    /// The key.
    pub key: Text,
    /// The answer.
    pub answer: KeyAnswer,
}

/// Answer to a key of a query.
#[derive(Clone, PartialEq, Debug)]
pub enum KeyAnswer {
    /// The whole answer.
    Known(Info),
    /// The part about the procs of this node, where the key is about procs of other nodes, too.
    OfNode(Info),
    /// None: the key is about a proc of another node.
    Elsewhere,
    /// None: the key is not known.
    Unknown,
}

impl KeyAnswer {
    /// Returns what is known.
    pub fn info(self) -> Option<Info> {
        match self {
            KeyAnswer::Known(info) | KeyAnswer::OfNode(info) => Some(info),
            KeyAnswer::Elsewhere | KeyAnswer::Unknown => None,
        }
    }
}

/// Services of the server's own host environment for jobs of other launchers.
pub trait LocalServices: HostEnvironment + JobRegistrar {
    /// Answers each key of queries, as far as this node knows.
    ///
    /// # Errors
    ///
    /// Fails if a query is wrong or has too many keys.
    fn query_node(
        &self,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<QueriedKey>>;

    /// Returns the query that each node answers for its own procs, for keys about procs of several nodes.
    fn query_of_node(&self, keys: &[Text], qualifiers: &[Info]) -> Query;

    /// Returns the answer to a key that nodes give together: `nodes` are their answers to
    /// [`LocalServices::query_of_node`], that of this node first. `known` is what this node knows of all
    /// nodes.
    fn combine(
        &self,
        queried: &Text,
        qualifiers: &[Info],
        known: Option<&Info>,
        nodes: &[Vec<Info>],
    ) -> Option<Info>;

    /// Begins a pull of output that another launcher delivers. Kept output comes before any later one,
    /// and may come before the reply to the requester.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` if a required directive is not honoured, and
    /// `PMIX_ERR_OUT_OF_RESOURCE` if there are too many pulls.
    fn pull_delivered(&self, pull: StreamPull, directives: &[Info]) -> Result<u64, Status>;

    /// Ends a pull, and returns its sources.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the puller has no such pull.
    fn end_pull(&self, puller: &Proc, id: u64) -> Result<Vec<Proc>, Status>;

    /// Keeps output that another launcher delivers, and returns its pullers. Empty output is the end
    /// of the stream.
    fn deliver(&self, source: &Proc, channel: IofChannel, output: &[u8]) -> Vec<Puller>;
}
