//! Signer of a trail: the only code that has its secret key. In `peal serve` it is a process of its
//! own, without clients and without modules.
//!
//! It signs only what extends the trail. For that it keeps the head of the hash chain, follows the
//! chain itself for each record, and never returns to an earlier head. For records that are dropped
//! it checks kind and age. So a server that was taken over can neither rewrite what was sealed nor
//! have a record called dropped that had to stay.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | requests and replies |
//! | `state` | rules by which requests are signed or refused |
//! | `service` | loop of the signer's process |
//! | `client` | the server's end; it signs itself where there is no process |

mod client;
pub mod message;
mod service;
mod state;

pub(crate) use client::OpenSigner;
pub use client::{SignerError, TrailSigner};
pub use service::{SignerMemory, SignerServiceError, serve_signer};
pub use state::{SealedHeads, SignerRules, SignerState};
