//! Grants configured nodes, reports what a real policy would do, and does nothing. `peal-
//! module.toml` says how, and declares the settings.
use peal_sdk::{Config, PolicyOutcome, Registration, Request, lifecycle, provision_policy, status};
use std::sync::OnceLock;

/// Maximum number of nodes that the answer names.
const SHOWN: usize = 64;

struct Settings {
    nodes: Vec<String>,
    images: Vec<String>,
}

impl Settings {
    fn has(&self, node: &str) -> bool {
        self.nodes
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => node.starts_with(start),
                None => node == pattern,
            })
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    config.allow_only(&["nodes", "images"])?;
    let texts = |name| -> Result<Vec<String>, String> {
        Ok(config
            .list(name)?
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect())
    };
    let settings = Settings {
        nodes: texts("nodes")?,
        images: texts("images")?,
    };
    if settings.nodes.is_empty() {
        return Err(
            "the setting \"nodes\" is missing; it should list nodes that may be granted, as in \"node*, spare1\""
                .to_owned(),
        );
    }
    // An instance receives its settings only once.
    let _ = SETTINGS.set(settings);
    Ok(Vec::new())
}

fn stop() {}

fn decide(request: &Request) -> PolicyOutcome {
    let Some(settings) = SETTINGS.get() else {
        return PolicyOutcome::pass();
    };
    let nodes = request.nodes();
    let foreign: Vec<&String> = nodes.iter().filter(|node| !settings.has(node)).collect();
    match foreign.first() {
        _ if foreign.len() == nodes.len() => return PolicyOutcome::pass(),
        Some(node) => {
            return refuse(format!(
                "{node} is not among the nodes that are provided here"
            ));
        }
        None => {}
    }
    match request.image() {
        Some(image) if !settings.images.iter().any(|known| known == image) => refuse(format!(
            "there is no image {image:?}; there are {}",
            all(&settings.images)
        )),
        image => granted(nodes, image),
    }
}

fn granted(nodes: &[String], image: Option<&str>) -> PolicyOutcome {
    let how = image.map_or_else(
        || "make ready as they are".to_owned(),
        |image| format!("boot image {image:?} on"),
    );
    let named = all(nodes.get(..SHOWN).unwrap_or(nodes));
    let more = nodes.len().saturating_sub(SHOWN);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    PolicyOutcome::grant()
        .with("peal.provision.dry", true)
        .with("peal.provision.nodes", nodes.len())
        .with("peal.provision.would", format!("{how}: {named}{more}"))
}

fn all(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn refuse(reason: String) -> PolicyOutcome {
    PolicyOutcome::deny(status::PMIX_ERR_NO_PERMISSIONS).with_reason(reason)
}

provision_policy!(decide);
lifecycle!(init, stop);
