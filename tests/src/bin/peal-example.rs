//! A first PMIx program with Peal's own client. Each proc puts a greeting and reads that of its
//! neighbor. The first proc raises an event for the others. The counterpart of `tests/c/hello.c`.
//!
//! `peal run -n 4 -- target/debug/peal-example`
use anyhow::{Context, Result};
use peal_client::{Client, Handler, HandlerOutcome};
use peal_model::{Info, KeyName, Proc, Range, Rank, Scope, Status, Value, code};
use tokio::sync::mpsc;

const GREETING: KeyName = KeyName("hello.greeting");
const NEWS: KeyName = KeyName("hello.news");
/// First code that users may choose, less one: the base itself is not theirs.
const GOOD_NEWS: Status = Status(code::PMIX_EXTERNAL_ERR_BASE.0 - 1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::init().await?;
    let me = client.me().clone();
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        let source = call
            .event()
            .source
            .as_ref()
            .map(|source| source.rank.to_string())
            .unwrap_or_default();
        // The program may have ended already.
        let _ = tell.send(source);
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client.register(&[GOOD_NEWS], &[], handler).await?;

    client.put(
        Scope::Global,
        GREETING.into(),
        Value::string(&format!("hello from rank {}", me.rank)),
    );
    client.commit().await?;
    client.fence(&[], &[]).await?;

    let size = u32::try_from(client.peers().len() + 1)?;
    let neighbour = Proc::new(me.nspace.clone(), Rank((me.rank.0 + 1) % size));
    let greeting = client
        .get(&neighbour, GREETING, &[])
        .await
        .context("the neighbour's greeting")?;
    println!(
        "rank {} of {size}: my neighbour says {:?}",
        me.rank,
        greeting.as_str().unwrap_or_default()
    );

    if me.rank == Rank(0) {
        let info = Info::new(NEWS, Value::string("all are here"));
        client
            .notify(GOOD_NEWS, Range::Namespace, vec![info])
            .await?;
    }
    let source = told.recv().await.context("no event was received")?;
    println!("rank {}: heard good news from rank {source}", me.rank);
    client.fence(&[], &[]).await?;
    client.finalize().await?;
    Ok(())
}
