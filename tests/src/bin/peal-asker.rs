//! A program that wants something from its server: a line logged to its job's output, and the end of a job that is not its
//! own. It tells what came of it.
//!
//! `peal run -n 1 --config docs/demo.toml -- target/debug/peal-asker`
use anyhow::Result;
use peal_client::Client;
use peal_model::{Info, Nspace, Proc, Value, key};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::init().await?;
    let line = Info::new(key::PMIX_LOG_STDOUT, Value::string("this line went through a log channel\n"));
    match client.log(&[line], &[]).await {
        Ok(()) => println!("my line was logged"),
        Err(error) => println!("my line was not logged: {error}"),
    }
    let others = Proc::all(Nspace::new("somebody-else")?);
    let kill = Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true));
    match client.job_control(&[others], &[kill]).await {
        Ok(_) => println!("the other job is killed"),
        Err(error) => println!("the other job stays: {error}"),
    }
    Ok(client.finalize().await?)
}
