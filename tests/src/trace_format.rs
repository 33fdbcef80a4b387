//! The rules of the trace event format (its JSON object form, as Perfetto and Chrome read it), checked strictly: a
//! field that is wrong, missing or unknown is told. Stands in for a reader of another house, which no package registry
//! carries.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Problems that are told; one mistake repeats itself in every event.
const PROBLEMS_MAX: usize = 20;

/// What is wrong with a document; empty when a reader shows all of it.
pub fn problems(document: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let known = ["traceEvents", "displayTimeUnit", "otherData"];
    let Some(fields) = document.as_object() else {
        return vec!["the document is no object".to_owned()];
    };
    for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
        problems.push(format!("unknown field {name} of the document"));
    }
    if !matches!(document["displayTimeUnit"].as_str(), Some("ms" | "ns")) {
        problems.push("displayTimeUnit is neither ms nor ns".to_owned());
    }
    let Some(events) = document["traceEvents"].as_array() else {
        problems.push("traceEvents is no list".to_owned());
        return problems;
    };
    for event in events {
        if let Err(problem) = check(event) {
            problems.push(format!("{problem} in {event}"));
        }
    }
    problems.extend(unnamed(events));
    problems.extend(crossing(events));
    problems.truncate(PROBLEMS_MAX);
    problems
}

fn check(event: &Value) -> Result<(), String> {
    let fields = event.as_object().ok_or("no object")?;
    let phase = text(fields, "ph")?;
    let (needed, allowed): (&[&str], &[&str]) = match phase {
        "X" => (&["name", "cat", "ts", "dur", "pid", "tid"], &["args"]),
        "C" => (&["name", "ts", "pid", "args"], &["id"]),
        "i" => (&["name", "ts", "pid", "tid", "s"], &["args", "cat"]),
        "M" => (&["name", "pid", "args"], &["tid"]),
        other => return Err(format!("phase {other:?} is not written by this software")),
    };
    for name in needed {
        if !fields.contains_key(*name) {
            return Err(format!("no {name}"));
        }
    }
    for name in fields.keys().filter(|name| *name != "ph") {
        if !needed.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
            return Err(format!("{name} has no place in phase {phase}"));
        }
    }
    if text(fields, "name")?.is_empty() {
        return Err("an empty name".to_owned());
    }
    for name in ["pid", "tid"].iter().filter(|name| fields.contains_key(**name)) {
        let number = fields[*name].as_u64().filter(|number| *number <= i32::MAX as u64);
        number.ok_or(format!("{name} is no number of a process or thread"))?;
    }
    for name in ["ts", "dur"].iter().filter(|name| fields.contains_key(**name)) {
        let time = fields[*name].as_f64().filter(|time| time.is_finite() && *time >= 0.0);
        time.ok_or(format!("{name} is no time"))?;
    }
    if phase == "i" && !["g", "p", "t"].contains(&text(fields, "s")?) {
        return Err("the scope is none of g, p, t".to_owned());
    }
    arguments(fields, phase)
}

fn arguments(fields: &Map<String, Value>, phase: &str) -> Result<(), String> {
    let Some(arguments) = fields.get("args") else {
        return Ok(());
    };
    let arguments = arguments.as_object().ok_or("args is no object")?;
    match phase {
        "C" if arguments.is_empty() || !arguments.values().all(Value::is_number) => {
            Err("a counter counts numbers".to_owned())
        }
        "M" => {
            let name = text(fields, "name")?;
            if !["process_name", "thread_name"].contains(&name) {
                return Err(format!("metadata {name:?} is not known"));
            }
            text(arguments, "name").map(|_| ())
        }
        _ => Ok(()),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    fields
        .get(name)
        .and_then(Value::as_str)
        .ok_or(format!("{name} is no text"))
}

/// Lines a person sees must have a name.
fn unnamed(events: &[Value]) -> Vec<String> {
    let line = |event: &Value| (event["pid"].as_u64(), event["tid"].as_u64());
    let named = |kind: &str| -> BTreeSet<_> {
        let names = events
            .iter()
            .filter(|event| event["ph"] == "M" && event["name"] == kind);
        names.map(line).collect()
    };
    let (processes, threads) = (named("process_name"), named("thread_name"));
    let mut problems = BTreeSet::new();
    for event in events.iter().filter(|event| event["ph"] != "M") {
        let (process, thread) = line(event);
        if !processes.iter().any(|(named, _)| *named == process) {
            problems.insert(format!("process {process:?} has no name"));
        }
        if thread.is_some() && !threads.contains(&(process, thread)) {
            problems.insert(format!("thread {thread:?} of process {process:?} has no name"));
        }
    }
    problems.into_iter().collect()
}

/// A reader can draw a line only when of two slices on it one lies within the other or behind it.
fn crossing(events: &[Value]) -> Vec<String> {
    /// What stands in a file is rounded to a nanosecond.
    const ROUNDED_US: f64 = 0.002;
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (Some(begin), Some(length)) = (event["ts"].as_f64(), event["dur"].as_f64()) else {
            continue;
        };
        let line = format!("{} {}", event["pid"], event["tid"]);
        lines.entry(line).or_default().push((begin, begin + length));
    }
    let mut problems = Vec::new();
    for (line, mut slices) in lines {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<(f64, f64)> = Vec::new();
        for slice in slices {
            open.retain(|outer| outer.1 > slice.0 + ROUNDED_US);
            if let Some(outer) = open.last().filter(|outer| slice.1 > outer.1 + ROUNDED_US) {
                problems.push(format!("line {line}: {slice:?} crosses the end of {outer:?}"));
            }
            open.push(slice);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sound() -> Value {
        json!({ "displayTimeUnit": "ms", "otherData": {}, "traceEvents": [
            { "ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": { "name": "job" } },
            { "ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": { "name": "rank 0" } },
            { "ph": "X", "pid": 1, "tid": 2, "name": "iteration", "cat": "iteration",
              "ts": 1.5, "dur": 10, "args": {} },
            { "ph": "X", "pid": 1, "tid": 2, "name": "MPI_Recv", "cat": "mpi",
              "ts": 2, "dur": 3.25, "args": { "bytes": 8 } },
            { "ph": "C", "pid": 1, "name": "load", "ts": 3, "args": { "CPUs": 0.5 } },
            { "ph": "i", "pid": 1, "tid": 2, "s": "p", "name": "job_started", "ts": 0 },
        ] })
    }

    #[test]
    fn a_sound_trace_has_no_problems() {
        assert_eq!(problems(&sound()), Vec::<String>::new());
    }

    #[test]
    fn every_planted_fault_is_told() {
        let faults = [
            ("/displayTimeUnit", json!("s")),
            ("/traceEvents", json!({})),
            ("/traceEvents/2/ph", json!("Q")),
            ("/traceEvents/2/ts", json!("1.5")),
            ("/traceEvents/2/dur", json!(-1)),
            ("/traceEvents/2/pid", json!(9)),
            ("/traceEvents/2/tid", json!(7)),
            ("/traceEvents/2/name", json!("")),
            ("/traceEvents/3/dur", json!(30)),
            ("/traceEvents/4/args", json!({ "CPUs": "much" })),
            ("/traceEvents/5/s", json!("x")),
            ("/traceEvents/1/args", json!({})),
        ];
        for (place, fault) in faults {
            let mut document = sound();
            *document.pointer_mut(place).expect("a place") = fault;
            assert!(!problems(&document).is_empty(), "{place}");
        }
    }
}
