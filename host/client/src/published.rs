//! Publish, lookup and unpublish of data by keys.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Key, Pdata, Reply, Request, Text};
use rustix::process::geteuid;

impl Client {
    /// Publishes data (`PMIx_Publish`). Infos with keys of the Standard, such as `PMIX_RANGE` and
    /// `PMIX_PERSISTENCE`, are directives that set its range and lifetime.
    pub async fn publish(&self, infos: &[Info]) -> Result<(), ClientError> {
        self.ask(Request::Publish {
            uid: geteuid().as_raw(),
            infos: infos.to_vec(),
        })
        .await
        .map(drop)
    }

    /// Looks up published data of these keys (`PMIx_Lookup`). With `PMIX_WAIT` it waits until that
    /// many of them exist (0: all), at most for `PMIX_TIMEOUT`.
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

    /// Unpublishes the caller's data under these keys, or all of it if there are none
    /// (`PMIx_Unpublish`).
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
