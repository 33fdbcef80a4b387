//! The document: one file, no request to anywhere, light and dark, readable on a narrow screen. All text of jobs and
//! nodes is escaped.

use super::plots;
use super::story::Story;
use crate::svg::escape;
use crate::table::bytes;
use crate::time;
use pcm_proto::event::Recovered;
use std::fmt::Write as _;

/// Rows of a list, the newest; the log has all.
const ROWS_MAX: usize = 500;

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1c2126;--soft:#59636e;--line:#d0d7de;--strong:#0a5ec2;\
--mark:#b3261e;--n0:#a8cdf0;--n1:#f6cf9c;--n2:#b5e0b0;--n3:#f2b8b5;--n4:#d5c3ee;--n5:#e0d3a8;--n6:#b0e0dc;\
--n7:#e3bcd8}\
@media(prefers-color-scheme:dark){:root{--back:#14181d;--text:#e6e9ec;--soft:#9aa4ae;--line:#39424c;--strong:#79b8ff;\
--mark:#ff8a80;--n0:#1f4d7a;--n1:#7a4c11;--n2:#2b6126;--n3:#7d2f2b;--n4:#4f3a78;--n5:#62561e;--n6:#1d615c;\
--n7:#6c3260}}*{box-sizing:border-box}\
body{margin:0 auto;max-width:1040px;padding:12px;font:16px/1.45 system-ui,sans-serif;background:var(--back);\
color:var(--text)}h1{font-size:1.4rem;margin:.2em 0}h2{font-size:1.05rem;margin:1.2em 0 .3em}p{margin:.3em 0}\
.soft{color:var(--soft)}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:0 24px}\
svg{width:100%;height:auto;display:block}svg text{font:13px system-ui,sans-serif;fill:var(--text)}\
.axis{fill:none;stroke:var(--soft)}.grid{fill:none;stroke:var(--line)}\
.line{fill:none;stroke:var(--strong);stroke-width:2;stroke-linejoin:round}\
.mark{fill:none;stroke:var(--mark);stroke-width:2;stroke-dasharray:5 3}\
.crash{fill:none;stroke:var(--mark);stroke-width:2}.kept{fill:var(--soft)}\
.predicted{fill:var(--line);stroke:var(--soft)}.achieved,.heat{fill:var(--strong)}.n0{fill:var(--n0)}\
.n1{fill:var(--n1)}.n2{fill:var(--n2)}.n3{fill:var(--n3)}.n4{fill:var(--n4)}.n5{fill:var(--n5)}.n6{fill:var(--n6)}\
.n7{fill:var(--n7)}.wide{overflow-x:auto}.wide td,.wide th{white-space:nowrap}.events td{overflow-wrap:anywhere}\
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:2px 12px 2px 0;border-bottom:1px solid var(--line);vertical-align:top}\
details{border:1px solid var(--line);border-radius:6px;padding:4px 10px;margin:.4em 0}summary{cursor:pointer}\
.forms{display:flex;flex-wrap:wrap;gap:4px 28px}\
form{display:flex;flex-wrap:wrap;gap:8px;align-items:end;margin:.4em 0}label{font-size:.9rem}\
input,select,button{font:inherit;padding:4px 8px;max-width:9em;color:inherit;background:var(--back);\
border:1px solid var(--soft);border-radius:4px}button{cursor:pointer}\
button:focus-visible,input:focus-visible,summary:focus-visible{outline:3px solid var(--strong)}";

/// A whole document around `body`, which is HTML already.
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{STYLE}</style></head>\n\
         <body>{body}</body></html>\n",
        escape(title)
    )
}

/// What is to be said and drawn of a job; `lines` are its events in words, oldest first.
pub(super) fn content(story: &Story, lines: &[String]) -> String {
    let mut html = head(story);
    let plot = |title: &str, note: &str, svg: String| {
        let note = if note.is_empty() {
            String::new()
        } else {
            format!("<p class=\"soft\">{note}</p>")
        };
        format!("<section><h2>{title}</h2>{svg}{note}</section>")
    };
    html += "<div class=\"plots\">";
    html += &plot("Ranks over nodes", "Dashed: a reconfiguration.", plots::timeline(story));
    html += &if story.rates.is_empty() {
        plot(
            "Iterations per second",
            "No samples of iterations were kept.",
            String::new(),
        )
    } else {
        plot(
            "Iterations per second",
            "Dashed: a reconfiguration. Ticks at the foot: checkpoints. Solid red: a crash.",
            plots::rates(story),
        )
    };
    if !story.choices.is_empty() {
        html += &plot(
            "Predicted and achieved gain",
            "Each change that agents chose: upper bar predicted, lower bar achieved so far.",
            plots::gains(&story.choices),
        );
    }
    if !story.loads.is_empty() {
        html += &plot(
            "Load per node",
            &format!(
                "CPUs taken by others than the ranks of the node, 0 to {:.2}; a stronger colour is more.",
                plots::load_most(story)
            ),
            plots::loads(story),
        );
    }
    let note = "Bytes sent from rank to rank in the present layout; a stronger colour is more, where there are few \
                cells, pointing at one tells how many.";
    html += &if story.traffic.is_empty() {
        plot("Messages between ranks", "None were seen.", String::new())
    } else {
        plot("Messages between ranks", note, plots::matrix(story))
    };
    html += "</div>";
    html += &changes(story);
    html += &choices(story);
    html += &checkpoints(story);
    html += &crashes(story);
    html += &events(lines);
    html
}

