//! Turns the table into Rust: a wrapper for each function, the list of classes, the list of functions with their
//! numbers.
//!
//! The wrappers contain no decision: what a call means is read from its arguments' names here, what is done about it
//! stands in `src/interpose/recorder.rs`.

use super::{
    prototype::{Argument, Prototype},
    table::{Entry, LOCAL, Table},
};
use std::{collections::BTreeSet, fmt::Write as _};

/// The text of `wrappers.rs`. Functions that the MPI lacks are no symbols of the library: a program that asks whether
/// one exists is answered as by MPI.
pub(crate) fn expand(table: &Table, lacks: &BTreeSet<String>) -> String {
    let classes = table.classes();
    let mut functions = vec![String::new()];
    let mut numbers = String::new();
    let mut wrappers = String::new();
    for entry in &table.entries {
        let Prototype { name, .. } = &entry.prototype;
        let short = name.strip_prefix("MPI_").unwrap_or(name);
        let class = classes.iter().position(|class| *class == entry.class);
        if class.is_some() {
            if entry.by_hand {
                _ = writeln!(numbers, "    pub(crate) const {name}: u16 = {};", functions.len());
            }
            functions.push(short.to_owned());
        }
        let body = match class {
            _ if entry.by_hand => None,
            Some(class) => Some(counted(entry, class, functions.len() - 1)),
            None => Some(local(entry)),
        };
        let shown = if lacks.contains(name) { HIDDEN } else { EXPORTED };
        wrappers += &defined(entry, body.as_deref(), class.is_some(), shown);
    }
    format!(
        "/// Functions that are counted, by number.\npub(crate) const FUNCTIONS: &[&str] = &{functions:?};\n\
         /// Classes, by number.\npub(crate) const CLASSES: &[&str] = &{classes:?};\n\
         /// Numbers of the functions whose wrappers are written by hand.\npub(crate) mod number {{\n{numbers}}}\n\n\
         {wrappers}"
    )
}

/// Before each of a function's two names.
const EXPORTED: &str = "#[unsafe(no_mangle)]\npub";
/// What it calls is not without use, since other libraries of this source have it.
const HIDDEN: &str = "#[allow(dead_code, reason = \"this MPI lacks the function\")]";

/// A function under its two names: with this body, or written by hand. What MPI calls in itself while it works on a
/// call that is counted goes past the body.
fn defined(entry: &Entry, body: Option<&str>, is_counted: bool, shown: &str) -> String {
    let Prototype { name, arguments, .. } = &entry.prototype;
    let parameters: Vec<String> = arguments
        .iter()
        .map(|a| format!("{}: {}", rust_name(a), rust_type(a)))
        .collect();
    let (parameters, given) = (parameters.join(", "), given(entry));
    let export =
        |name: &str, body: &str| format!("{shown} unsafe extern \"C\" fn {name}({parameters}) -> c_int {{ {body} }}\n");
    let Some(body) = body else {
        let call = forward(entry);
        return export(name, &call) + &export(&format!("P{name}"), &call) + "\n";
    };
    let types: Vec<String> = arguments.iter().map(rust_type).collect();
    let communicator = arguments
        .iter()
        .find(|a| a.base == "MPI_Comm" && a.pointers == 0)
        .map_or("None".to_owned(), |a| format!("Some({})", rust_name(a)));
    let real = format!(
        "    real!(real = REAL_{name}, \"{name}\", {communicator}, fn({}));\n",
        types.join(", ")
    );
    let call = format!("unsafe {{ own_{name}({given}) }}");
    let called_by_mpi = if is_counted {
        let current = communicators(entry, |name| format!("recorder.current({name})"));
        format!(
            "\n    if let Some(recorder) = recorder::inside() {{\n{real}{current}        \
             return unsafe {{ real({given}) }};\n    }}\n    "
        )
    } else {
        String::new()
    };
    format!(
        "static REAL_{name}: Function = Function::new(\"P{name}\\0\");\n\
         unsafe extern \"C\" fn own_{name}({parameters}) -> c_int {{\n{real}{body}}}\n{}{}\n",
        export(name, &call),
        export(&format!("P{name}"), &format!("{called_by_mpi}{call}")),
    )
}

fn given(entry: &Entry) -> String {
    let names: Vec<String> = entry.prototype.arguments.iter().map(rust_name).collect();
    names.join(", ")
}

fn rust_name(argument: &Argument) -> String {
    // `type` is the only keyword among the names; a suffix keeps all of them apart from the locals of a wrapper.
    format!("{}_", argument.name)
}

fn rust_type(argument: &Argument) -> String {
    let base = match argument.base.as_str() {
        "int" => "c_int".to_owned(),
        "void" => "c_void".to_owned(),
        name if name.starts_with("MPI_") => format!("mpi_abi::{name}"),
        _ => "c_void".to_owned(),
    };
    match argument.pointers {
        0 => base,
        1 => format!("*mut {base}"),
        _ => "*mut c_void".to_owned(),
    }
}

