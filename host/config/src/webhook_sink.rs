//! Settings of webhook sinks, converted to those of peal-sinks.
use crate::{document::SinkEntry, problem::Problems, sink::Webhook};
use peal_sinks::{WebhookRule, WebhookSettings, WebhookUrl};

impl SinkEntry {
    /// Returns the settings of the webhook with this URL.
    ///
    /// # Errors
    /// All problems of the combination of settings.
    pub(crate) fn webhook(&self, url: &WebhookUrl) -> Result<WebhookSettings, Problems> {
        let Webhook {
            http,
            path_file,
            token_file,
            headers,
            ca,
            format,
            max_message_bytes,
            timeout,
            ..
        } = self.settings.webhook.clone();
        let settings = WebhookSettings {
            url: url.clone(),
            http,
            path_file,
            token_file,
            headers,
            ca,
            format,
            max_bytes: max_message_bytes,
            timeout,
        };
        // The path of the URL may be a secret.
        let origin = url.origin();
        let broken = |rule: WebhookRule| {
            let message = format!(
                "sink.webhook.url is at {origin:?}; it should be {}",
                rule.right()
            );
            self.problem("sink.webhook.url", message)
        };
        let mut problems: Vec<_> = settings.broken_rules().into_iter().map(broken).collect();
        // Without TLS the file has no effect, and the connection would be taken for a protected one.
        if !url.is_https() && settings.ca.is_some() {
            let message = "sink.webhook.ca is for a URL that begins with https://";
            problems.push(self.problem("sink.webhook.ca", message));
        }
        Problems(problems).or_none().map(|()| settings)
    }
}
