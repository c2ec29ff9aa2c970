//! Destinations of log requests, compared with an independent model that says of each channel
//! whether it is tried.
use peal_core::log::{
    AvailableChannels, ChannelRequirement, GatewayAvailability, LogArrival, LogDestination,
    LogOrigin, LogSettings, Logged, NextChannel, route,
};
use peal_model::{Info, InfoFlags, Key, KeyName, LogRequest, Status, Value, code, key};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc};

/// Three of the Standard's, one that only the host environment can know, and a site's own, which is one where it is served.
const KEYS: [KeyName; 5] = [
    key::PMIX_LOG_STDOUT,
    key::PMIX_LOG_LOCAL_SYSLOG,
    key::PMIX_LOG_JOB_RECORD,
    KeyName("pmix.log.future"),
    KeyName("site.log.board"),
];
const BOARD: usize = 4;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Answer {
    Written,
    Failed,
    Missing,
}

impl Answer {
    fn status(self) -> Status {
        match self {
            Answer::Written => code::PMIX_SUCCESS,
            Answer::Failed => code::PMIX_ERR_NO_PERMISSIONS,
            Answer::Missing => code::PMIX_ERR_NOT_AVAILABLE,
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    /// The channels that data name, and whether that info is flagged as required.
    data: Vec<(usize, bool)>,
    offered: Vec<usize>,
    /// The channels that the host environment reports.
    of_host: Vec<usize>,
    order: Vec<(usize, bool)>,
    once: Option<bool>,
    site_once: bool,
    answers: [Answer; 5],
    arrival: LogArrival,
}

fn cases() -> impl Strategy<Value = Case> {
    let some = || {
        proptest::sample::subsequence((0..KEYS.len()).collect::<Vec<_>>(), 0..=KEYS.len())
            .prop_shuffle()
    };
    let order = (some(), proptest::collection::vec(any::<bool>(), 5))
        .prop_map(|(channels, required)| channels.into_iter().zip(required).collect());
    let data = proptest::collection::vec((0..KEYS.len(), any::<bool>()), 0..6);
    let answer = prop_oneof![
        Just(Answer::Written),
        Just(Answer::Failed),
        Just(Answer::Missing)
    ];
    let origin = proptest::sample::select(vec![
        LogOrigin::Client,
        LogOrigin::OtherServer,
        LogOrigin::Host,
        LogOrigin::OtherHost,
    ]);
    let gateway = proptest::sample::select(vec![
        GatewayAvailability::NotElsewhere,
        GatewayAvailability::Elsewhere,
    ]);
    let arrival = (origin, gateway).prop_map(|(origin, gateway)| LogArrival {
        origin,
        gateway,
        ..LogArrival::default()
    });
    let served = (some(), some());
    (
        data,
        served,
        order,
        any::<Option<bool>>(),
        any::<bool>(),
        proptest::array::uniform5(answer),
        arrival,
    )
        .prop_map(
            |(data, (offered, of_host), order, once, site_once, answers, arrival)| Case {
                data,
                offered,
                of_host,
                order,
                once,
                site_once,
                answers,
                arrival,
            },
        )
}

/// The model of one case.
struct Model<'a>(&'a Case);

impl Model<'_> {
    /// Returns the channels that the data name. The site's own channel is payload if no module
    /// serves it.
    fn named(&self) -> impl Iterator<Item = (usize, bool)> {
        self.0
            .data
            .iter()
            .copied()
            .filter(|(channel, _)| *channel != BOARD || self.0.offered.contains(channel))
    }

    /// Returns the selected channels, in order.
    fn meant(&self) -> Vec<usize> {
        let Case {
            offered,
            of_host,
            order,
            arrival,
            ..
        } = self.0;
        let is_from_host =
            arrival.origin == LogOrigin::Host || arrival.origin == LogOrigin::OtherHost;
        let of_host = if is_from_host { &[] } else { &of_host[..] };
        let named: Vec<usize> = self.named().map(|(channel, _)| channel).collect();
        let all = if named.is_empty() {
            order
                .iter()
                .map(|(channel, _)| *channel)
                .chain(offered.iter().chain(of_host).copied())
                .collect()
        } else {
            named
        };
        let mut seen = BTreeSet::new();
        all.into_iter()
            .filter(|channel| seen.insert(*channel))
            .collect()
    }

    fn is_required(&self, channel: usize) -> bool {
        self.named().any(|named| named == (channel, true))
            || self.0.order.contains(&(channel, true))
    }

    fn is_once(&self) -> bool {
        self.0.once.unwrap_or(self.0.site_once)
    }

    /// Returns true if the channel at this position is tried: always, unless one channel is enough
    /// and an earlier one has written.
    fn is_tried(&self, at: usize) -> bool {
        let meant = self.meant();
        let written =
            |before: usize| self.answer(meant[before]) == Answer::Written && self.is_tried(before);
        self.is_required(meant[at]) || !self.is_once() || !(0..at).any(written)
    }

    /// Returns the result of a channel. It is missing if no destination may be tried.
    fn answer(&self, channel: usize) -> Answer {
        if self.writers(channel).is_empty() {
            Answer::Missing
        } else {
            self.0.answers[channel]
        }
    }

