//! End of job-control requests, and the notifications of it.
use super::answered;
use crate::{
    job_control::{self, ControlId, JobControlEnd, NotDone, PendingWork, RequestStage, STATUS},
    server::{Action, ServerState},
};
use peal_model::{
    DataArray, Info, Infos, LogRequest, Proc, Query, Status, UserIdentity, Value, code, key,
};
use std::sync::Arc;

impl ServerState {
    /// Ends a request: records it, answers a waiting requester or raises an event for it, and sends
    /// mail if it asked for that.
    pub(super) fn end(&mut self, id: ControlId, end: JobControlEnd) -> Vec<Action> {
        let before = self.ledger.change(id, |entry| {
            std::mem::replace(&mut entry.stage, RequestStage::Ended(end))
        });
        let (Some(before), Some(entry)) = (before, self.ledger.get(id)) else {
            return Vec::new();
        };
        let status = match end {
            JobControlEnd::Cancelled => code::PMIX_ERR_JOB_CANCELED,
            JobControlEnd::Denied => entry.refusal.unwrap_or(code::PMIX_ERR_NO_PERMISSIONS),
            JobControlEnd::Done | JobControlEnd::Failed => {
                job_control::status_of(entry.targets.len(), &entry.not_done)
            }
        };
        let (operation, targets) = (entry.operation.clone(), entry.targets.clone());
        let (told, requester) = (entry.infos(), entry.requester.clone());
        let mut actions = vec![Action::JobControlEnded {
            requester: requester.clone(),
            operation,
            targets,
            status,
        }];
        if let RequestStage::Running(PendingWork::Host(Some(to))) = before {
            let not_done = entry.not_done.iter().map(NotDone::info).collect();
            actions.push(answered(to, status, not_done));
        } else if let Some(requester) = requester {
            let more = [vec![Info::new(STATUS, Value::Status(status))], told].concat();
            actions.extend(self.tell(id, Status::PEAL_JOB_CONTROL_ENDED, &[requester], more));
        }
        actions.extend(self.mail(id));
        actions
    }

    /// Mails the state of a request to the recipients that its requester named.
    pub(super) fn mail(&self, id: ControlId) -> Vec<Action> {
        let Some(entry) = self.ledger.get(id) else {
            return Vec::new();
        };
        let Some(mail) = &entry.mail else {
            return Vec::new();
        };
        let mut mail = mail.clone();
        let (state, what) = (entry.state(), entry.operation.to_string());
        let subject = format!("{what}: {state}");
        let lines = entry
            .not_done
            .iter()
            .map(|not_done| format!("{}: {}", not_done.proc, not_done.reason));
        let targets = entry
            .targets
            .iter()
            .take(32)
            .map(Proc::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let head = format!(
            "Request {:?}, {what} of {} procs ({targets}): {state}.",
            entry.name,
            entry.targets.len()
        );
        let text = std::iter::once(head)
            .chain(lines.take(100))
            .collect::<Vec<_>>()
            .join("\n");
        if mail.value_of(key::PMIX_LOG_EMAIL_SUBJECT).is_none() {
            mail.push(Info::new(
                key::PMIX_LOG_EMAIL_SUBJECT,
                Value::string(&subject),
            ));
        }
        // The text of the requester, if any, precedes the report.
        let own = mail
            .value_of(key::PMIX_LOG_EMAIL_MSG)
            .and_then(Value::as_str)
            .map(|own| format!("{own}\n\n{text}"));
        mail.retain(|info| info.key != key::PMIX_LOG_EMAIL_MSG);
        mail.push(Info::new(
            key::PMIX_LOG_EMAIL_MSG,
            Value::string(&own.unwrap_or(text)),
        ));
        let data = vec![Info::new(
            key::PMIX_LOG_EMAIL,
            Value::DataArray(DataArray::infos(mail)),
        )];
        let (source, identity) = (entry.requester.clone(), entry.identity);
        let request = LogRequest {
            source,
            identity,
            timestamp: None,
            data,
            directives: Vec::new(),
        };
        vec![Action::Log {
            to: None,
            request: Arc::new(request),
        }]
    }

    /// Answers queries about job-control requests (`PMIX_JOB_CTRL_ID`): all that the requester may
    /// see, or the one named.
    pub fn told_of_controls(&self, identity: UserIdentity, queries: &[Query]) -> Option<Info> {
        let asks = |query: &&Query| {
            query
                .keys
                .iter()
                .flatten()
                .any(|asked| asked.as_bytes() == key::PMIX_JOB_CTRL_ID.0.as_bytes())
        };
        let query = queries.iter().find(asks)?;
        let name = query
            .qualifiers
            .value_of(key::PMIX_JOB_CTRL_ID)
            .and_then(Value::as_str);
        let requests = self.ledger.told(identity, name);
        Some(Info::new(
            key::PMIX_JOB_CTRL_ID,
            Value::DataArray(DataArray::infos(requests)),
        ))
    }
}
