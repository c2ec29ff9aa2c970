//! Alert rules and dashboard that are shipped: they are valid, fire when they should, and name metrics that
//! a server has.
use peal_needs::needs;
use peal_tests::{root, run, test_servers};
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Command};

const RULES: &str = "packaging/prometheus/peal.rules.yml";

const DASHBOARD: &str = "packaging/grafana/peal.json";

fn promtool() -> Command {
    Command::new(test_servers().join("prometheus/usr/bin/promtool"))
}

/// Returns the expressions of the dashboard, with values in the place of its variables.
fn dashboard_expressions() -> Vec<String> {
    let text = fs::read_to_string(root().join(DASHBOARD)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets
        .map(|target| {
            let expression = target["expr"].as_str().unwrap();
            expression
                .replace("$instance", ".*")
                .replace("$__rate_interval", "5m")
        })
        .collect()
}

/// Returns the names by which Prometheus knows the metrics of the reference page, which is generated from a
/// server's.
fn metrics() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/src/reference/metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        let kind = rest.trim_start_matches([' ', '|']).split(' ').next();
        match kind.unwrap() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        }
    });
    names.collect()
}

/// Returns the words of a text that look like metrics.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let metrics = words.filter(|word| word.starts_with("peal_") || word.starts_with("process_"));
    metrics.map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_name_known_metrics() {
    let metrics = metrics();
    assert!(metrics.contains("peal_decisions_total"), "{metrics:?}");
    let rules = fs::read_to_string(root().join(RULES)).unwrap();
    let texts = [rules, dashboard_expressions().join("\n")];
    for text in texts {
        let named = named(&text);
        assert!(named.len() > 10, "{named:?}");
        let missing: Vec<&String> = named.difference(&metrics).collect();
        assert!(missing.is_empty(), "no server has {missing:?}");
    }
}

#[needs(promtool)]
#[test]
fn alerts_fire_for_their_cases() {
    let place = tempfile::tempdir().unwrap();
    let cases = place.path().join("peal.rules.test.yml");
    fs::copy(root().join(RULES), place.path().join("peal.rules.yml")).unwrap();
    fs::copy(root().join("tests/prometheus/peal.rules.test.yml"), &cases).unwrap();
    run(promtool().args(["check", "rules"]).arg(root().join(RULES))).expect_status(0);
    run(promtool().args(["test", "rules"]).arg(&cases)).expect_status(0);
}

#[needs(promtool)]
#[test]
fn expressions_of_the_dashboard_are_valid() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("dashboard.yml");
    let expressions = dashboard_expressions();
    let rules = expressions.iter().enumerate().map(|(number, expression)| {
        format!("      - record: panel:{number}\n        expr: {expression:?}\n")
    });
    let rules: String = rules.collect();
    fs::write(
        &file,
        format!("groups:\n  - name: dashboard\n    rules:\n{rules}"),
    )
    .unwrap();
    run(promtool().args(["check", "rules"]).arg(&file)).expect_status(0);
}
