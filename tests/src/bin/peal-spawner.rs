//! Spawns as many procs of a shell as its argument says, each of which ends at once. Prints the
//! result, and the directives for spawn that its server supports.
//!
//! `peal run -n 1 -- target/debug/peal-spawner 2`
use anyhow::{Context, Result};
use peal_client::{Client, Handler, HandlerOutcome};
use peal_model::{App, Info, Infos, Query, Status, Value, code, key};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let procs = std::env::args()
        .nth(1)
        .context("missing argument: the number of procs")?
        .parse()
        .context("that is no number of procs")?;
    let client = Client::init().await?;
    let (tell, mut ends) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        let status = match call.event().infos.value_of(key::PMIX_JOB_TERM_STATUS) {
            Some(Value::Status(status)) => *status,
            _ => code::PMIX_ERR_NOT_FOUND,
        };
        // The receiver exists as long as the program does.
        let _ = tell.send(status);
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client
        .register(&[code::PMIX_EVENT_JOB_END], &[], handler)
        .await?;
    let app = App {
        command: Some("/bin/sh".into()),
        args: ["sh", "-c", "exit 0"].map(|word| Some(word.into())).into(),
        env: Vec::new(),
        cwd: None,
        max_procs: procs,
        infos: Vec::new(),
    };
    match client
        .spawn(
            &[Info::new(key::PMIX_NOTIFY_COMPLETION, Value::Bool(true))],
            &[app],
        )
        .await
    {
        Ok(_) => println!(
            "it runs, and ended: {}",
            ends.recv().await.unwrap_or(Status(-1))
        ),
        Err(error) => println!("it does not run: {error}"),
    }
    let query = Query {
        keys: vec![Some(key::PMIX_QUERY_SPAWN_SUPPORT.0.into())],
        qualifiers: Vec::new(),
    };
    for info in client.query(&[query]).await?.infos {
        println!("honoured: {}", info.value.as_str().unwrap_or_default());
    }
    Ok(client.finalize().await?)
}
