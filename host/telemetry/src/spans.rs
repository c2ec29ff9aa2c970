//! Conversion of measured events and decisions to the spans of a trace.
use opentelemetry::{
    InstrumentationScope, KeyValue, Value,
    trace::{SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};
use peal_audit::Secrets;
use peal_core::{owner::Owner, server::EventOrigin};
use peal_model::{ChainResult, Event, Info, PolicyOutcome, Status};
use peal_sandbox::checked_plain;
use peal_server::{
    ChainResults, DecisionConclusion, MeasuredCall, MeasuredDecision, MeasuredEvent,
    MeasuredOutcome, Notice,
};
use std::time::{Duration, SystemTime};

/// Maximum length of a text in an attribute, in bytes; the rest is cut.
const MAX_TEXT: usize = 256;

/// Text in place of one that may quote a secret.
const LEFT_OUT: &str = "left out: an info of the request is secret (audit.secret_keys)";

/// Converter of notices.
#[derive(Debug)]
pub(crate) struct TraceConverter {
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
    secrets: Secrets,
}

/// Permission to export what modules and clients wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FreeText {
    Exported,
    LeftOut,
}

/// Span without ids.
struct SpanDraft {
    name: String,
    started: SystemTime,
    ended: SystemTime,
    attributes: Vec<KeyValue>,
    status: SpanStatus,
}

impl TraceConverter {
    pub(crate) fn new(secrets: Secrets) -> TraceConverter {
        TraceConverter {
            ids: RandomIdGenerator::default(),
            scope: InstrumentationScope::builder("peal")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
            secrets,
        }
    }

    /// Returns the spans of the trace of a notice; empty for a notice without a measurement.
    pub(crate) fn spans(&self, notice: &Notice) -> Vec<SpanData> {
        match notice {
            Notice::Passed {
                event,
                results,
                origin,
                measured: Some(measured),
                ..
            } => self.event(event, results, *origin, *measured),
            Notice::Decided(decision) => self.decision(decision),
            _ => Vec::new(),
        }
    }

    fn event(
        &self,
        event: &Event,
        results: &[ChainResults],
        origin: EventOrigin,
        measured: MeasuredEvent,
    ) -> Vec<SpanData> {
        let steps = results.iter().flat_map(|chain| &chain.steps);
        let free = self.free_text(&event.infos, steps);
        let mut attributes = vec![
            text("peal.event.name", &status_name(event.code)),
            number("peal.event.code", i64::from(event.code.0)),
            count("peal.event.number", measured.number),
            KeyValue::new("peal.event.range", event.range.name().to_owned()),
        ];
        attributes.extend(
            event
                .source
                .as_ref()
                .map(|source| text("peal.event.source", &source.to_string())),
        );
        attributes.extend(
            measured
                .uid
                .map(|uid| number("peal.event.source.uid", i64::from(uid))),
        );
        if let EventOrigin::OtherServer(server) = origin {
            attributes.push(text("peal.event.origin", &format!("server {}", server.0)));
        }
        let root = SpanDraft {
            name: format!("event {}", name_of(&status_name(event.code))),
            started: measured.submitted,
            ended: end_of(measured.submitted, measured.time),
            attributes,
            status: SpanStatus::Unset,
        };
        let calls = results.iter().flat_map(|chain| {
            let calls = chain.calls.iter();
            calls.map(|call| handler(&chain.owner, call, free))
        });
        self.trace(SpanKind::Internal, root, calls)
    }

    fn decision(&self, decision: &MeasuredDecision) -> Vec<SpanData> {
        let request = &decision.request;
        let subject = &request.subject;
        let hook = subject.hook();
        let reasons = match &decision.conclusion {
            DecisionConclusion::Granted(_) => &[],
            DecisionConclusion::Denied(denied) => denied.reasons.as_slice(),
        };
        let infos = [
            subject.directives(),
            reasons,
            subject.log_data().unwrap_or_default(),
        ];
        let is_secret = infos.iter().any(|infos| self.secrets.are_in(infos));
        let free = match self.free_text(subject.infos(), decision.steps.iter()) {
            FreeText::Exported if !is_secret => FreeText::Exported,
            _ => FreeText::LeftOut,
        };
        let mut attributes = vec![
            text("peal.hook", hook.name()),
            count("peal.decision.number", decision.number),
            count("peal.targets", decision.request.targets.len() as u64),
        ];
        attributes.extend(
            request
                .requester
                .as_ref()
                .map(|proc| text("peal.requester", &proc.to_string())),
        );
        attributes.extend(
            request
                .identity
                .map(|identity| number("peal.requester.uid", i64::from(identity.uid))),
        );
        match &decision.conclusion {
            DecisionConclusion::Granted(by) => {
                attributes.push(KeyValue::new("peal.verdict", "granted"));
                attributes.push(text("peal.decided_by", &by.to_string()));
            }
            DecisionConclusion::Denied(denied) => {
                attributes.push(KeyValue::new("peal.verdict", "denied"));
                attributes.push(text("peal.decided_by", &denied.by.to_string()));
                attributes.push(text("peal.status", &status_name(denied.status)));
                let reasons = peal_audit::reasons(&denied.reasons);
                if !reasons.is_empty() {
                    attributes.push(free.attribute("peal.reason", &reasons));
                }
            }
        }
        let root = SpanDraft {
            name: format!("decision {}", hook.name()),
            started: decision.requested,
            ended: decision.decided,
            attributes,
            status: SpanStatus::Unset,
        };
        let calls = decision.calls.iter();
        let calls = calls.map(|call| policy(&Owner::Site, call, free));
        self.trace(SpanKind::Server, root, calls)
    }

