//! Costs of operations of a job over many servers, as they follow from the form of the tree and the times of a message.

/// Time to send or to process a message, and time on the way, in nanoseconds.
pub const HANDLING: u64 = 5_000;
pub const LATENCY: u64 = 50_000;

/// Cost of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Messages between servers.
    pub messages: usize,
    /// Notices of the transport about a loss.
    pub notices: usize,
    /// Most messages that one server sent and received.
    pub most_at_one: usize,
    /// Nanoseconds until the last proc was answered or received the event.
    pub time: u64,
}

/// Computes the cost of a fence from the form of the tree alone.
pub fn computed_fence(servers: usize, fan_out: usize) -> Cost {
    let children = |server: usize| {
        let first = (server * fan_out + 1).min(servers);
        first..(first + fan_out).min(servers)
    };
    // Time at which each server has sent its contribution.
    let mut sent = vec![0; servers];
    for server in (0..servers).rev() {
        let mut arrivals: Vec<u64> = children(server).map(|n| sent[n] + LATENCY).collect();
        arrivals.sort_unstable();
        let handled = arrivals.iter();
        let handled = handled.fold(0, |free: u64, at| free.max(*at) + HANDLING);
        sent[server] = handled + if server == 0 { 0 } else { HANDLING };
    }
    // Time at which each server has the result.
    let mut known = vec![0; servers];
    known[0] = sent[0];
    for server in 0..servers {
        for (n, child) in children(server).enumerate() {
            let arrival = known[server] + (n as u64 + 1) * HANDLING + LATENCY;
            known[child] = arrival + HANDLING;
        }
    }
    let at_one = |server: usize| 2 * children(server).len() + if server == 0 { 0 } else { 2 };
    Cost {
        messages: 2 * (servers - 1),
        notices: 0,
        most_at_one: (0..servers).map(at_one).max().unwrap(),
        time: known.into_iter().max().unwrap(),
    }
}

/// Computes the cost of an event: one message to each other server.
pub fn computed_event(servers: usize) -> Cost {
    Cost {
        messages: servers - 1,
        notices: 0,
        most_at_one: servers - 1,
        time: servers as u64 * HANDLING + LATENCY,
    }
}

/// Computes the cost of the announcements, which all arrive at the same time.
pub fn computed_announcements(servers: usize) -> Cost {
    Cost {
        messages: servers * (servers - 1),
        notices: 0,
        most_at_one: 2 * (servers - 1),
        time: 2 * (servers as u64 - 1) * HANDLING + LATENCY,
    }
}
