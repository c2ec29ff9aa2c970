//! One server of a cluster, without I/O: it joins, meets the others, sends and receives, and joins again
//! after it was declared gone.
use crate::{
    ClusterMember, ClusterOutput, ClusterWarning, HeardServers, JoiningServer, LinkOutput,
    LinkSettings, Links, Liveness, LivenessSettings, Membership, MembershipChange,
    MembershipRecord, ProtocolVersion, RecordPosition, ServerFrame, ServerKind, ServerNotice,
    backlog::Backlog, decode_message, decode_record, encode_message,
};
use peal_core::{
    MonotonicTime, group::ServerId, server::InterServerMessage, user_scope::UserScope,
};
use peal_frames::FrameLimit;
use peal_model::{Event, NodeName};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Bytes of a frame beside those of a part of a message.
const AROUND_PART: usize = 256;

/// Settings of a server of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterServerSettings {
    /// Limits and times of links.
    pub links: LinkSettings,
    /// Times of liveness.
    pub liveness: LivenessSettings,
    /// Maximum bytes of the events that wait for one server that acknowledges nothing.
    pub max_waiting_event_bytes: usize,
}

impl Default for ClusterServerSettings {
    fn default() -> ClusterServerSettings {
        ClusterServerSettings {
            links: LinkSettings::default(),
            liveness: LivenessSettings::default(),
            max_waiting_event_bytes: 64 << 20,
        }
    }
}

/// Connection of the server to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum NetworkPhase {
    /// The network is not reached.
    #[default]
    Away,
    /// The sequence is being read.
    Reading,
    /// All records are known, and new ones come by themselves.
    Following,
}

/// Place of this server in the cluster.
#[derive(Debug, Serialize, Deserialize)]
enum Enrollment {
    /// It has none.
    Outside,
    /// The record of its join was written and is awaited.
    Asked,
    /// It is a member.
    Member(Box<MemberState>),
    /// It stays away: it has left, or another process has taken its place.
    Withdrawn,
}

/// Change of the other servers by one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OtherServers {
    Same,
    /// One has joined, whose number is greater than all others.
    OneMore(ServerId),
    Changed,
}

/// State of a server that is a member.
#[derive(Debug, Serialize, Deserialize)]
struct MemberState {
    id: ServerId,
    links: Links,
    liveness: Liveness,
    heard: Option<HeardServers>,
    backlogs: BTreeMap<ServerId, Backlog>,
    /// Messages of servers for which there was no room.
    held: BTreeMap<ServerId, VecDeque<InterServerMessage>>,
    /// Other servers that this one was told of.
    known: BTreeSet<ServerId>,
    /// Servers that were declared gone by a record that is on its way.
    judged: BTreeSet<ServerId>,
    beat_at: MonotonicTime,
}

/// Records of this server in the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum OwnRecords {
    Kept,
    /// Something was stored under the name of this node that is no record. The network keeps a number of
    /// records of each writer, so that it may displace those of this server.
    Endangered,
}

/// One server of a cluster.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClusterServer {
    node: NodeName,
    joining: JoiningServer,
    #[serde(skip)]
    settings: ClusterServerSettings,
    membership: Membership,
    #[serde(skip)]
    phase: NetworkPhase,
    enrollment: Enrollment,
    own_records: OwnRecords,
    #[serde(with = "notices")]
    outputs: VecDeque<PendingOutput>,
}

/// Form of the outputs that were not taken: the notices for the server. All others are made anew, as after a lost
/// connection.
mod notices {
    use super::PendingOutput;
    use crate::{ClusterOutput, ServerNotice};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::VecDeque;

