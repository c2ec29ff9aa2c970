//! Connect and disconnect of procs of several jobs.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Proc, Reply, Request};

impl Client {
    /// Connects these procs, which must include the caller, when all of them have called it
    /// (`PMIx_Connect`). Afterwards the caller knows the job data of their jobs and can get the
    /// values that they put. It receives an event when one of them ends without a disconnect.
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
            // The reply has no data where all procs belong to one job.
            Reply::Status(_) => Ok(()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Connect),
            }),
        }
    }

    /// Disconnects from connected procs when all of them have called it (`PMIx_Disconnect`).
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
