//! What can go wrong for a client.
use peal_core::registration::RegistrationError;
use peal_model::Status;
use peal_wire::WireError;
use thiserror::Error;

/// Why a client's call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// A variable of the environment is missing: the program was not started by a PMIx server.
    #[error("{variable} is not set: start the program under a PMIx server, as with `peal run -n 4 -- PROGRAM`")]
    NotSet {
        /// Which one.
        variable: &'static str,
    },
    /// A variable of the environment cannot be understood.
    #[error("{variable} is {value:?}, it should be {wanted}")]
    BadVariable {
        /// Which one.
        variable: &'static str,
        /// As it is.
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server at {uri}: {source}")]
    Unreachable {
        /// Its address.
        uri: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The server closed the connection instead of welcoming us.
    #[error("the server at {uri} refused the connection; its own trace says why")]
    Refused {
        /// Its address.
        uri: String,
    },
    /// What was received or is to be sent is not as the protocol has it.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The connection to the server is gone.
    #[error("the connection to the server is lost")]
    Lost,
    /// The server answered something else than what was asked for.
    #[error("the server's answer does not fit the request")]
    UnfitAnswer,
    /// The registration is refused by the rules of order.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// No thread for handlers could be started.
    #[error("cannot start a thread for handlers: {0}")]
    Thread(std::io::Error),
    /// The server answered with an error.
    #[error("{0}")]
    Status(Status),
}

impl ClientError {
    /// The status that says it in the Standard's terms.
    pub fn status(&self) -> Status {
        use peal_model::code::*;
        match self {
            ClientError::NotSet { .. } | ClientError::BadVariable { .. } => PMIX_ERR_INIT,
            ClientError::Unreachable { .. } | ClientError::Refused { .. } => PMIX_ERR_UNREACH,
            ClientError::Wire(error) => error.status(),
            ClientError::Lost => PMIX_ERR_LOST_CONNECTION_TO_SERVER,
            ClientError::UnfitAnswer => PMIX_ERR_UNPACK_FAILURE,
            ClientError::Registration(error) => error.status(),
            ClientError::Thread(_) => PMIX_ERR_OUT_OF_RESOURCE,
            ClientError::Status(status) => *status,
        }
    }
}
