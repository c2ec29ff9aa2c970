//! A proc that waits for the loss of its server, and reports what it sees to a TCP address.
//!
//! `peal run -n 1 -- target/debug/peal-test-server-loss ADDRESS`
use anyhow::{Context, Result};
use peal_client::{Client, Handler, HandlerOutcome};
use peal_model::{Info, KeyName, Value, code, key};
use std::{
    io::Write,
    net::TcpStream,
    sync::{Arc, Mutex},
};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = std::env::args()
        .nth(1)
        .context("usage: peal-test-server-loss ADDRESS")?;
    let told = Arc::new(Mutex::new(TcpStream::connect(address)?));
    let tell =
        move |line: String| writeln!(told.lock().expect("the lock is never poisoned"), "{line}");
    let client = Client::init().await?;
    let server = client.server();
    let (heard, mut hear) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        // The program may have ended.
        let _ = heard.send(call.event().clone());
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(&[code::PMIX_ERR_LOST_CONNECTION], &[], handler)
        .await?;
    tell("ready".to_owned())?;
    // No proc puts this key.
    let patience = [Info::new(key::PMIX_TIMEOUT, Value::Int(600))];
    let open = client
        .get(client.me(), KeyName("test.never"), &patience)
        .await
        .err()
        .context("there is a value")?;
    tell(format!("the open call: {}", open.status()))?;
    let event = hear.recv().await.context("the client has ended")?;
    tell(format!(
        "the event: {}, about the server: {}",
        event.code,
        event.affected().first() == server.as_ref()
    ))?;
    let late = client
        .fence(&[], &[])
        .await
        .err()
        .context("a server has answered")?;
    tell(format!("a later call: {}", late.status()))?;
    Ok(())
}
