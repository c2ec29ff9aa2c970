//! A proc that saves its state when an event requests that, can be preempted, and prints the events
//! that it receives.
//!
//! `peal run -n 2 -- target/debug/peal-test-checkpoint [never]`; with `never` it never reports that
//! its state is saved.
use anyhow::Result;
use peal_client::{CheckpointMethod, Client, Control, Handler, HandlerOutcome};
use peal_model::{Range, code};
use std::io::Write;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let is_done = std::env::args().nth(1).as_deref() != Some("never");
    let say = |line: &str| std::io::stdout().write_all(format!("{line}\n").as_bytes());
    let client = Client::init().await?;
    let handler = Handler::native(move |call| {
        if call.event().code == code::PMIX_JCTRL_PREEMPT_ALERT {
            let _ = say("alerted");
        } else if is_done {
            let _ = say("saved");
            call.notify(code::PMIX_JCTRL_CHECKPOINT_COMPLETE, Range::Rm, Vec::new());
        }
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(
            &[code::PMIX_JCTRL_CHECKPOINT, code::PMIX_JCTRL_PREEMPT_ALERT],
            &[],
            handler,
        )
        .await?;
    client.control(&[], Control::Preemptible).await?;
    let methods = vec![CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT)];
    client
        .control(&[], Control::CheckpointMethods(methods))
        .await?;
    if let Some(checkpoint) = std::env::var_os("PEAL_CHECKPOINT") {
        say(&format!("goes on from {}", checkpoint.to_string_lossy()))?;
    }
    say("ready")?;
    std::future::pending().await
}
