//! `peal module inspect`: properties and imports of a component, the terms on which it would run
//! here, and the result of a policy file.
use super::acceptance::{AcceptanceRules, Broken};
use crate::{
    args::{Inspect, OutputFormat},
    config, output,
};
use anyhow::Result;
use peal_config::{Keyword, ModuleOwner, Modules, TrustedKey};
use peal_modules::{InspectedComponent, Signature, SignatureError, Signer, Terms};
use peal_sandbox::{CONTRACT_SERVED, Capability, Inspection, ProducerTool};
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::ExitCode};

/// Version of the output for programs: fields may be added, and none changes.
const SCHEMA: u32 = 1;
/// Exit status if the component violates the policy file.
const TOO_MUCH: u8 = 1;
/// Exit status if the file is not a component that Peal can load.
const UNLOADABLE: u8 = 2;

/// Contents of the output.
struct InspectReport<'a> {
    args: &'a Inspect,
    found: &'a Inspection,
    signature: &'a Result<Signature, SignatureError>,
    /// Signer, if its key is trusted, and the module owners for which it is trusted.
    signer: Result<(Signer, Vec<&'static str>), SignatureError>,
    terms: Vec<Terms>,
    /// Violated rules, if there is a policy file.
    broken: Option<Vec<Broken>>,
}

/// Prints the properties of a component. The exit status is 0; with a policy file, 1 if it is
/// violated; 2 if the file is not a component.
pub fn inspect(args: &Inspect) -> Result<ExitCode> {
    let policy = args
        .policy
        .as_deref()
        .map(AcceptanceRules::read)
        .transpose()?;
    let bytes = peal_modules::read(&args.file)?;
    let found = match peal_sandbox::inspect(&bytes) {
        Ok(found) => found,
        Err(error) => {
            crate::print_line(&format!("{}: {error}", args.file.display()));
            return Ok(ExitCode::from(UNLOADABLE));
        }
    };
    let signature = Signature::beside(&args.file);
    let sample = InspectedComponent {
        file: &args.file,
        bytes: &bytes,
        found: &found,
        signature: &signature,
    };
    let owner = args.scope.as_deref().and_then(ModuleOwner::from_name);
    let (terms, rules) = match config::load(args.config.clone(), None) {
        Ok(site) => (
            peal_modules::terms(sample, owner, &site.modules, &site.config),
            site.config.modules,
        ),
        // An invalid configuration does not end the inspection: only the terms of this site are
        // missing.
        Err(problems) => {
            crate::print_line(&format!(
                "what this site would grant is not known, its configuration makes no sense:\n{problems}"
            ));
            (Vec::new(), Modules::default())
        }
    };
    let more = policy
        .as_ref()
        .map(AcceptanceRules::keys)
        .unwrap_or_default();
    let signer = signature
        .clone()
        .and_then(|signature| signer(&signature, &bytes, &rules, more));
    let broken = policy.map(|policy| policy.broken(&bytes, &found, &signature));
    let report = InspectReport {
        args,
        found: &found,
        signature: &signature,
        signer,
        terms,
        broken,
    };
    output::print(&match args.format.output {
        OutputFormat::Data(form) => form.document(&report.as_json())?,
        _ => report.text() + "\n",
    })?;
    Ok(report.status())
}

/// Returns the signer if this site or the policy trusts its key, and the module owners for which
/// the site does.
fn signer(
    signature: &Signature,
    bytes: &[u8],
    rules: &Modules,
    more: &[TrustedKey],
) -> Result<(Signer, Vec<&'static str>), SignatureError> {
    // Keys of all owners: the result says for which of them the key is trusted.
    let here = ModuleOwner::ALL
        .iter()
        .copied()
        .flat_map(|owner| rules.keys_of(owner));
    let signer = signature.signer(bytes, here.chain(more))?;
    let trusts = |owner: &ModuleOwner| rules.keys_of(*owner).any(|key| *key == signer.key);
    let trusted_for = ModuleOwner::ALL
        .iter()
        .copied()
        .filter(trusts)
        .map(Keyword::name)
        .collect();
    Ok((signer, trusted_for))
}

