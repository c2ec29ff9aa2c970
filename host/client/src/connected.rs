//! Procs of several jobs that stand for one another: connect, disconnect.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Proc, Reply, Request};

impl Client {
    /// Connects with these procs, ourselves among them, when all have called it (`PMIx_Connect`). From then on we know the job data of
    /// their jobs and may get what they have put, and hear when one of them ends without having disconnected.
    pub async fn connect_procs(&self, procs: &[Proc], infos: &[Info]) -> Result<(), ClientError> {
        let connect = Request::Connect {
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        };
        match self.ask(connect).await? {
            Reply::Connected { jobs, .. } => {
                let mut known = self.known();
                jobs.into_iter().for_each(|job| known.learn_job(job));
                Ok(())
            }
            Reply::Status(_) => Ok(()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Connect),
            }),
        }
    }

    /// Parts from procs with which we have connected, when all of them have called it (`PMIx_Disconnect`).
    pub async fn disconnect_procs(
        &self,
        procs: &[Proc],
        infos: &[Info],
    ) -> Result<(), ClientError> {
        self.ask(Request::Disconnect {
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        })
        .await
        .map(drop)
    }
}