    pub(super) fn serialize<S: Serializer>(
        outputs: &VecDeque<PendingOutput>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let notices: Vec<&ServerNotice> = outputs
            .iter()
            .filter_map(|output| match output {
                PendingOutput::Whole(ClusterOutput::Tell(notice)) => Some(notice),
                PendingOutput::Whole(_) | PendingOutput::Frame(_) => None,
            })
            .collect();
        serializer.collect_seq(notices)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<VecDeque<PendingOutput>, D::Error> {
        let notices: Vec<ServerNotice> = Vec::deserialize(deserializer)?;
        let tell = |notice| PendingOutput::Whole(ClusterOutput::Tell(notice));
        Ok(notices.into_iter().map(tell).collect())
    }
}

/// Result of a call that was not taken yet.
#[derive(Debug)]
enum PendingOutput {
    Whole(ClusterOutput),
    /// It is encoded when it is taken: those of an event for a thousand servers share its bytes.
    Frame(ServerFrame),
}

impl ClusterServer {
    /// Returns the server of a node, which has not joined yet.
    pub fn new(
        node: NodeName,
        joining: JoiningServer,
        settings: ClusterServerSettings,
    ) -> ClusterServer {
        ClusterServer {
            node,
            joining,
            settings,
            membership: Membership::new(),
            phase: NetworkPhase::Away,
            enrollment: Enrollment::Outside,
            own_records: OwnRecords::Kept,
            outputs: VecDeque::new(),
        }
    }

    /// Goes on as the server of another process of this node, which it was before it was encoded. The network is
    /// not reached yet. The limits of links stay until the next join.
    pub fn continued(mut self, settings: ClusterServerSettings) -> ClusterServer {
        self.settings = settings;
        self.disconnected();
        if let Enrollment::Member(member) = &self.enrollment {
            // The connection of this process hears nobody yet.
            let heard = member.heard.clone();
            self.outputs
                .extend(heard.map(|heard| PendingOutput::Whole(ClusterOutput::Hear(heard))));
        }
        self
    }

    /// Returns the node of the server.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Returns the data with which it joins.
    pub fn joining(&self) -> &JoiningServer {
        &self.joining
    }

    /// Notes that the network is reached. All records that follow [`ClusterServer::position`] come
    /// next, by [`ClusterServer::record`].
    pub fn connected(&mut self, now: MonotonicTime) {
        self.phase = NetworkPhase::Reading;
        if let Enrollment::Member(member) = &mut self.enrollment {
            member.liveness.connect(now);
            member.judged.clear();
        }
    }

    /// Notes that beats of others may have been dropped before this server heard them.
    pub fn beats_missed(&mut self, now: MonotonicTime) {
        if let Enrollment::Member(member) = &mut self.enrollment {
            member.liveness.connect(now);
        }
    }

    /// Notes that the network is not reached.
    pub fn disconnected(&mut self) {
        self.phase = NetworkPhase::Away;
        match &mut self.enrollment {
            Enrollment::Member(member) => member.liveness.disconnect(),
            // Whether the record was written is seen when the sequence is read again.
            Enrollment::Asked => self.enrollment = Enrollment::Outside,
            Enrollment::Outside | Enrollment::Withdrawn => {}
        }
    }

    /// Notes that all records are known. A server that is no member joins.
    pub fn caught_up(&mut self) {
        self.phase = NetworkPhase::Following;
        self.join();
    }

    /// Returns the position of the last record.
    pub fn position(&self) -> RecordPosition {
        self.membership.last()
    }

    /// Returns the servers of the cluster.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the number of this server, if it is a member.
    pub fn id(&self) -> Option<ServerId> {
        match &self.enrollment {
            Enrollment::Member(member) => Some(member.id),
            _ => None,
        }
    }

