//! A program that sends two requests to its server: to log a line to its job's output, and to end a
//! job other than its own. It prints the results. With the address of a server it is a tool there,
//! and only requests the end of the job.
//!
//! `peal run -n 1 --config docs/demo.toml -- target/debug/peal-test-requests`
use anyhow::{Context, Result};
use peal_client::{AttachTarget, Client, Tool, ToolSettings};
use peal_model::{Info, Nspace, Proc, Value, key};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if let Some(uri) = std::env::args().nth(1) {
        let attach = AttachTarget::Uri(uri.parse().context("this is no address of a server")?);
        let tool = Tool::init(ToolSettings {
            attach,
            ..ToolSettings::read()?
        })
        .await?;
        kill_others(&tool).await?;
        return Ok(tool.finalize().await?);
    }
    let client = Client::init().await?;
    let line = Info::new(
        key::PMIX_LOG_STDOUT,
        Value::string("this line went through a log channel\n"),
    );
    match client.log(&[line], &[]).await {
        Ok(_) => println!("my line was logged"),
        Err(error) => println!("my line was not logged: {error}"),
    }
    kill_others(&client).await?;
    Ok(client.finalize().await?)
}

async fn kill_others(client: &Client) -> Result<()> {
    let others = Proc::all(Nspace::new("somebody-else")?);
    let kill = Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true));
    match client.job_control(&[others], &[kill]).await {
        Ok(_) => println!("the other job is killed"),
        Err(error) => println!("the other job stays: {error}"),
    }
    Ok(())
}