fn forward(entry: &Entry) -> String {
    let called = match &entry.module {
        Some(module) => format!("super::{module}::{}", entry.prototype.name),
        None => "real".to_owned(),
    };
    format!("unsafe {{ {called}({}) }}", given(entry))
}

/// The communicators that the arguments mean. Each is one expression of Rust.
fn communicators(entry: &Entry, meant: impl Fn(&str) -> String) -> String {
    let given = entry
        .prototype
        .arguments
        .iter()
        .filter(|a| a.base == "MPI_Comm" && a.pointers == 0);
    given.fold(String::new(), |text, argument| {
        let name = rust_name(argument);
        text + &format!("    let {name} = {};\n", meant(&name))
    })
}

fn local(entry: &Entry) -> String {
    let call = forward(entry);
    let (before, after) = handles(entry);
    let mut given = communicators(entry, |name| format!("recorder.current({name})"));
    if entry.prototype.name == "MPI_Comm_set_errhandler" {
        given = format!("    recorder.errhandler_set(comm_, errhandler_);\n{given}");
    }
    if [&given, &before, &after].iter().all(|text| text.is_empty()) {
        return format!("    {call}\n");
    }
    let end = if after.is_empty() {
        format!("    {call}\n")
    } else {
        format!("    let code = {call};\n{after}    code\n")
    };
    format!("    let Some(recorder) = recorder::active() else {{ return {call}; }};\n{given}{before}{end}")
}

fn counted(entry: &Entry, class: usize, number: usize) -> String {
    let call = forward(entry);
    let shape = Shape::of(entry);
    let (mut before, mut after) = handles(entry);
    if shape.has_persistent {
        after += &format!(
            "    if code == 0 {{ recorder.persistent_made(unsafe {{ *request_ }}, {}, peer, bytes, {}); }}\n",
            shape.sent.is_some(),
            shape.communicator,
        );
    } else {
        if shape.sent.is_some() {
            before += &format!("    recorder.sent(entered, dest, sent, {});\n", shape.communicator);
            before += &format!(
                "    recorder.send_noted(entered, dest, {}, sent, comm_);\n",
                shape.send_tag
            );
        }
        if shape.received.is_some() {
            before += &format!(
                "    recorder.received(entered, source, received, {});\n",
                shape.communicator
            );
        }
    }
    if is_collective(entry) {
        before += &format!(
            "    recorder.collective_noted(entered, {number}, peer, bytes, {});\n",
            shape.over
        );
    }
    if is_joining(entry) {
        // Several exchanges with processes that spin, maybe on the same CPU.
        before += "    let _turns = cpu_turns::ShortTurns::begin();\n";
    }
    match entry.prototype.name.as_str() {
        "MPI_Start" => before += "    recorder.started(entered, &unsafe { [*request_] });\n",
        "MPI_Startall" => {
            before += "    recorder.started(entered, unsafe { requests(array_of_requests_, count_) });\n";
        }
        _ => {}
    }
    format!(
        "    let Some(recorder) = recorder::active() else {{ return {call}; }};\n{}{}    \
         let entered = recorder.enter({number}, {class}, peer, {}, bytes, {});\n{before}    \
         let code = {call};\n{after}    recorder.leave(entered);\n    code\n",
        communicators(entry, |name| format!(
            "match recorder.checked({name}) {{ Ok(found) => found, Err(code) => return code }}"
        )),
        shape.locals(),
        shape.tag,
        shape.communicator,
    )
}

/// Whether a call makes processes meet that started apart.
fn is_joining(entry: &Entry) -> bool {
    const JOINING: [&str; 6] = [
        "MPI_Comm_accept",
        "MPI_Comm_connect",
        "MPI_Comm_join",
        "MPI_Comm_spawn",
        "MPI_Comm_spawn_multiple",
        "MPI_Intercomm_merge",
    ];
    JOINING.contains(&entry.prototype.name.as_str())
}

