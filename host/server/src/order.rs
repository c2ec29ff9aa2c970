//! Who is answered first of those who are answered together, as at the end of a fence.
use crate::outbox::Outbox;
use peal_core::server::{Action, PeerId};
use std::collections::BTreeMap;

/// Puts the answers to clients on other processors first, where there is nothing but answers, which have no order among each other.
/// Those clients begin while the others are still written to. One on our own processor begins when we are done at the earliest; or
/// it takes the processor from us, and everybody behind it waits.
pub(crate) fn far_first(actions: &mut [Action], outboxes: &BTreeMap<PeerId, Outbox>) {
    let is_answer = |action: &Action| matches!(action, Action::Reply { .. });
    if actions.len() < 2 || !actions.iter().all(is_answer) {
        return;
    }
    let here = Some(rustix::thread::sched_getcpu());
    actions.sort_by_cached_key(|action| match action {
        Action::Reply { to, .. } => outboxes.get(&to.peer).is_some_and(|outbox| outbox.line.cpu() == here),
        _ => false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::of_release_4;
    use peal_core::server::RequestId;
    use peal_model::{Reply, code};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::{io::Write, sync::Arc};
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
        sync::mpsc,
    };

    fn stay_on(cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).unwrap();
    }

    /// What is for a client that has spoken from this processor, and its end of the connection.
    async fn from(cpu: usize) -> (Outbox, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let speak = move || {
            stay_on(cpu);
            let mut client = std::net::TcpStream::connect(addr).unwrap();
            client.write_all(b"!").unwrap();
            client
        };
        let client = std::thread::spawn(speak).join().unwrap();
        let mut stream: TcpStream = listener.accept().await.unwrap().0;
        stream.read_u8().await.unwrap();
        let line = of_release_4(stream.into_split().1, 1);
        (Outbox { queue: mpsc::channel(1).0, line: Arc::new(line) }, client)
    }

    fn answer(peer: u64) -> Action {
        Action::Reply { to: RequestId { peer: PeerId(peer), tag: 101 }, reply: Reply::Status(code::PMIX_SUCCESS) }
    }

    #[tokio::test]
    async fn clients_on_other_processors_are_answered_first_and_nothing_but_answers_is_put_in_another_order() {
        let allowed = sched_getaffinity(None).unwrap();
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(here), Some(there)) = (cpus.next(), cpus.next()) else { return };
        stay_on(here);
        let (mut outboxes, mut clients) = (BTreeMap::new(), Vec::new());
        for (peer, cpu) in [(1, here), (2, there), (3, here), (4, there)] {
            let (outbox, client) = from(cpu).await;
            outboxes.insert(PeerId(peer), outbox);
            clients.push(client);
        }
        let mut answers: Vec<Action> = [4, 3, 2, 1].map(answer).into();
        far_first(&mut answers, &outboxes);
        assert_eq!(answers, [4, 2, 3, 1].map(answer));
        let mut mixed = vec![answer(3), Action::Pause { peer: PeerId(3) }, answer(4)];
        far_first(&mut mixed, &outboxes);
        assert_eq!(mixed, [answer(3), Action::Pause { peer: PeerId(3) }, answer(4)]);
    }
}
