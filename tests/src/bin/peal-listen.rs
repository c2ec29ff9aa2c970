//! Waits for one event of a code, and prints its source.
use anyhow::{Context, Result};
use peal_client::{ClassFilter, Client, Handler, HandlerOutcome};
use peal_model::{Status, code};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let wanted = Status(
        std::env::args()
            .nth(1)
            .context("missing argument: the code of the event")?
            .parse()?,
    );
    let client = Client::init().await?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        // The first event is enough.
        let _ = tell.send(call.event().source.clone());
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(&[wanted], &ClassFilter::Both.directives(), handler)
        .await?;
    println!("ready");
    let source = told
        .recv()
        .await
        .context("the server is gone")?
        .context("the event has no source")?;
    println!("heard {wanted} from {source}");
    client.finalize().await?;
    Ok(())
}
