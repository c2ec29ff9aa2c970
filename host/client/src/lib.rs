//! The PMIx client core on tokio, thin: init from the environment, put, commit, fence, get, events, finalize, on the same
//! wire as every other client.
//!
//! ```no_run
//! # async fn example() -> Result<(), peal_client::ClientError> {
//! use peal_client::{Client, Handler, Outcome};
//! use peal_model::{Range, Status, code};
//!
//! let client = Client::init().await?;
//! let handler = Handler::native(|call| {
//!     println!("{} from {:?}", call.event().code, call.event().source);
//!     Outcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
//! });
//! client.register(&[Status(-3001)], &[], handler).await?;
//! client.notify(Status(-3001), Range::Namespace, Vec::new()).await?;
//! client.fence(&[], &[]).await?;
//! client.finalize().await
//! # }
//! ```

mod client;
mod data;
mod environment;
mod error;
mod events;
mod link;

pub use client::Client;
pub use environment::Environment;
pub use error::ClientError;
pub use events::{Handler, HandlerCall};
pub use peal_core::{chain::Outcome, registration::RegistrationId};
