//! What procs make known to all, by keys: publish, lookup, unpublish.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Key, Pdata, Reply, Request, Text};
use rustix::process::geteuid;

impl Client {
    /// Makes data known to others (`PMIx_Publish`): what among the infos has a key of the Standard, such as `PMIX_RANGE` and
    /// `PMIX_PERSISTENCE`, says to whom and for how long.
    pub async fn publish(&self, infos: &[Info]) -> Result<(), ClientError> {
        self.ask(Request::Publish {
            uid: geteuid().as_raw(),
            infos: infos.to_vec(),
        })
        .await
        .map(drop)
    }

    /// Looks published data up (`PMIx_Lookup`): what there is of these keys. With `PMIX_WAIT` it waits until so many of them are there
    /// (0: all), at most for `PMIX_TIMEOUT`.
    pub async fn lookup(&self, keys: &[Key], infos: &[Info]) -> Result<Vec<Pdata>, ClientError> {
        let lookup = Request::Lookup {
            uid: geteuid().as_raw(),
            keys: texts(keys),
            infos: infos.to_vec(),
        };
        match self.ask(lookup).await? {
            Reply::Published { data, .. } => Ok(data),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Lookup),
            }),
        }
    }

    /// Withdraws what we have published under these keys (`PMIx_Unpublish`), or all of it where there are none.
    pub async fn unpublish(&self, keys: &[Key], infos: &[Info]) -> Result<(), ClientError> {
        self.ask(Request::Unpublish {
            uid: geteuid().as_raw(),
            keys: texts(keys),
            infos: infos.to_vec(),
        })
        .await
        .map(drop)
    }
}

fn texts(keys: &[Key]) -> Vec<Option<Text>> {
    keys.iter().map(|key| Some(key.as_str().into())).collect()
}
