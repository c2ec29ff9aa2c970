//! Services of a user's modules, and what modules cause beside their results. Everything here comes from
//! a process that the user's components may have taken over, so that each module gets only what its own
//! [`Services`] have.
use crate::{
    message::{
        DirectoryWork, LineLevel, MAX_LINES, Offer, ServiceAnswer, ServiceCall, ServiceRequest,
        SideEffects, TraceLine,
    },
    runtime::ModuleTable,
};
use peal_frames::{MessageStream, StreamError};
use peal_model::{Status, code};
use peal_sandbox::{
    MAX_PATH, MAX_REQUEST_PROCS, MAX_STATE_KEY, MAX_STATE_VALUE, Services, checked_plain,
    checked_state_key,
};
use std::sync::Arc;

/// Longest line of a module in the trace, in bytes.
const MAX_LINE: usize = 8192;

/// Thread that answers the requests of one process.
pub(crate) struct ServiceThread {
    /// User of the modules.
    pub(crate) uid: u32,
    /// Server's end of the second connection.
    pub(crate) stream: MessageStream,
    /// Modules of the user.
    pub(crate) modules: Arc<ModuleTable>,
}

impl ServiceThread {
    /// Answers requests until the process ends.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.answer_all() {
            tracing::warn!(uid = self.uid, %error, "requests of a user's modules no longer answered");
        }
    }

    fn answer_all(&mut self) -> Result<(), StreamError> {
        while let Some(call) = self.stream.next_message::<ServiceCall>()? {
            let answer = self.answer(call).unwrap_or_else(ServiceAnswer::Refused);
            self.stream.send(&answer)?;
        }
        Ok(())
    }

    fn answer(&self, call: ServiceCall) -> Result<ServiceAnswer, Status> {
        let module = self
            .modules
            .get(call.module)
            .ok_or(code::PMIX_ERR_NOT_FOUND)?;
        answer(module.services(), call.request)
    }
}

/// Answers a request with the services of its module. The limits are those that a module in this process
/// has.
fn answer(services: &Services, request: ServiceRequest) -> Result<ServiceAnswer, Status> {
    let state = || {
        services
            .state
            .as_deref()
            .ok_or(code::PMIX_ERR_NOT_AVAILABLE)
    };
    match request {
        ServiceRequest::Samples { instance } => {
            let recorder = services.recorder.as_ref();
            let is_wanted = recorder.is_some_and(|recorder| recorder.samples(instance));
            Ok(ServiceAnswer::Decision(if is_wanted {
                Offer::Offered
            } else {
                Offer::Missing
            }))
        }
        ServiceRequest::GetState { key } => Ok(match state()?.get(checked_state_key(&key)?)? {
            Some(bytes) => ServiceAnswer::Bytes(bytes.into()),
            None => ServiceAnswer::Nothing,
        }),
        ServiceRequest::SetState { key, value } => {
            if value.as_slice().len() > MAX_STATE_VALUE {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            state()?.set(checked_state_key(&key)?, value.as_slice())?;
            Ok(ServiceAnswer::Done)
        }
        ServiceRequest::DeleteState { key } => {
            state()?.delete(checked_state_key(&key)?)?;
            Ok(ServiceAnswer::Done)
        }
        ServiceRequest::ListState { prefix } => {
            if prefix.len() > MAX_STATE_KEY {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            Ok(ServiceAnswer::Names(state()?.keys(&prefix)?))
        }
        ServiceRequest::Usage { procs } => {
            if procs.len() > MAX_REQUEST_PROCS {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            let usage = services.usage.as_deref();
            let usage = usage.ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
            Ok(ServiceAnswer::Infos(usage.of(&procs)?))
        }
        ServiceRequest::Directory {
            directory,
            path,
            work,
        } => {
            if path.len() > MAX_PATH {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            let directory = services.files.get(&directory);
            let directory = directory.ok_or(code::PMIX_ERR_NOT_FOUND)?;
            match work {
                DirectoryWork::Read => Ok(ServiceAnswer::Bytes(directory.read(&path)?.into())),
                DirectoryWork::Write { bytes, place } => {
                    directory.write(&path, bytes.as_slice(), place)?;
                    Ok(ServiceAnswer::Done)
                }
                DirectoryWork::Remove => {
                    directory.remove(&path)?;
                    Ok(ServiceAnswer::Done)
                }
                DirectoryWork::List => Ok(ServiceAnswer::Names(directory.entries(&path)?)),
            }
        }
    }
}

/// Carries out what modules have caused beside their results. May wait for room in the audit trail.
pub(crate) fn carry_out(uid: u32, modules: &ModuleTable, effects: SideEffects) {
    let SideEffects {
        records,
        quarantined,
        lines,
        lines_left_out,
    } = effects;
    for record in records {
        // A module that was removed has its last records before that.
        if let Some(module) = modules.get(record.module)
            && let Some(recorder) = &module.services().recorder
        {
            recorder.record(record.record.0);
        }
    }
    for line in lines.into_iter().take(MAX_LINES) {
        trace(uid, line);
    }
    if lines_left_out > 0 {
        tracing::warn!(target: "peal::guest", uid, left_out = lines_left_out, "trace lines of a user's modules left out");
    }
    for report in quarantined {
        if let Some(module) = modules.get(report.module)
            && let Some(notify) = &module.services().on_quarantine
        {
            notify(&report.report);
        }
    }
}

/// Writes a line to the trace. The process may have been taken over, so that the text is escaped here.
fn trace(uid: u32, line: TraceLine) {
    let plain = |text: &str| checked_plain(text, MAX_LINE);
    let module = plain(&line.module);
    let message = plain(&line.message);
    macro_rules! write {
        ($level:ident) => {
            tracing::event!(target: "peal::guest", tracing::Level::$level, module, uid, "{message}")
        };
    }
    match line.level {
        LineLevel::Error => write!(ERROR),
        LineLevel::Warn => write!(WARN),
        LineLevel::Info => write!(INFO),
        LineLevel::Debug => write!(DEBUG),
        LineLevel::Trace => write!(TRACE),
        LineLevel::Off => {}
    }
}
