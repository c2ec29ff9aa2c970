//! What a program asks of the server and the host environment behind it: log, job control, queries.
use crate::{Call, Client, ClientError};
use peal_model::{CommandCode, Info, Infos, Proc, Query, Reply, Request, code, key};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a query found.
#[derive(Clone, PartialEq, Debug)]
pub struct Findings {
    /// The answers.
    pub infos: Vec<Info>,
    /// Whether something that was asked for is missing (`PMIX_QUERY_PARTIAL_SUCCESS`).
    pub partial: bool,
}

impl Client {
    /// Writes to log channels (`PMIx_Log`, RFC "Logging extension"): the keys of `data` name the channels, such as
    /// `PMIX_LOG_STDERR`. `PMIX_LOG_GENERATE_TIMESTAMP` among the directives sends the time of this call along.
    ///
    /// Returns what became of each channel that was tried, by its key and a status, where not all went well; a server of the C
    /// library never tells. So does [`ClientError::Refused`] where the whole counts as failed.
    pub async fn log(&self, data: &[Info], directives: &[Info]) -> Result<Vec<Info>, ClientError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|now| now.as_secs())
            .unwrap_or_default();
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

    /// Controls procs (`PMIx_Job_control`, RFC "Job control and monitoring"); without targets, our own job. If it is refused,
    /// [`ClientError::Refused`] holds the reasons.
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
            Reply::Status(_) => Ok(Vec::new()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::JobControl),
            }),
        }
    }

    /// Asks for information (`PMIx_Query_info`). What nobody knows is missing from the findings, unless nothing is known at
    /// all: that is an error.
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