    /// Processes the next record of the sequence, which this node has written.
    pub fn record(
        &mut self,
        at: RecordPosition,
        writer: NodeName,
        bytes: &[u8],
        now: MonotonicTime,
    ) {
        if at <= self.membership.last() {
            // It was read and came by itself.
            return;
        }
        let record = match decode_record(bytes) {
            Ok(record) => record,
            Err(cause) => {
                let node = writer;
                if node == self.node {
                    self.own_records = OwnRecords::Endangered;
                }
                self.skip(at);
                return self.warn(ClusterWarning::Record { node, at, cause });
            }
        };
        let is_of_other_process = match &record {
            MembershipRecord::Joined(server) => {
                writer == self.node && server.run != self.joining.run
            }
            _ => false,
        };
        let changes = match self.membership.apply(at, writer.clone(), record) {
            Ok(changes) => changes,
            Err(refusal) => {
                let node = writer;
                return self.warn(ClusterWarning::RecordRefused { node, refusal });
            }
        };
        // A record of an earlier process of this node is read before this one joins.
        if is_of_other_process && let Enrollment::Member(_) = self.enrollment {
            self.forget_all();
            self.enrollment = Enrollment::Withdrawn;
            self.warn(ClusterWarning::Superseded(writer));
        }
        let before = self.id();
        let mut others = OtherServers::Same;
        for change in changes {
            match change {
                MembershipChange::Joined { id } => {
                    self.server_joined(id, now);
                    others = match others {
                        // A join that is repeated has a lower number than others.
                        OtherServers::Same if u64::from(id.0) == at.0 => OtherServers::OneMore(id),
                        _ => OtherServers::Changed,
                    };
                }
                MembershipChange::Left { id, .. } => {
                    self.server_left(id);
                    others = OtherServers::Changed;
                }
            }
        }
        if self.id() != before {
            others = OtherServers::Changed;
        }
        self.adjust_liveness(others, now);
        self.join();
    }

    /// Returns true if this server stays away: it has left, or another process has taken its place.
    pub fn is_withdrawn(&self) -> bool {
        matches!(self.enrollment, Enrollment::Withdrawn)
    }

    /// Hears those that are to be heard now.
    fn adjust_liveness(&mut self, others: OtherServers, now: MonotonicTime) {
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        match others {
            OtherServers::Same => {}
            OtherServers::OneMore(id) => member.liveness.join(id, now),
            OtherServers::Changed => {
                let heard = member.liveness.members_changed(&self.membership, now);
                if member.heard.as_ref() != Some(&heard) {
                    member.heard = Some(heard.clone());
                    self.put(ClusterOutput::Hear(heard));
                }
            }
        }
    }

    /// Notes that the network has lost the sequence, which begins anew with greater positions. It is read
    /// from its beginning, and all servers join again.
    pub fn restarted(&mut self) {
        self.forget_all();
        // Records that came by themselves may be of either sequence.
        self.membership = Membership::new();
        if !matches!(self.enrollment, Enrollment::Withdrawn) {
            self.enrollment = Enrollment::Outside;
        }
        self.warn(ClusterWarning::SequenceLost);
    }

    /// Passes over a record whose writer is not known.
    pub fn skip(&mut self, at: RecordPosition) {
        self.membership.skip(at);
    }

    fn server_joined(&mut self, id: ServerId, now: MonotonicTime) {
        let Some(member) = self.membership.member(id) else {
            return;
        };
        let protocol = member.server.protocol();
        let (kind, run) = (member.server.kind, member.server.run);
        if member.node != self.node {
            self.meet(id, protocol, kind);
        } else if run == self.joining.run && !matches!(self.enrollment, Enrollment::Withdrawn) {
            self.enroll(id, now);
        }
    }

    /// Becomes a member, and meets those that are there.
    fn enroll(&mut self, id: ServerId, now: MonotonicTime) {
        let mut liveness = Liveness::new(id, self.settings.liveness);
        liveness.connect(now);
        self.enrollment = Enrollment::Member(Box::new(MemberState {
            id,
            links: Links::new(id, self.settings.links),
            liveness,
            heard: None,
            backlogs: BTreeMap::new(),
            held: BTreeMap::new(),
            known: BTreeSet::new(),
            judged: BTreeSet::new(),
            beat_at: now,
        }));
        self.tell(ServerNotice::Enrolled(id));
        let members = self.membership.members();
        let others: Vec<(ServerId, ProtocolVersion, ServerKind)> = members
            .filter(|(other, _)| *other != id)
            .map(|(other, member)| (other, member.server.protocol(), member.server.kind))
            .collect();
        for (other, protocol, kind) in others {
            self.meet(other, protocol, kind);
        }
    }

