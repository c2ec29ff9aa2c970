//! Charts in SVG, with a title and a text description. Their colours come from the page, which
//! supports light and dark modes.
use super::{Timeline, html::Html, timeline::Counts};
use crate::shown_time;
use std::fmt::Display;

const WIDTH: u64 = 720;
const HEIGHT: u64 = 160;
/// Width of the numbers at the left.
const LEFT: u64 = 56;
/// Height of the times below the chart.
const BELOW: u64 = 22;
/// Height of the margin above the chart.
const ABOVE: u64 = 10;
/// Height of a named bar with its margin.
const ROW: u64 = 24;
/// Width of the names.
const NAMES: u64 = 270;
/// Width of the numbers after the bars.
const NUMBERS: u64 = 72;

/// Two series over time that are parts of a whole, with their names.
pub(super) struct ChartParts {
    /// The id of the chart in the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) names: [&'static str; 2],
    pub(super) of: fn(&Counts) -> [u64; 2],
}

/// Draws bars over time, the second series on top of the first.
pub(super) fn over_time(html: &mut Html, line: &Timeline, parts: &ChartParts) {
    let bars = line
        .stretches()
        .map(|(at, counts)| (at, (parts.of)(&counts)));
    let highest = bars
        .clone()
        .map(|(_, [one, other])| one + other)
        .max()
        .unwrap_or_default()
        // Heights are divided by it, and a trail without calls has no highest bar.
        .max(1);
    let [first, second] = (parts.of)(&line.sum());
    let [first_name, second_name] = parts.names;
    let begin = bars.clone().next().map(|(at, _)| at).unwrap_or_default();
    let end = bars
        .clone()
        .last()
        .map_or(begin, |(at, _)| at.saturating_add(line.width()));
    let description = format!(
        "{first} {first_name} and {second} {second_name} from {} to {}; at most {highest} in {}",
        shown_time(begin),
        shown_time(end),
        length(line.width())
    );
    figure(
        html,
        parts.id,
        parts.title,
        &description,
        HEIGHT + ABOVE + BELOW,
    );
    let floor = ABOVE + HEIGHT;
    let room = WIDTH - LEFT;
    let count = line.count().max(1);
    for (at, label) in [(ABOVE, highest), (floor, 0)] {
        line_at(html, at);
        label_at(html, LEFT - 6, at + 4, "end", label);
    }
    for (index, (at, [one, other])) in (0..).zip(bars) {
        let from = LEFT + room * index / count;
        let to = LEFT + room * (index + 1) / count;
        // One unit stays free between bars.
        let width = (to - from).saturating_sub(1).max(1);
        let low = height(one, highest, HEIGHT);
        let high = height(one + other, highest, HEIGHT).max(low);
        let about = |name: &str, number: u64| format!("{}: {number} {name}", shown_time(at));
        if one > 0 {
            bar(
                html,
                "a",
                [from, floor - low, width, low],
                &about(first_name, one),
            );
        }
        if other > 0 {
            // Even a tiny share must be visible.
            let tall = (high - low).max(2);
            bar(
                html,
                "b",
                [from, floor.saturating_sub(low + tall), width, tall],
                &about(second_name, other),
            );
        }
    }
    label_at(html, LEFT, floor + 16, "start", shown_time(begin));
    label_at(html, WIDTH, floor + 16, "end", shown_time(end));
    html.raw("</svg><figcaption><span class=\"key a\"></span> ")
        .raw(first_name);
    html.raw(" <span class=\"key b\"></span> ")
        .raw(second_name)
        .raw(", in stretches of ")
        .text(length(line.width()));
    html.raw("</figcaption></figure>");
}

/// Draws named bars in the given order.
pub(super) fn by_name(
    html: &mut Html,
    id: &'static str,
    title: &'static str,
    bars: &[(String, u64)],
) {
    let highest = bars
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or_default()
        .max(1);
    let description = bars
        .iter()
        .map(|(name, count)| format!("{name}: {count}"))
        .collect::<Vec<_>>()
        .join(", ");
    figure(html, id, title, &description, ROW * bars.len() as u64);
    for (index, (name, count)) in (0..).zip(bars) {
        let top = ROW * index;
        label_at(html, NAMES - 8, top + 16, "end", name);
        // Even the smallest bar must be visible.
        let width = height(*count, highest, WIDTH - NAMES - NUMBERS).max(2);
        bar(
            html,
            "b",
            [NAMES, top + 4, width, ROW - 8],
            &format!("{name}: {count}"),
        );
        label_at(html, NAMES + width + 6, top + 16, "start", count);
    }
    html.raw("</svg></figure>");
}

/// Writes the beginning of a chart.
fn figure(html: &mut Html, id: &'static str, title: &'static str, description: &str, tall: u64) {
    // With the role and the ids, a screen reader reads the chart as one described image.
    html.raw("<figure><svg role=\"img\" viewBox=\"0 0 ")
        .text(WIDTH)
        .raw(" ")
        .text(tall);
    html.raw("\" aria-labelledby=\"")
        .raw(id)
        .raw("-title ")
        .raw(id)
        .raw("-desc\"><title id=\"")
        .raw(id);
    html.raw("-title\">")
        .raw(title)
        .raw("</title><desc id=\"")
        .raw(id)
        .raw("-desc\">")
        .text(description)
        .raw("</desc>");
}

fn bar(
    html: &mut Html,
    class: &'static str,
    [left, top, width, tall]: [u64; 4],
    description: &str,
) {
    html.raw("<rect class=\"")
        .raw(class)
        .raw("\" x=\"")
        .text(left)
        .raw("\" y=\"")
        .text(top);
    html.raw("\" width=\"")
        .text(width)
        .raw("\" height=\"")
        .text(tall)
        .raw("\"><title>")
        .text(description);
    html.raw("</title></rect>");
}

fn label_at(html: &mut Html, left: u64, base: u64, anchor: &'static str, label: impl Display) {
    html.raw("<text x=\"")
        .text(left)
        .raw("\" y=\"")
        .text(base)
        .raw("\" text-anchor=\"")
        .raw(anchor);
    html.raw("\">").text(label).raw("</text>");
}

fn line_at(html: &mut Html, at: u64) {
    html.raw("<line x1=\"")
        .text(LEFT)
        .raw("\" x2=\"")
        .text(WIDTH)
        .raw("\" y1=\"")
        .text(at);
    html.raw("\" y2=\"").text(at).raw("\"/>");
}

/// Returns the height of a bar for `count`, where `most` has the height `tall`.
fn height(count: u64, most: u64, tall: u64) -> u64 {
    let high = u128::from(count) * u128::from(tall) / u128::from(most.max(1));
    u64::try_from(high).unwrap_or(tall).min(tall)
}

/// Returns a duration as text.
pub(super) fn length(milliseconds: u64) -> String {
    humantime::format_duration(std::time::Duration::from_millis(milliseconds)).to_string()
}
