//! `tests/c/invite.c` with Peal's own client: rank 0 invites the others to a group, and each prints
//! the result. Procs of both programs are in one job. With `stay`, all form a group and stay in it.
//! With `bootstrap`, the proc is added to a group that others form.
//!
//! `peal run -n 4 -- target/debug/peal-grouped accept`
use anyhow::{Context, Result, bail};
use peal_client::{
    AbsenceDecision, Client, ClientError, ConstructOptions, Group, Handler, HandlerOutcome, Invite,
    Invited, Join,
};
use peal_model::{Proc, Rank, Status, code};
use std::time::Duration;
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, UnboundedReceiver},
};

const GROUP: &str = "crew";
/// Time limit of things that must happen. It passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(15);

struct Program {
    client: Client,
    what: String,
    /// Rank that does not accept.
    other: Option<Rank>,
    heard: UnboundedReceiver<Status>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let what = std::env::args()
        .nth(1)
        .context("usage: peal-grouped ACTION [RANK]")?;
    let other = std::env::args()
        .nth(2)
        .map(|rank| rank.parse().map(Rank))
        .transpose()?;
    let client = Client::init().await?.within(PATIENCE);
    if what == "stay" {
        return stay(&client).await;
    }
    if what == "bootstrap" {
        return be_added(client).await;
    }
    let heard = listen(&client).await?;
    let mut program = Program {
        client,
        what,
        other,
        heard,
    };
    let group = if program.client.me().rank == Rank(0) {
        program.lead().await?
    } else {
        program.follow().await?
    };
    if let Some(group) = group {
        program.client.fence(&[group.all()?], &[]).await?;
        program.client.group_destruct(GROUP, &[]).await?;
        say(&program.client, "fence and destruct");
    }
    Ok(program.client.finalize().await?)
}

/// Forms a group of all procs and one of rank 0, and stays in them.
async fn stay(client: &Client) -> Result<()> {
    let me = client.me().clone();
    if me.rank == Rank(0) {
        client
            .group_construct("alone", ConstructOptions::of(std::slice::from_ref(&me)))
            .await?;
    }
    let all = ConstructOptions::of(&[Proc::all(me.nspace)]).context_id();
    client.group_construct(GROUP, all).await?;
    println!("ready");
    std::future::pending().await
}

/// Waits to be added to the group of `tests/c/group.c` by procs that it does not know.
async fn be_added(client: Client) -> Result<()> {
    let group = client
        .group_construct("ours", ConstructOptions::added())
        .await?;
    say(&client, &format!("added: {}", ranks(&group)));
    client.fence(&[group.all()?], &[]).await?;
    client.group_destruct(&group.name, &[]).await?;
    say(&client, "fence and destruct");
    Ok(client.finalize().await?)
}

fn say(client: &Client, what: &str) {
    println!("rank {}: {what}", client.me().rank);
}

/// Registers a handler for the events about groups, and returns their codes.
async fn listen(client: &Client) -> Result<UnboundedReceiver<Status>> {
    let (tell, heard) = mpsc::unbounded_channel();
    let handler = Handler::non_blocking(move |call| {
        // The program may have ended.
        let _ = tell.send(call.event().code);
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    let codes = [
        code::PMIX_GROUP_CONSTRUCT_COMPLETE,
        code::PMIX_GROUP_CONSTRUCT_ABORT,
    ];
    client.register(&codes, &[], handler).await?;
    Ok(heard)
}

impl Program {
    async fn lead(&mut self) -> Result<Option<Group>> {
        let client = &self.client;
        let last = Rank(u32::try_from(client.peers().len())?);
        let mut procs = client.peers();
        let mut invite = Invite::new();
        let mut fence_of_job = false;
        match self.what.as_str() {
            "accept" | "cancel" => {}
            "ignore" | "dies" => invite = invite.optional(),
            "replace" => {
                procs.retain(|proc| proc.rank != last);
                fence_of_job = true;
                let instead = Proc::new(client.me().nspace.clone(), last);
                let handler = Handler::native(move |call| {
                    call.decide(GROUP, &AbsenceDecision::Replace(vec![instead.clone()]));
                    HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
                });
                client
                    .register(&[code::PMIX_GROUP_INVITE_FAILED], &[], handler)
                    .await?;
            }
            other => bail!("{other:?} is nothing that can be done here"),
        }
        client.fence(&[], &[]).await?;
        // The other procs call this fence between the first invitation and the second.
        let meets = async {
            if fence_of_job {
                client.fence(&[], &[]).await
            } else {
                Ok(())
            }
        };
        let (invited, met) = tokio::join!(client.group_invite(GROUP, &procs, invite), meets);
        met?;
        self.tell("invites", invited).await
    }

    async fn follow(&mut self) -> Result<Option<Group>> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let client = self.client.clone();
        let runtime = Handle::current();
        let other = self.other;
        let what = self.what.clone();
        let handler = Handler::native(move |call| {
            let Some(invited) = Invited::of(call.event()) else {
                return HandlerOutcome::status(code::PMIX_ERROR);
            };
            let joined = match other == Some(client.me().rank) {
                false => runtime
                    .block_on(client.group_join(&invited, Join::new()))
                    .map(Some),
                true if what == "dies" => std::process::abort(),
                true => runtime
                    .block_on(client.group_decline(&invited))
                    .map(|()| None),
            };
            let _ = tell.send(joined);
            HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
        });
        self.client
            .register(&[code::PMIX_GROUP_INVITED], &[], handler)
            .await?;
        self.client.fence(&[], &[]).await?;
        if self.what == "replace" {
            self.client.fence(&[], &[]).await?;
        }
        match told.recv().await.context("no invitation came")? {
            Ok(None) => {
                say(&self.client, "declines");
                Ok(None)
            }
            Ok(Some(group)) => self.tell("joins", Ok(group)).await,
            Err(error) => self.tell("joins", Err(error)).await,
        }
    }

    /// Prints the result, and the event that reported the same.
    async fn tell(
        &mut self,
        what: &str,
        ended: Result<Group, ClientError>,
    ) -> Result<Option<Group>> {
        let heard = self.heard.recv().await.context("no event came")?;
        let (how, group) = match ended {
            Ok(group) => (ranks(&group), Some(group)),
            Err(error) => (error.status().to_string(), None),
        };
        say(&self.client, &format!("{what}: {how}, hears {heard}"));
        Ok(group)
    }
}

fn ranks(group: &Group) -> String {
    let ranks: Vec<String> = group
        .members
        .iter()
        .map(|member| member.rank.to_string())
        .collect();
    ranks.join(" ")
}