    fn meet(&mut self, id: ServerId, protocol: ProtocolVersion, kind: ServerKind) {
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        if !ProtocolVersion::CURRENT.understands(protocol) {
            let Some(node) = self.membership.member(id).map(|other| other.node.clone()) else {
                return;
            };
            return self.warn(ClusterWarning::Incompatible {
                id,
                node,
                major: protocol.major,
                minor: protocol.minor,
            });
        }
        member.links.join(id);
        member.known.insert(id);
        self.tell(ServerNotice::Joined { id, kind });
    }

    fn server_left(&mut self, id: ServerId) {
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        if member.id == id {
            self.forget_all();
            self.enrollment = Enrollment::Outside;
            return self.warn(ClusterWarning::DeclaredGone);
        }
        member.judged.remove(&id);
        if member.known.remove(&id) {
            self.forget(id);
        }
    }

    /// Removes all others, which have forgotten this server.
    fn forget_all(&mut self) {
        if let Enrollment::Member(member) = &mut self.enrollment {
            let known = std::mem::take(&mut member.known);
            known.into_iter().for_each(|id| self.forget(id));
        }
    }

    /// Removes another server, after what it had sent and there was no room for.
    fn forget(&mut self, id: ServerId) {
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        member.links.leave(id);
        member.backlogs.remove(&id);
        let held = member.held.remove(&id).unwrap_or_default();
        for message in held {
            self.tell(ServerNotice::LastMessage { from: id, message });
        }
        self.tell(ServerNotice::Left(id));
    }

    /// Writes the record of the join, if this server follows the sequence and is no member.
    fn join(&mut self) {
        if self.phase == NetworkPhase::Following && matches!(self.enrollment, Enrollment::Outside) {
            self.enrollment = Enrollment::Asked;
            let joining = MembershipRecord::Joined(self.joining.clone());
            self.put(ClusterOutput::Write(joining));
        }
    }

    /// Leaves the cluster.
    pub fn leave(&mut self) {
        if let Enrollment::Member(_) | Enrollment::Asked = self.enrollment {
            self.enrollment = Enrollment::Withdrawn;
            let left = MembershipRecord::Left;
            self.put(ClusterOutput::Write(left));
        }
    }

    /// Sends a message to another server.
    pub fn send(&mut self, to: ServerId, message: InterServerMessage, now: MonotonicTime) {
        self.send_to_each(&[to], &message, now);
    }

    /// Sends an event to all other servers.
    pub fn distribute(&mut self, event: &Arc<Event>, reach: UserScope, now: MonotonicTime) {
        if let Enrollment::Member(member) = &self.enrollment {
            let known: Vec<ServerId> = member.known.iter().copied().collect();
            let message = InterServerMessage::Event(event.clone(), reach);
            self.send_to_each(&known, &message, now);
        }
    }

    /// Sends a message, which is encoded once.
    fn send_to_each(
        &mut self,
        servers: &[ServerId],
        message: &InterServerMessage,
        now: MonotonicTime,
    ) {
        match encode_message(message, self.message_limit()) {
            Ok(body) => {
                for to in servers {
                    self.send_encoded(*to, message, body.clone(), now);
                }
            }
            Err(cause) => self.warn(ClusterWarning::Encoding(cause)),
        }
        self.take_link_outputs();
    }

    fn send_encoded(
        &mut self,
        to: ServerId,
        message: &InterServerMessage,
        body: Arc<[u8]>,
        now: MonotonicTime,
    ) {
        let max_bytes = self.settings.max_waiting_event_bytes;
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        if let Some(backlog) = member.backlogs.get_mut(&to) {
            backlog.push(message.clone(), max_bytes);
        } else if member.links.send(to, body, now).is_err() {
            let backlog = member.backlogs.entry(to).or_default();
            backlog.push(message.clone(), max_bytes);
        }
    }