    /// Returns the possible destinations of a channel, in order.
    fn writers(&self, channel: usize) -> Vec<LogDestination> {
        let LogArrival {
            origin, gateway, ..
        } = &self.0.arrival;
        let is_served = self.0.offered.contains(&channel);
        // Standard output appears on the gateway.
        let for_gateway = !is_served || KEYS[channel] == key::PMIX_LOG_STDOUT;
        let is_first_hand = *origin == LogOrigin::Client || *origin == LogOrigin::Host;
        let mut writers = Vec::new();
        if for_gateway && is_first_hand && *gateway == GatewayAvailability::Elsewhere {
            writers.push(LogDestination::Gateway);
        }
        if is_served {
            writers.push(LogDestination::Module);
        } else if *origin == LogOrigin::Client || *origin == LogOrigin::OtherServer {
            writers.push(LogDestination::Host);
        }
        writers
    }

    /// Returns the destinations that are tried: none after one that knows the channel.
    fn asked(&self, channel: usize) -> Vec<LogDestination> {
        let mut writers = self.writers(channel);
        if self.0.answers[channel] != Answer::Missing {
            writers.truncate(1);
        }
        writers
    }

    fn tried(&self) -> Vec<usize> {
        let meant = self.meant();
        (0..meant.len())
            .filter(|at| self.is_tried(*at))
            .map(|at| meant[at])
            .collect()
    }

    /// Returns the status of the reply.
    fn status(&self) -> Status {
        let tried = self.tried();
        let answer = |channel: &usize| self.answer(*channel);
        let are = |what| {
            tried
                .iter()
                .filter(|channel| answer(channel) == what)
                .count()
        };
        let required_failed = tried
            .iter()
            .any(|channel| self.is_required(*channel) && answer(channel) != Answer::Written);
        if required_failed {
            return code::PMIX_ERR_OPERATION_FAILED;
        }
        match (
            are(Answer::Written),
            are(Answer::Failed),
            are(Answer::Missing),
        ) {
            (0, 0, _) => code::PMIX_ERR_NOT_AVAILABLE,
            (0, ..) => code::PMIX_ERROR,
            (_, 0, 0) => code::PMIX_SUCCESS,
            _ if self.is_once() => code::PMIX_SUCCESS,
            _ => code::PMIX_ERR_PARTIAL_SUCCESS,
        }
    }
}

/// Returns the channels that were tried with their destinations, and the status of the reply.
fn routed(case: &Case) -> (Vec<(Key, LogDestination)>, Status) {
    let named = case.data.iter().map(|(channel, required)| {
        let flags = if *required {
            InfoFlags::REQUIRED
        } else {
            InfoFlags::default()
        };
        Info {
            flags,
            ..Info::new(KEYS[*channel], Value::string("text"))
        }
    });
    let data = named
        .chain([Info::new(KeyName("app.progress"), Value::Int(5))])
        .collect();
    let directives = case
        .once
        .map(|once| Info::new(key::PMIX_LOG_ONCE, Value::Bool(once)))
        .into_iter()
        .collect();
    let request = LogRequest {
        source: None,
        identity: None,
        timestamp: None,
        data,
        directives,
    };
    let need = |required| {
        if required {
            ChannelRequirement::Required
        } else {
            ChannelRequirement::Optional
        }
    };
    let order = case
        .order
        .iter()
        .map(|(channel, required)| (KEYS[*channel].into(), need(*required)))
        .collect();
    let settings = LogSettings {
        order,
        once: case.site_once,
        ..LogSettings::default()
    };
    let keys = |channels: &[usize]| {
        channels
            .iter()
            .map(|channel| Key::from(KEYS[*channel]))
            .collect::<Vec<Key>>()
    };
    let available = AvailableChannels {
        of_modules: keys(&case.offered).into(),
        of_host: keys(&case.of_host),
    };
    let mut run = route(Arc::new(request), &available, &settings, &case.arrival).unwrap();
    let mut tried = Vec::new();
    loop {
        match run.advance() {
            NextChannel::Try(pending) => {
                let answer = KEYS
                    .iter()
                    .position(|key| *pending.channel() == *key)
                    .map(|at| case.answers[at])
                    .unwrap();
                tried.push((pending.channel().clone(), pending.writer()));
                run = pending.finish(answer.status(), Vec::new());
            }
            NextChannel::Done(Logged { status, steps }) => {
                let told: Vec<&str> = steps.iter().map(|step| &*step.name).collect();
                let meant: Vec<String> = Model(case)
                    .tried()
                    .iter()
                    .map(|channel| Key::from(KEYS[*channel]).to_string())
                    .collect();
                assert_eq!(told, meant, "one entry for each channel that was tried");
                return (tried, status);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(4096), ..ProptestConfig::default() })]
    #[test]
    fn requests_go_to_the_destination_of_the_model(case in cases()) {
        let model = Model(&case);
        let asked = |channel: usize| model.asked(channel).into_iter().map(move |writer| (Key::from(KEYS[channel]), writer));
        let tried: Vec<_> = model.tried().into_iter().flat_map(asked).collect();
        prop_assert_eq!(routed(&case), (tried, model.status()));
    }
}