impl InspectReport<'_> {
    fn status(&self) -> ExitCode {
        let Some(broken) = &self.broken else {
            return ExitCode::SUCCESS;
        };
        // No server could load it, whatever the policy says.
        if self.found.roles.is_empty() || !self.found.unknown_imports.is_empty() {
            return ExitCode::from(UNLOADABLE);
        }
        if broken.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(TOO_MUCH)
        }
    }

    fn as_json(&self) -> Value {
        let mut report = json!({
            "schema": SCHEMA,
            "file": self.args.file.display().to_string(),
            "signature": self.signature_json(),
            "terms": self.terms.iter().map(terms_json).collect::<Vec<_>>(),
            "policy": self.broken.as_ref().map(|broken| json!({
                "file": self.args.policy.as_ref().map(|path| path.display().to_string()),
                "acceptable": broken.is_empty(),
                "broken": broken,
            })),
        });
        // The properties of the component are added at the same level.
        if let (Some(all), Ok(Value::Object(own))) =
            (report.as_object_mut(), serde_json::to_value(self.found))
        {
            all.extend(own);
        }
        report
    }

    fn signature_json(&self) -> Value {
        let key = self
            .signature
            .as_ref()
            .ok()
            .map(|signature| signature.key().to_string());
        match &self.signer {
            Ok((signer, trusted_for)) => json!({
                "state": "valid", "key": key, "public_key": signer.key.to_string(), "comment": signer.comment,
                "trusted_for": trusted_for,
            }),
            Err(error) => json!({ "state": state(error), "key": key, "reason": error.to_string() }),
        }
    }

    fn text(&self) -> String {
        let found = self.found;
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push(format!("{name:<14} {value}"));
        line("roles", list(found.roles.iter()));
        line("capabilities", list(found.capabilities.iter()));
        line("not offered", list(found.unknown_imports.iter()));
        line("other exports", list(found.other_exports.iter()));
        line("size", format!("{} bytes", found.size));
        line("sha256", found.digest.to_string());
        line(
            "wit",
            format!(
                "{} (peal:pmix; served here: {CONTRACT_SERVED})",
                list(found.contract.iter())
            ),
        );
        if let Some(mismatch) = found.contract_mismatch() {
            line("not loaded", format!("the component {mismatch}"));
        }
        line("language", tools(&found.producers.language));
        line("sdk", tools(&found.producers.sdk));
        line("processed by", tools(&found.producers.processed_by));
        line("settings", settings(found));
        line("signature", self.signature_text());
        if !found.imports.is_empty() {
            lines.push("\nimports".to_owned());
        }
        for import in &found.imports {
            lines.push(format!(
                "  {}: {}",
                import.name,
                list(import.functions.iter())
            ));
        }
        lines.extend(self.terms.iter().flat_map(terms_text));
        if let Some(broken) = &self.broken {
            let file = self
                .args
                .policy
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            let verdict = if broken.is_empty() {
                "accepts it"
            } else {
                "does not accept it:"
            };
            lines.push(format!("\nthe policy {file} {verdict}"));
            lines.extend(
                broken
                    .iter()
                    .map(|broken| format!("  {}: {}", broken.rule, broken.message)),
            );
        }
        lines.join("\n")
    }

    fn signature_text(&self) -> String {
        match &self.signer {
            Err(SignatureError::Missing(_)) => "none".to_owned(),
            Err(error) => error.to_string(),
            Ok((signer, trusted_for)) => {
                let trusted = match trusted_for.as_slice() {
                    [] => "the policy trusts it".to_owned(),
                    owners => format!("trusted here for modules of {}", owners.join(", ")),
                };
                format!("by key {} ({trusted}): {}", signer.key.id(), signer.comment)
            }
        }
    }
}

/// Returns the word for a signature that is missing or invalid.
fn state(error: &SignatureError) -> &'static str {
    match error {
        SignatureError::Missing(_)
        | SignatureError::NotKept
        | SignatureError::NotPushed
        | SignatureError::NotDeployed => "none",
        SignatureError::Unreadable { .. }
        | SignatureError::Format
        | SignatureError::Legacy
        | SignatureError::LaterFormat { .. }
        | SignatureError::Conditions(_) => "unreadable",
        SignatureError::UntrustedKey(_) => "untrusted",
        SignatureError::Wrong(_) | SignatureError::OtherModule { .. } => "wrong",
        SignatureError::Expired { .. } => "expired",
    }
}

fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

/// Returns the names of the declared settings.
fn settings(found: &Inspection) -> String {
    let declaration = found.declaration.as_ref();
    match declaration.and_then(|declaration| declaration.settings.as_ref()) {
        None => "not declared".to_owned(),
        Some(settings) => list(settings.iter().map(|setting| &setting.name)),
    }
}

fn tools(tools: &BTreeSet<ProducerTool>) -> String {
    list(tools.iter().map(|tool| {
        format!("{} {}", tool.name, tool.version)
            .trim_end()
            .to_owned()
    }))
}

fn names(capabilities: &[Capability]) -> impl Iterator<Item = &'static str> {
    capabilities.iter().map(|one| one.name())
}

fn terms_json(terms: &Terms) -> Value {
    let interfaces = terms.interfaces.iter().map(
        |of| json!({ "interface": of.interface, "verdict": of.verdict.name(), "rule": of.rule }),
    );
    json!({
        "module": terms.standing.name,
        "scope": terms.standing.owner.name(),
        "loads": terms.loads(),
        "granted": names(&terms.granted).collect::<Vec<_>>(),
        "refused": names(&terms.refused).collect::<Vec<_>>(),
        "interfaces": interfaces.collect::<Vec<_>>(),
        "limits": terms.limits,
        "problems": terms.problems,
    })
}

fn terms_text(terms: &Terms) -> Vec<String> {
    let as_what = match (&terms.standing.name, terms.standing.owner) {
        (Some(name), _) => format!("module {name:?} of the configuration"),
        (None, ModuleOwner::JobSupplied) => "a job-supplied handler".to_owned(),
        (None, ModuleOwner::Site) => "a module of the site".to_owned(),
        (None, ModuleOwner::User) => "a module that a user installs".to_owned(),
        (None, ModuleOwner::Namespace) => "a module that the site gives a job".to_owned(),
    };
    let limits = terms
        .limits
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    let mut lines = vec![
        format!("\nas {as_what}"),
        format!("  granted      {}", list(names(&terms.granted))),
        format!("  refused      {}", list(names(&terms.refused))),
        format!("  limits       {}", list(limits)),
    ];
    let interface = |of: &peal_modules::InterfaceTerms| {
        format!("  {:<12} {}: {}", of.verdict.name(), of.interface, of.rule)
    };
    lines.extend(terms.interfaces.iter().map(interface));
    lines.extend(
        terms
            .problems
            .iter()
            .map(|problem| format!("  not loaded   it {problem}")),
    );
    lines
}