    fn message_limit(&self) -> FrameLimit {
        FrameLimit(self.settings.links.max_message_bytes)
    }

    fn frame_limit(&self) -> FrameLimit {
        let part = self.settings.links.max_part_bytes;
        FrameLimit(part.saturating_add(AROUND_PART))
    }

    /// Processes a frame that a node has sent to this one.
    pub fn frame(&mut self, node: NodeName, bytes: &[u8], now: MonotonicTime) {
        let frame = match ServerFrame::decode(bytes, self.frame_limit()) {
            Ok(frame) => frame,
            Err(refusal) => return self.warn(ClusterWarning::Frame { node, refusal }),
        };
        let sender = frame.from;
        let is_own = |member: &ClusterMember| member.node == node;
        if self
            .membership
            .member(sender)
            .is_some_and(|member| !is_own(member))
        {
            return self.warn(ClusterWarning::ForeignSender { node, sender });
        }
        let Enrollment::Member(member) = &mut self.enrollment else {
            // The frame is for an earlier server of this node.
            return;
        };
        member.liveness.hear(sender, now);
        if let Err(refusal) = member.links.receive(frame, now) {
            return self.warn(ClusterWarning::Misdirected { node, refusal });
        }
        self.send_waiting(sender, now);
        self.take_link_outputs();
    }

    /// Sends what waits for a server, if it has acknowledged enough.
    fn send_waiting(&mut self, to: ServerId, now: MonotonicTime) {
        let limit = self.message_limit();
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        let MemberState {
            backlogs, links, ..
        } = &mut **member;
        let Some(backlog) = backlogs.get_mut(&to) else {
            return;
        };
        let mut failed = None;
        backlog.offer(|message| match encode_message(&message, limit) {
            Ok(body) => links.send(to, body, now).map_err(|_| Box::new(message)),
            Err(cause) => {
                failed = Some(cause);
                Ok(())
            }
        });
        if backlog.is_empty() {
            backlogs.remove(&to);
        }
        if let Some(cause) = failed {
            self.warn(ClusterWarning::Encoding(cause));
        }
    }

    /// Notes a beat of a node's server.
    pub fn beat(&mut self, node: &NodeName, now: MonotonicTime) {
        if let Enrollment::Member(member) = &mut self.enrollment
            && let Some(id) = self.membership.server_of(node)
        {
            member.liveness.hear(id, now);
            member.links.hear(id, now);
        }
    }

    /// Takes back a message for which the server has no room.
    pub fn refused(&mut self, from: ServerId, message: InterServerMessage) {
        if let Enrollment::Member(member) = &mut self.enrollment
            && member.known.contains(&from)
        {
            member.links.pause(from);
            member.held.entry(from).or_default().push_back(message);
        }
    }

    /// Notes that the server has room again for messages of another one.
    pub fn room(&mut self, of: ServerId, now: MonotonicTime) {
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        let held = member.held.remove(&of).unwrap_or_default();
        member.links.resume(of, now);
        for message in held {
            self.tell(ServerNotice::Message { from: of, message });
        }
        self.take_link_outputs();
    }

    /// Does what is due at this time.
    pub fn elapse(&mut self, now: MonotonicTime) {
        let is_following = self.phase == NetworkPhase::Following;
        let gone_after = self.settings.liveness.gone_after;
        let Enrollment::Member(member) = &mut self.enrollment else {
            return;
        };
        member.links.elapse(now);
        if member.beat_at <= now {
            if member.beat_at + self.settings.liveness.held_up_after <= now {
                member.liveness.connect(now);
                let late = now.0.saturating_sub(member.beat_at.0);
                self.outputs
                    .push_back(PendingOutput::Whole(ClusterOutput::Warn(
                        ClusterWarning::HeldUp(Duration::from_millis(late)),
                    )));
            }
            member.beat_at = now + self.settings.liveness.beat_each;
            if is_following {
                self.outputs
                    .push_back(PendingOutput::Whole(ClusterOutput::Beat));
                let mut gone: BTreeSet<ServerId> =
                    member.liveness.to_declare_gone(now).into_iter().collect();
                if member.liveness.may_judge(now) {
                    gone.extend(member.links.unanswered_for(gone_after, now));
                }
                if !gone.is_subset(&member.judged) {
                    member.judged.extend(&gone);
                    let gone: Vec<ServerId> = gone.into_iter().collect();
                    let verdict = self.membership.verdict(&self.node, &gone);
                    self.put(ClusterOutput::Write(verdict));
                }
                self.repeat_records();
            }
        }
        self.take_link_outputs();
    }

