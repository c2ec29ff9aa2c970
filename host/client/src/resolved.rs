//! Resolve peers and resolve nodes. Servers of releases before 5.0.7 support neither.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Nspace, Proc, Reply, Request, Text};

impl Client {
    /// Returns the procs of a job that are on a node (`PMIx_Resolve_peers`). Without a node it is
    /// the server's; without a job it is all jobs that the caller may know of. `PMIX_ERR_NOT_FOUND`
    /// if there are none.
    pub async fn resolve_peers(
        &self,
        node: Option<&str>,
        nspace: Option<&Nspace>,
    ) -> Result<Vec<Proc>, ClientError> {
        let peers = Request::ResolvePeers {
            node: node.map(Text::from),
            nspace: nspace.cloned(),
        };
        match self.ask(peers).await? {
            Reply::Procs { procs, .. } => Ok(procs),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::ResolvePeers),
            }),
        }
    }

    /// Returns the nodes on which a job has procs (`PMIx_Resolve_nodes`); without a job, those of
    /// all jobs that the caller may know of.
    pub async fn resolve_nodes(&self, nspace: Option<&Nspace>) -> Result<Vec<String>, ClientError> {
        match self
            .ask(Request::ResolveNode {
                nspace: nspace.cloned(),
            })
            .await?
        {
            Reply::Nodes {
                nodes: Some(nodes), ..
            } => {
                let nodes = nodes.as_str().unwrap_or_default().split(',');
                Ok(nodes
                    .filter(|node| !node.is_empty())
                    .map(str::to_owned)
                    .collect())
            }
            Reply::Nodes { nodes: None, .. } | Reply::Status(_) => Ok(Vec::new()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::ResolveNode),
            }),
        }
    }
}
