//! Results as a table and as JSON. `docs/src/reference/benchmarks.md` describes both.
use super::{
    plan::{Plan, ResultBound, ResultRow},
    samples::{Samples, Spread},
};
use crate::c_programs;
use clap::ValueEnum;
use serde_json::{Map, Value, json};

/// Version of the JSON format; it changes with every incompatible change.
const FORMAT: u32 = 1;

const HEADINGS: [&str; 7] = ["", "Peal", "peer", "", "ratio", "must be", ""];

/// Verdict of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Pass,
    Fail,
    /// There is no bound.
    None,
    /// There is no value.
    Missing,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::None => "",
            Verdict::Missing => "not measured",
        }
    }
}

/// Values of a row.
struct Result {
    ours: Option<Spread>,
    peer: Option<Spread>,
    ratio: Option<Spread>,
    verdict: Verdict,
}

impl Result {
    fn new(row: &ResultRow, samples: &Samples) -> Result {
        let ours = samples.spread(&row.ours.arm, row.ours.name);
        let peer = row
            .peer
            .as_ref()
            .and_then(|(_, peer)| samples.spread(&peer.arm, peer.name));
        let ratio = row.peer.as_ref().and_then(|(_, peer)| {
            samples.ratio((&row.ours.arm, row.ours.name), (&peer.arm, peer.name))
        });
        Result {
            ours,
            peer,
            ratio,
            verdict: verdict(row.must, ours, peer, ratio),
        }
    }
}

fn verdict(
    must: ResultBound,
    ours: Option<Spread>,
    peer: Option<Spread>,
    ratio: Option<Spread>,
) -> Verdict {
    let (number, holds): (_, fn(f64, f64) -> bool) = match must {
        ResultBound::Nothing => {
            return if ours.is_some() {
                Verdict::None
            } else {
                Verdict::Missing
            };
        }
        ResultBound::RatioAtMost(most) => {
            (ratio.map(|ratio| (ratio.median, most)), |number, most| {
                number <= most
            })
        }
        ResultBound::RatioAtLeast(least) => {
            (ratio.map(|ratio| (ratio.median, least)), |number, least| {
                number >= least
            })
        }
        // A bound of zero must hold in every round.
        ResultBound::AtMost(0.0) => (ours.map(|ours| (ours.max, 0.0)), |number, most| {
            number <= most
        }),
        ResultBound::AtMost(most) => (ours.map(|ours| (ours.median, most)), |number, most| {
            number <= most
        }),
        ResultBound::MoreByAtMost(most) => (
            ours.zip(peer)
                .map(|(ours, peer)| (ours.median - peer.median, most)),
            |number, most| number <= most,
        ),
    };
    match number {
        None => Verdict::Missing,
        Some((number, bound)) if holds(number, bound) => Verdict::Pass,
        Some(_) => Verdict::Fail,
    }
}

/// Prints the table.
pub fn print(plan: &Plan, samples: &Samples, machine: &Value) {
    let mut group = None;
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    for row in &plan.rows {
        if group.replace(row.group) != Some(row.group) {
            lines.push(vec![name(row).to_uppercase()]);
        }
        let result = Result::new(row, samples);
        let (peer, than) = match &row.peer {
            Some((name, _)) if result.peer.is_some() => {
                (number(result.peer, row.unit), (*name).to_owned())
            }
            _ => Default::default(),
        };
        let cells = [
            row.description.clone(),
            number(result.ours, row.unit),
            peer,
            than,
            ratio(result.ratio),
            must(row),
            result.verdict.word().to_owned(),
        ];
        lines.push(cells.to_vec());
    }
    println!();
    for line in &lines {
        println!("{}", aligned(line, &lines).trim_end());
    }
    println!(
        "\nratio: Peal's number by the peer's, median over the rounds and (least .. greatest)"
    );
    let known = |key: &str| {
        machine
            .get(key)
            .map(|value| value.to_string().trim_matches('"').to_owned())
            .unwrap_or_default()
    };
    println!(
        "{} CPUs, {}, {}; load {} before and {} after; Peal {}, wasmtime {}, libpmix {}",
        known("cpus"),
        known("cpu"),
        known("kernel"),
        known("load_before"),
        known("load_after"),
        known("peal"),
        known("wasmtime"),
        known("libpmix"),
    );
    if !plan.has_c() {
        println!(
            "without everything that needs libpmix ({})",
            c_programs::NOT_AVAILABLE
        );
    }
    for left_out in plan.left_out() {
        println!("without {left_out}");
    }
    for (arm, why) in samples.failures() {
        println!("{arm} failed: {why}");
    }
}