    /// Returns the permission for texts about an event or a request with these infos.
    fn free_text<'a>(
        &self,
        infos: &[Info],
        mut steps: impl Iterator<Item = &'a ChainResult>,
    ) -> FreeText {
        if self.secrets.are_in(infos) || steps.any(|step| self.secrets.are_in(&step.infos)) {
            FreeText::LeftOut
        } else {
            FreeText::Exported
        }
    }

    /// Returns the spans of a trace. A failed call makes an error of the whole.
    fn trace(
        &self,
        kind: SpanKind,
        mut root: SpanDraft,
        calls: impl Iterator<Item = SpanDraft>,
    ) -> Vec<SpanData> {
        let trace = self.ids.new_trace_id();
        let root_id = self.ids.new_span_id();
        let mut spans = Vec::new();
        for call in calls {
            if let SpanStatus::Error { .. } = call.status {
                root.status = SpanStatus::error("the call of a module failed");
            }
            let id = self.ids.new_span_id();
            spans.push(self.span(trace, (id, root_id), SpanKind::Internal, call));
        }
        spans.insert(0, self.span(trace, (root_id, SpanId::INVALID), kind, root));
        spans
    }

    fn span(
        &self,
        trace: TraceId,
        (id, parent): (SpanId, SpanId),
        kind: SpanKind,
        draft: SpanDraft,
    ) -> SpanData {
        SpanData {
            span_context: SpanContext::new(
                trace,
                id,
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: kind,
            name: draft.name.into(),
            start_time: draft.started,
            // The system clock may have been set back in between.
            end_time: draft.ended.max(draft.started),
            attributes: draft.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: draft.status,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

impl FreeText {
    fn attribute(self, key: &'static str, value: &str) -> KeyValue {
        match self {
            FreeText::Exported => text(key, value),
            FreeText::LeftOut => KeyValue::new(key, LEFT_OUT),
        }
    }
}

fn handler(owner: &Owner, call: &MeasuredCall, free: FreeText) -> SpanDraft {
    let mut draft = call_span("handler", owner, call, free);
    draft.attributes.push(text("peal.handler", &call.name));
    draft
}

fn policy(owner: &Owner, call: &MeasuredCall, free: FreeText) -> SpanDraft {
    let mut draft = call_span("policy", owner, call, free);
    draft.attributes.push(text("peal.policy", &call.name));
    draft
}

fn call_span(role: &str, owner: &Owner, call: &MeasuredCall, free: FreeText) -> SpanDraft {
    let mut attributes = vec![
        text("peal.owner", &owner.to_string()),
        text("peal.module", &call.module),
        KeyValue::new("peal.module.digest", call.digest.to_string()),
    ];
    attributes.extend(call.fuel.map(|fuel| count("peal.fuel", fuel)));
    let mut status = SpanStatus::Unset;
    match &call.outcome {
        MeasuredOutcome::Handler(returned) => {
            attributes.push(text("peal.status", &status_name(*returned)));
        }
        MeasuredOutcome::Policy(outcome) => {
            let word = match outcome {
                PolicyOutcome::Pass => "pass",
                PolicyOutcome::Grant => "grant",
                PolicyOutcome::Deny(_) => "deny",
            };
            attributes.push(KeyValue::new("peal.outcome", word));
            if let PolicyOutcome::Deny(denial) = outcome {
                attributes.push(text("peal.status", &status_name(*denial)));
            }
        }
        MeasuredOutcome::Failed(failure) => {
            attributes.push(text("peal.status", &status_name(failure.status)));
            attributes.extend(
                failure
                    .limit
                    .map(|limit| KeyValue::new("peal.limit", limit.name())),
            );
            status = SpanStatus::error(match free {
                FreeText::Exported => checked_plain(&failure.reason, MAX_TEXT),
                FreeText::LeftOut => LEFT_OUT.to_owned(),
            });
        }
    }
    SpanDraft {
        name: format!("{role} {}", name_of(&call.name)),
        started: call.started,
        ended: end_of(call.started, call.time),
        attributes,
        status,
    }
}

fn end_of(started: SystemTime, time: Duration) -> SystemTime {
    started.checked_add(time).unwrap_or(started)
}

/// Returns the name of a status, or its number.
fn status_name(status: Status) -> String {
    status
        .name()
        .map_or_else(|| status.0.to_string(), str::to_owned)
}

/// Returns a name for a span.
fn name_of(name: &str) -> String {
    checked_plain(name, MAX_TEXT)
}

/// Returns an attribute with a text that a client or module may have written.
fn text(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, checked_plain(value, MAX_TEXT))
}

fn number(key: &'static str, value: i64) -> KeyValue {
    KeyValue::new(key, value)
}

/// Returns an attribute with a number, which OTLP bounds to 63 bits.
fn count(key: &'static str, value: u64) -> KeyValue {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    KeyValue::new(key, Value::I64(value))
}
