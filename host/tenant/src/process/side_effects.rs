//! Log of what modules cause beside their results, until the next message to the server takes it.
use crate::message::{
    LineLevel, MAX_LINES, ModuleNumber, ModuleRecord, QuarantineReport, SideEffects, TraceLine,
};
use peal_frames::NamedFields;
use peal_sandbox::{CallRecord, Quarantined};
use std::{
    collections::HashMap,
    fmt::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    thread::{self, ThreadId},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    subscriber::Interest,
};
use tracing_subscriber::{Layer, layer::Context};

/// Longest line, in bytes.
const MAX_LINE: usize = 8192;

/// Side effects by the thread on which they happened: a chain takes those of its own calls.
#[derive(Default)]
pub(super) struct SideEffectLog {
    by_thread: Mutex<HashMap<ThreadId, SideEffects>>,
    /// Most detailed level of lines, as the number of its variant.
    level: AtomicU8,
}

impl SideEffectLog {
    /// Sets the most detailed level of lines that are kept.
    pub(super) fn set_level(&self, level: LineLevel) {
        self.level.store(number(level), Ordering::Relaxed);
    }

    pub(super) fn record(&self, module: ModuleNumber, record: CallRecord) {
        let record = NamedFields(record);
        self.change(|effects| effects.records.push(ModuleRecord { module, record }));
    }

    pub(super) fn quarantined(&self, module: ModuleNumber, report: &Quarantined) {
        let report = report.clone();
        self.change(|effects| {
            effects
                .quarantined
                .push(QuarantineReport { module, report });
        });
    }

    fn line(&self, line: TraceLine) {
        self.change(|effects| {
            if effects.lines.len() < MAX_LINES {
                effects.lines.push(line);
            } else {
                effects.lines_left_out = effects.lines_left_out.saturating_add(1);
            }
        });
    }

    /// Takes the side effects of this thread.
    pub(super) fn take(&self) -> SideEffects {
        self.lock()
            .remove(&thread::current().id())
            .unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut SideEffects)) {
        change(self.lock().entry(thread::current().id()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, SideEffects>> {
        self.by_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(level: LineLevel) -> u8 {
    match level {
        LineLevel::Off => 0,
        LineLevel::Error => 1,
        LineLevel::Warn => 2,
        LineLevel::Info => 3,
        LineLevel::Debug => 4,
        LineLevel::Trace => 5,
    }
}

fn level_of(level: Level) -> LineLevel {
    match level {
        Level::ERROR => LineLevel::Error,
        Level::WARN => LineLevel::Warn,
        Level::INFO => LineLevel::Info,
        Level::DEBUG => LineLevel::Debug,
        _ => LineLevel::Trace,
    }
}

/// Layer that puts the lines of modules and about them into the log.
pub(super) struct EffectLayer(Arc<SideEffectLog>);

impl EffectLayer {
    pub(super) fn new(log: Arc<SideEffectLog>) -> EffectLayer {
        EffectLayer(log)
    }
}

impl<S: Subscriber> Layer<S> for EffectLayer {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        // The level changes with the filter of the server.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        let level = number(level_of(*metadata.level()));
        metadata.target() == "peal::guest"
            && !metadata.is_span()
            && level <= self.0.level.load(Ordering::Relaxed)
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut text = LineText::default();
        event.record(&mut text);
        let LineText {
            module,
            message,
            fields,
        } = text;
        self.0.line(TraceLine {
            level: level_of(*event.metadata().level()),
            module,
            message: message + &fields,
        });
    }
}

/// Text of a line: its message and its fields.
#[derive(Default)]
struct LineText {
    module: String,
    message: String,
    fields: String,
}

impl LineText {
    fn field(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            "module" => write!(self.module, "{value}"),
            name if self.fields.len() < MAX_LINE => write!(self.fields, " {name}={value}"),
            _ => Ok(()),
        };
    }
}

impl Visit for LineText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }
}