/// Returns the name of a row's group.
pub fn name(row: &ResultRow) -> String {
    row.group
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// Formats a line with its cells as wide as the widest of their column.
pub fn aligned(line: &[String], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines
            .iter()
            // The line of a group's name has no columns.
            .filter(|line| line.len() > 1)
            .filter_map(|line| line.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let cells = line.iter().enumerate().map(|(column, cell)| {
        let width = width(column);
        // Numbers are aligned at their last digit, so that they can be compared at a glance.
        let is_number = column == 1 || column == 2;
        if is_number {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        }
    });
    cells.collect::<Vec<_>>().join("  ")
}

/// Formats a median with its unit.
pub fn number(spread: Option<Spread>, unit: &str) -> String {
    spread.map_or("-".to_owned(), |spread| {
        format!("{} {unit}", rounded(spread.median))
            .trim_end()
            .to_owned()
    })
}

/// Rounds to three significant digits.
fn rounded(number: f64) -> String {
    let decimals = if number.abs() >= 100.0 || number == 0.0 {
        0
    } else if number.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{number:.decimals$}")
}

fn ratio(spread: Option<Spread>) -> String {
    let text =
        |Spread { median, min, max }| format!("{} ({} .. {})", fine(median), fine(min), fine(max));
    spread.map_or("-".to_owned(), text)
}

/// Formats a number with some more digits if it is small.
pub fn fine(number: f64) -> String {
    if number.abs() < 0.1 {
        format!("{number:.3}")
    } else {
        rounded(number)
    }
}

fn must(row: &ResultRow) -> String {
    match row.must {
        ResultBound::Nothing => String::new(),
        ResultBound::RatioAtMost(most) => format!("ratio <= {}", fine(most)),
        ResultBound::RatioAtLeast(least) => format!("ratio >= {}", fine(least)),
        ResultBound::MoreByAtMost(most) => format!("<= {} {} more", rounded(most), row.unit),
        ResultBound::AtMost(most) => format!("<= {} {}", rounded(most), row.unit)
            .trim_end()
            .to_owned(),
    }
}

/// Returns the results and all measured values as JSON.
pub fn json(plan: &Plan, samples: &Samples, machine: &Value, rounds: u32, quick: bool) -> Value {
    let spread = |spread: Option<Spread>| {
        spread
            .map(|Spread { median, min, max }| json!({ "median": median, "min": min, "max": max }))
    };
    let row = |row: &ResultRow| {
        let result = Result::new(row, samples);
        let peer = row
            .peer
            .as_ref()
            .map(|(name, peer)| json!({ "who": name, "arm": peer.arm, "metric": peer.name }));
        json!({
            "group": name(row),
            "what": row.description,
            "unit": row.unit,
            "ours": { "arm": row.ours.arm, "metric": row.ours.name },
            "peer": peer,
            "value": spread(result.ours),
            "peer_value": spread(result.peer),
            "ratio": spread(result.ratio),
            "must": must(row),
            "verdict": match result.verdict {
                Verdict::None => None,
                verdict => Some(verdict.word()),
            },
        })
    };
    let mut metrics: Map<String, Value> = Map::new();
    for (arm, name, values) in samples.all() {
        metrics
            .entry(arm)
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .map(|arm| arm.insert(name.to_owned(), json!(values)));
    }
    json!({
        "format": FORMAT,
        "machine": machine,
        "rounds": rounds,
        "quick": quick,
        "rows": plan.rows.iter().map(row).collect::<Vec<_>>(),
        "samples": metrics,
        "failures": samples.failures(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_compares_medians_and_losses_of_worst_round() {
        let spread = Some(Spread {
            median: 1.0,
            min: 0.0,
            max: 2.0,
        });
        for (must, expected) in [
            (ResultBound::RatioAtMost(1.0), Verdict::Pass),
            (ResultBound::RatioAtMost(0.9), Verdict::Fail),
            (ResultBound::RatioAtLeast(1.0), Verdict::Pass),
            (ResultBound::RatioAtLeast(1.1), Verdict::Fail),
            (ResultBound::AtMost(1.0), Verdict::Pass),
            (ResultBound::AtMost(0.0), Verdict::Fail),
            (ResultBound::MoreByAtMost(0.0), Verdict::Pass),
            (ResultBound::MoreByAtMost(-0.1), Verdict::Fail),
            (ResultBound::Nothing, Verdict::None),
        ] {
            assert_eq!(verdict(must, spread, spread, spread), expected, "{must:?}");
        }
        assert_eq!(
            verdict(ResultBound::RatioAtMost(1.0), spread, spread, None),
            Verdict::Missing
        );
        assert_eq!(
            verdict(ResultBound::Nothing, None, None, None),
            Verdict::Missing
        );
    }

    #[test]
    fn columns_are_as_wide_as_widest_cell_without_titles() {
        let cells = |cells: &[&str]| {
            cells
                .iter()
                .map(|cell| (*cell).to_owned())
                .collect::<Vec<_>>()
        };
        let lines = [
            cells(&["a very long title"]),
            cells(&["one", "1"]),
            cells(&["three", "100"]),
        ];
        assert_eq!(aligned(&lines[1], &lines), "one      1");
        assert_eq!(aligned(&lines[2], &lines), "three  100");
    }
}