    /// Writes the records of this server again if they may be displaced. This is done with a beat, so
    /// that junk cannot make it write more often.
    fn repeat_records(&mut self) {
        let (Some(id), OwnRecords::Endangered) = (self.id(), self.own_records) else {
            return;
        };
        self.own_records = OwnRecords::Kept;
        let server = self.joining.clone();
        self.put(ClusterOutput::Write(MembershipRecord::Repeated {
            id,
            server,
        }));
        let verdict = self.membership.verdict(&self.node, &[]);
        if verdict != MembershipRecord::Gone(BTreeSet::new()) {
            self.put(ClusterOutput::Write(verdict));
        }
    }

    /// Returns the time of the next [`ClusterServer::elapse`].
    pub fn due_at(&self) -> Option<MonotonicTime> {
        let Enrollment::Member(member) = &self.enrollment else {
            return None;
        };
        let links = member.links.due_at();
        links.into_iter().chain([member.beat_at]).min()
    }

    /// Returns the next result of the calls so far.
    pub fn next_output(&mut self) -> Option<ClusterOutput> {
        loop {
            match self.outputs.pop_front()? {
                // It follows one for which there was no room.
                PendingOutput::Whole(ClusterOutput::Tell(ServerNotice::Message {
                    from,
                    message,
                })) if self.is_held(from) => {
                    self.refused(from, message);
                }
                PendingOutput::Whole(output) => return Some(output),
                PendingOutput::Frame(frame) => {
                    if let Some(output) = self.transmission(&frame) {
                        return Some(output);
                    }
                }
            }
        }
    }

    fn is_held(&self, from: ServerId) -> bool {
        match &self.enrollment {
            Enrollment::Member(member) => member.held.contains_key(&from),
            _ => false,
        }
    }

    fn take_link_outputs(&mut self) {
        let max = self.settings.links.max_message_bytes;
        let limit = self.message_limit();
        loop {
            let Enrollment::Member(member) = &mut self.enrollment else {
                return;
            };
            let Some(output) = member.links.next_output() else {
                return;
            };
            match output {
                LinkOutput::Transmit(frame) => {
                    self.outputs.push_back(PendingOutput::Frame(frame));
                }
                LinkOutput::Deliver { from, body } => match decode_message(&body, limit) {
                    Ok(message) => self.tell(ServerNotice::Message { from, message }),
                    Err(cause) => self.warn(ClusterWarning::Message { from, cause }),
                },
                LinkOutput::TooLong { from, bytes } => {
                    self.warn(ClusterWarning::TooLong { from, bytes, max });
                }
            }
        }
    }

    /// Returns the output that transmits a frame; `None` if its receiver has left.
    fn transmission(&self, frame: &ServerFrame) -> Option<ClusterOutput> {
        let to = self.membership.member(frame.to)?.node.clone();
        Some(match frame.encode(self.frame_limit()) {
            Ok(frame) => ClusterOutput::Transmit { to, frame },
            Err(cause) => ClusterOutput::Warn(ClusterWarning::Encoding(cause)),
        })
    }

    fn put(&mut self, output: ClusterOutput) {
        self.outputs.push_back(PendingOutput::Whole(output));
    }

    fn tell(&mut self, notice: ServerNotice) {
        self.put(ClusterOutput::Tell(notice));
    }

    fn warn(&mut self, warning: ClusterWarning) {
        self.put(ClusterOutput::Warn(warning));
    }
}
