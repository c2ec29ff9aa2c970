//! Log, job control and queries: services of the server and its host environment.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Infos, Proc, Query, Reply, Request, code, key};
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of a query.
#[derive(Clone, PartialEq, Debug)]
pub struct Findings {
    /// Infos that answer it.
    pub infos: Vec<Info>,
    /// Flag that part of the information is missing (`PMIX_QUERY_PARTIAL_SUCCESS`).
    pub partial: bool,
}

impl Client {
    /// Writes to log channels (`PMIx_Log`, RFC "Logging extension"). The keys of `data` name the
    /// channels, such as `PMIX_LOG_STDERR`. With `PMIX_LOG_GENERATE_TIMESTAMP` among the
    /// directives, the time of this call is sent too.
    ///
    /// Returns the status of each channel that was tried, by its key, if some failed; a server of
    /// the C library never returns them.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`], with the same infos, if the server counts the whole request as
    /// failed.
    pub async fn log(&self, data: &[Info], directives: &[Info]) -> Result<Vec<Info>, ClientError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|now| now.as_secs())
            .unwrap_or_default();
        // Zero means no time: servers then add no `PMIX_LOG_TIMESTAMP`.
        let timestamp = if directives.is_true(key::PMIX_LOG_GENERATE_TIMESTAMP) {
            now
        } else {
            0
        };
        let log = Request::Log {
            timestamp,
            data: data.to_vec(),
            directives: directives.to_vec(),
        };
        match self.ask(log).await? {
            Reply::Infos { infos, .. } => Ok(infos),
            _ => Ok(Vec::new()),
        }
    }

    /// Controls procs (`PMIx_Job_control`, RFC "Job control and monitoring"); without targets, the
    /// caller's own job.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with the reasons if the server refuses it.
    pub async fn job_control(
        &self,
        targets: &[Proc],
        directives: &[Info],
    ) -> Result<Vec<Info>, ClientError> {
        let request = Request::JobControl {
            targets: targets.to_vec(),
            directives: directives.to_vec(),
        };
        match self.ask(request).await? {
            Reply::Infos { infos, .. } => Ok(infos),
            // A server of release 4.2.2 answers a success without results by the status alone.
            Reply::Status(_) => Ok(Vec::new()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::JobControl),
            }),
        }
    }

    /// Queries information (`PMIx_Query_info`). Unknown information is missing from the result.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] if none of the information is known.
    pub async fn query(&self, queries: &[Query]) -> Result<Findings, ClientError> {
        match self
            .ask(Request::Query {
                queries: queries.to_vec(),
            })
            .await
        {
            Ok(Reply::Infos { infos, .. }) => Ok(Findings {
                infos,
                partial: false,
            }),
            Ok(Reply::Status(_)) => Ok(Findings {
                infos: Vec::new(),
                partial: false,
            }),
            Ok(_) => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Query),
            }),
            // This status is an error code, so that a partial result comes as a refusal.
            Err(ClientError::Refused {
                status: code::PMIX_QUERY_PARTIAL_SUCCESS,
                infos,
                ..
            }) => Ok(Findings {
                infos,
                partial: true,
            }),
            Err(error) => Err(error),
        }
    }
}