fn head(story: &Story) -> String {
    let status = &story.status;
    let end = match &status.end {
        Some(end) if end.code == 0 => "ended well".to_owned(),
        Some(end) => format!("ended with code {}: {}", end.code, end.reason),
        None => format!("{:?}", status.state).to_lowercase(),
    };
    // The sum of nothing is a zero with a sign.
    let pause = story.changes.iter().map(|change| change.done.pause_ms).sum::<f64>() + 0.0;
    let moved: u64 = story.changes.iter().map(|change| change.done.bytes_moved.0).sum();
    format!(
        "<h1>Job {} {}</h1><p>{}, {} ranks, epoch {}, begun {} UTC, {:.1} s.</p>\
         <p>{} reconfigurations moved {} and held the application for {:.1} ms in all.</p>",
        status.job,
        escape(&status.name),
        escape(&end),
        status.size,
        status.epoch,
        time::rfc3339(story.begin_us)
            .get(..19)
            .unwrap_or_default()
            .replace('T', " "),
        story.seconds,
        story.changes.len(),
        bytes(moved),
        pause
    )
}

fn changes(story: &Story) -> String {
    if story.changes.is_empty() {
        return String::new();
    }
    let heads = [
        "Time (s)",
        "Plan",
        "Ranks",
        "Moved",
        "Data",
        "Pause (ms)",
        "In all (ms)",
        "Cause",
    ];
    let rows = story.changes.iter().map(|change| {
        let done = &change.done;
        let moved: Vec<String> = done.moved.iter().take(16).map(moved_words).collect();
        vec![
            format!("{:.2}", change.at),
            done.plan.clone(),
            format!("{} to {}", done.ranks_before, done.ranks_after),
            moved.join(", "),
            bytes(done.bytes_moved.0),
            format!("{:.1}", done.pause_ms),
            format!("{:.1}", done.total_ms),
            done.cause.clone(),
        ]
    });
    format!("<h2>Reconfigurations</h2>{}", table(&heads, rows))
}

/// Rows of a table, the newest first.
fn table(heads: &[&str], rows: impl DoubleEndedIterator<Item = Vec<String>>) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>")
    };
    let head = cells("th", &mut heads.iter().map(|head| (*head).to_owned()));
    let rows = rows.rev().take(ROWS_MAX);
    let rows: String = rows
        .map(|row| cells("td", &mut row.iter().map(|cell| escape(cell))))
        .collect();
    format!("<div class=\"wide\"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>")
}

/// What agents expected of the changes they chose, and what came of it.
fn choices(story: &Story) -> String {
    if story.choices.is_empty() {
        return String::new();
    }
    let heads = [
        "Time (s)",
        "Policy",
        "Chosen",
        "Predicted gain (s)",
        "Cost (s)",
        "Achieved so far (s)",
    ];
    let rows = story.choices.iter().map(|choice| {
        let achieved = choice.achieved_s.map_or("-".to_owned(), |gain| format!("{gain:.2}"));
        vec![
            format!("{:.2}", choice.at),
            choice.policy.clone(),
            choice.chosen.clone(),
            format!("{:.2}", choice.predicted_s),
            format!("{:.2}", choice.cost_s),
            achieved,
        ]
    });
    format!("<h2>Decisions</h2>{}", table(&heads, rows))
}

/// What could be gone back to, and what was.
fn checkpoints(story: &Story) -> String {
    let Some(newest) = story.checkpoints.last() else {
        return String::new();
    };
    let held = story.checkpoints.iter().map(|made| made.held_ms).fold(0.0, f64::max);
    let heads = ["Time (s)", "Iteration", "Ranks", "Data", "Held (ms)"];
    let rows = story.checkpoints.iter().map(|made| {
        vec![
            format!("{:.2}", made.at),
            made.iteration.to_string(),
            made.ranks.to_string(),
            bytes(made.bytes),
            format!("{:.1}", made.held_ms),
        ]
    });
    format!(
        "<h2>Checkpoints</h2><p>{} made; the newest begins with iteration {}. The program was held for {held:.1} ms at \
         most.</p><details><summary>All</summary>{}</details>",
        story.checkpoints.len(),
        newest.iteration,
        table(&heads, rows)
    )
}

fn crashes(story: &Story) -> String {
    if story.crashes.is_empty() {
        return String::new();
    }
    let heads = [
        "Time (s)",
        "What happened",
        "Begun again with",
        "Done twice",
        "Away (ms)",
    ];
    let rows = story.crashes.iter().map(|crash| {
        let back = |words: fn(&Recovered) -> String| crash.back.as_ref().map_or("-".to_owned(), words);
        vec![
            format!("{:.2}", crash.at),
            crash.reason.clone(),
            back(|back| format!("iteration {}", back.from)),
            back(|back| format!("{} iterations", back.rolled_back)),
            back(|back| format!("{:.0}", back.total_ms)),
        ]
    });
    format!("<h2>Crashes</h2>{}", table(&heads, rows))
}

fn moved_words(moved: &pcm_proto::event::Moved) -> String {
    match (&moved.from, &moved.to) {
        (Some(from), Some(to)) => format!("{} {from} to {to}", moved.rank),
        (None, Some(to)) => format!("{} new on {to}", moved.rank),
        (Some(from), None) => format!("{} left {from}", moved.rank),
        (None, None) => moved.rank.to_string(),
    }
}

fn events(lines: &[String]) -> String {
    let mut html = "<h2>Events</h2><table class=\"events\"><tbody>".to_owned();
    for line in lines.iter().rev().take(ROWS_MAX) {
        _ = write!(html, "<tr><td>{}</td></tr>", escape(line));
    }
    html + "</tbody></table>"
}
