//! Output of procs that a client pulls, and input that it pushes to them (`PMIx_IOF_pull`,
//! `PMIx_IOF_push`).
use crate::{Call, Client, ClientError, lock};
use peal_model::{Bytes, CommandCode, Info, IofChannel, Proc, Reply, Request};
use peal_wire::IofOutput;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Receiver of output. It is called by the task that reads the connection, and must not block.
type OutputReceiver = Arc<dyn Fn(&IofOutput) + Send + Sync>;

/// Receivers of the output that servers send, shared by all connections of a client.
#[derive(Clone, Default)]
pub(crate) struct OutputPulls(Arc<Mutex<PullTable>>);

#[derive(Default)]
struct PullTable {
    last: u64,
    pulls: BTreeMap<u64, OutputPull>,
    /// Receiver of output that belongs to no pull.
    unclaimed: Option<OutputReceiver>,
}

struct OutputPull {
    receive: OutputReceiver,
    /// Id that the server gave the pull, once it has answered.
    remote_id: Option<u64>,
}

impl OutputPulls {
    /// Passes output to its receiver.
    pub(crate) fn deliver(&self, output: &IofOutput) {
        let receive = {
            let table = lock(&self.0);
            match table.pulls.get(&output.local_id) {
                Some(pull) => Some(pull.receive.clone()),
                None if output.local_id == 0 => table.unclaimed.clone(),
                // Output that was on its way when the pull ended.
                None => None,
            }
        };
        if let Some(receive) = receive {
            receive(output);
        }
    }

    fn add(&self, receive: OutputReceiver) -> u64 {
        let mut table = lock(&self.0);
        table.last = table.last.saturating_add(1);
        let id = table.last;
        table.pulls.insert(
            id,
            OutputPull {
                receive,
                remote_id: None,
            },
        );
        id
    }
}

/// Pull that the server has not confirmed yet. The drop removes it.
struct UnconfirmedPull<'a> {
    pulls: &'a OutputPulls,
    id: Option<u64>,
}

impl UnconfirmedPull<'_> {
    fn confirmed(mut self, remote_id: u64) {
        let id = self.id.take();
        let mut table = lock(&self.pulls.0);
        if let Some(pull) = id.and_then(|id| table.pulls.get_mut(&id)) {
            pull.remote_id = Some(remote_id);
        }
    }
}

impl Drop for UnconfirmedPull<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            lock(&self.pulls.0).pulls.remove(&id);
        }
    }
}

impl Client {
    /// Pulls the output of procs (`PMIx_IOF_pull`), and returns the id of the pull. `receive` may be
    /// called before this call returns. It must not block: meanwhile the client receives nothing.
    pub async fn pull_output(
        &self,
        sources: &[Proc],
        channels: IofChannel,
        directives: &[Info],
        receive: impl Fn(&IofOutput) + Send + Sync + 'static,
    ) -> Result<u64, ClientError> {
        let pulls = &self.session().queue.outputs;
        let id = pulls.add(Arc::new(receive));
        let pull = UnconfirmedPull {
            pulls,
            id: Some(id),
        };
        let request = Request::IofPull {
            sources: sources.to_vec(),
            directives: directives.to_vec(),
            channels,
            local_id: id,
        };
        match self.ask(request).await? {
            Reply::IofHandle { remote_id, .. } => {
                pull.confirmed(remote_id);
                Ok(id)
            }
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::IofPull),
            }),
        }
    }

    /// Ends a pull (`PMIx_IOF_deregister`). Output that is on its way is dropped.
    pub async fn end_pull(&self, id: u64, directives: &[Info]) -> Result<(), ClientError> {
        let removed = lock(&self.session().queue.outputs.0).pulls.remove(&id);
        let remote_id = removed.and_then(|pull| pull.remote_id);
        let remote_id = remote_id.ok_or(ClientError::NoSuchPull { id })?;
        let request = Request::IofDeregister {
            directives: directives.to_vec(),
            remote_id,
        };
        self.ask(request).await.map(drop)
    }

    /// Sets the receiver of output that belongs to no pull, such as that of a job that this tool
    /// spawned. It must not block.
    pub fn receive_unclaimed_output(&self, receive: impl Fn(&IofOutput) + Send + Sync + 'static) {
        lock(&self.session().queue.outputs.0).unclaimed = Some(Arc::new(receive));
    }

    /// Pushes input to procs (`PMIx_IOF_push`); `None` is its end.
    pub async fn push_input(
        &self,
        targets: &[Proc],
        directives: &[Info],
        data: Option<Bytes>,
    ) -> Result<(), ClientError> {
        let request = Request::IofPush {
            targets: targets.to_vec(),
            directives: directives.to_vec(),
            data,
        };
        self.ask(request).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank};
    use std::sync::mpsc;

    fn output(local_id: u64) -> IofOutput {
        IofOutput {
            source: Proc::new(Nspace::new("job").unwrap(), Rank(0)),
            channels: IofChannel(2),
            local_id,
            infos: Vec::new(),
            data: Bytes::from(&[1][..]),
        }
    }

    #[test]
    fn output_reaches_the_receiver_of_its_pull() {
        let pulls = OutputPulls::default();
        let (tell, told) = mpsc::channel();
        let receiver = |of: u64| -> OutputReceiver {
            let tell = tell.clone();
            Arc::new(move |output| tell.send((of, output.local_id)).unwrap())
        };
        let first = pulls.add(receiver(1));
        let second = pulls.add(receiver(2));
        pulls.deliver(&output(0));
        lock(&pulls.0).unclaimed = Some(receiver(0));
        drop(UnconfirmedPull {
            pulls: &pulls,
            id: Some(first),
        });
        for id in [first, second, 0] {
            pulls.deliver(&output(id));
        }
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(2, second), (0, 0)]);
    }
}