/// What the names of the arguments say about a call; expressions of Rust.
struct Shape {
    communicator: String,
    /// The communicator itself.
    over: String,
    tag: &'static str,
    send_tag: &'static str,
    sent: Option<(&'static str, String)>,
    received: Option<(&'static str, String)>,
    root: bool,
    bytes: String,
    has_persistent: bool,
}

impl Shape {
    fn of(entry: &Entry) -> Self {
        let given = |name: &str| {
            entry
                .prototype
                .arguments
                .iter()
                .any(|a| a.name == name && a.pointers == 0)
        };
        let count_of = |counts: [&'static str; 2], types: [&'static str; 2]| {
            let both = counts
                .iter()
                .zip(types)
                .find(|(count, datatype)| given(count) && given(datatype));
            let partitions = if given("partitions") {
                "i64::from(partitions_) * "
            } else {
                ""
            };
            both.map(|(count, datatype)| format!("recorder.bytes({partitions}i64::from({count}_), {datatype}_)"))
        };
        let send_bytes = count_of(["sendcount", "count"], ["sendtype", "datatype"]);
        let receive_bytes = count_of(["recvcount", "count"], ["recvtype", "datatype"]);
        let zero = || "0".to_owned();
        let communicator = entry
            .prototype
            .arguments
            .iter()
            .find(|a| a.base == "MPI_Comm" && a.pointers == 0);
        let is_message = matches!(entry.class.as_str(), "send" | "receive" | "exchange" | "persistent");
        let sent = (is_message && given("dest")).then(|| ("dest_", send_bytes.clone().unwrap_or_else(zero)));
        let received = (is_message && given("source")).then(|| ("source_", receive_bytes.clone().unwrap_or_else(zero)));
        // What a scatter takes is known at its root only, what it gives at every rank.
        let scatters = entry.prototype.name.to_ascii_lowercase().contains("scatter");
        let bytes = match (scatters, send_bytes, receive_bytes) {
            (false, Some(send), Some(receive)) if send != receive => {
                format!("if recorder.is_in_place(sendbuf_) {{ {receive} }} else {{ {send} }}")
            }
            (false, Some(send), _) => send,
            (_, _, receive) => receive.unwrap_or_else(zero),
        };
        Self {
            communicator: communicator.map_or_else(zero, |c| format!("recorder.identity({})", rust_name(c))),
            over: communicator.map(rust_name).unwrap_or_default(),
            send_tag: if given("sendtag") { "sendtag_" } else { "tag_" },
            tag: ["recvtag", "tag"]
                .iter()
                .find(|name| given(name))
                .map_or("NOT_ONE", |name| match *name {
                    "tag" => "tag_",
                    _ => "recvtag_",
                }),
            root: given("root"),
            has_persistent: entry.class == "persistent",
            bytes,
            sent,
            received,
        }
    }

    fn locals(&self) -> String {
        let mut text = String::new();
        if let Some((rank, bytes)) = &self.sent {
            _ = writeln!(text, "    let (dest, sent) = (recorder.peer(comm_, {rank}), {bytes});");
        }
        if let Some((rank, bytes)) = &self.received {
            _ = writeln!(
                text,
                "    let (source, received) = (recorder.peer(comm_, {rank}), {bytes});"
            );
        }
        let (peer, bytes) = match (&self.sent, &self.received, self.root) {
            (Some(_), Some(_), _) => ("source", "sent.saturating_add(received)"),
            (Some(_), None, _) => ("dest", "sent"),
            (None, Some(_), _) => ("source", "received"),
            (None, None, true) => ("recorder.peer(comm_, root_)", self.bytes.as_str()),
            (None, None, false) => ("NOT_ONE", self.bytes.as_str()),
        };
        _ = writeln!(text, "    let (peer, bytes) = ({peer}, {bytes});");
        text
    }
}

/// Whether all ranks of the communicator must call it in the same order.
fn is_collective(entry: &Entry) -> bool {
    let name = entry.prototype.name.as_str();
    let is_over_a_communicator = matches!(
        entry.class.as_str(),
        "collective" | "communicator" | "topology" | "window" | "file"
    ) && entry
        .prototype
        .arguments
        .iter()
        .any(|a| a.base == "MPI_Comm" && a.pointers == 0);
    let is_otherwise = ["_init", "_group", "Intercomm", "_buffer", "Threadcomm"]
        .iter()
        .any(|part| name.contains(part));
    is_over_a_communicator && !is_otherwise
}

/// What is remembered or forgotten about handles, before and after the call.
fn handles(entry: &Entry) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    let name = entry.prototype.name.as_str();
    let ends = name.ends_with("_free") || name == "MPI_Comm_disconnect";
    for argument in entry.prototype.arguments.iter().filter(|a| a.pointers == 1) {
        let kind = match argument.base.as_str() {
            "MPI_Comm" => "communicator",
            "MPI_Datatype" if entry.class == LOCAL => "datatype",
            "MPI_Request" if name == "MPI_Request_free" => "persistent",
            _ => continue,
        };
        let argument = rust_name(argument);
        let given = format!("let Some(handle) = unsafe {{ {argument}.as_ref() }}");
        if ends {
            before += &format!("    if {given} {{ recorder.{kind}_ended(*handle); }}\n");
        } else {
            after += &format!("    if code == 0 && {given} {{ recorder.{kind}_made(*handle); }}\n");
            // One that is made in the background may not be used, not even asked for its ranks, before it is complete.
            let is_made_by_now = matches!(entry.class.as_str(), "communicator" | "topology") && !name.contains("idup");
            if kind == "communicator" && is_made_by_now {
                after += &format!("    if code == 0 && {given} {{ recorder.communicator_ordered(*handle); }}\n");
            }
        }
    }
    (before, after)
}
