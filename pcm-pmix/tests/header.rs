//! The bindings against the header of PMIx, by a C compiler: layouts as this compiler has them, and each number, name,
//! type of a callback and function as the source declares it. libpmix would take one field for another.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(unreachable_pub, reason = "the file is also a module of a library")]
#[path = "../../tests/src/skip.rs"]
mod skip;

use pcm_pmix::bindings::types::{
    pmix_app_t, pmix_byte_object_t, pmix_data_array_t, pmix_envar_t, pmix_info_t, pmix_pdata_t, pmix_proc_t,
    pmix_server_module_t, pmix_value_data, pmix_value_t,
};
use std::{
    env, fs,
    io::Write as _,
    mem::{offset_of, size_of},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const HEAD: &str = "\
#include <pmix_server.h>
#include <pmix.h>
#include <stddef.h>
#define SAME(what, value) _Static_assert((long long)(what) == (long long)(value), #what)
#define TEXT(what, text) _Static_assert(!__builtin_strcmp(what, text), #what)
#define KIND(what, type) _Static_assert(__builtin_types_compatible_p(what, type), #what)
";

/// Fields of the functions that came with PMIx 5.
const SINCE_5: &str = "session_control";

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bindings").join(name);
    fs::read_to_string(path).unwrap()
}

macro_rules! laid_out {
    ($text:ident, $name:ident { $($field:ident $(as $in_c:ident)?),* }) => {
        $text += &format!("SAME(sizeof({0}), {1});\n", stringify!($name), size_of::<$name>());
        $(
            let field = [$(stringify!($in_c),)? stringify!($field)][0];
            $text += &format!("SAME(offsetof({}, {field}), {});\n", stringify!($name), offset_of!($name, $field));
        )*
    };
}

fn layouts() -> String {
    let mut text = String::new();
    laid_out!(text, pmix_proc_t { nspace, rank });
    laid_out!(text, pmix_byte_object_t { bytes, size });
    laid_out!(
        text,
        pmix_envar_t {
            envar,
            value,
            separator
        }
    );
    laid_out!(text, pmix_data_array_t { kind as type, size, array });
    laid_out!(text, pmix_value_t { kind as type, data });
    laid_out!(text, pmix_info_t { key, flags, value });
    laid_out!(text, pmix_pdata_t { proc, key, value });
    laid_out!(
        text,
        pmix_app_t {
            cmd,
            argv,
            env,
            cwd,
            maxprocs,
            info,
            ninfo
        }
    );
    text += &format!(
        "SAME(sizeof(((pmix_value_t *)0)->data), {});\n",
        size_of::<pmix_value_data>()
    );
    for member in ["flag", "uint64", "string", "proc", "darray", "bo", "envar"] {
        text += &format!("SAME(offsetof(pmix_value_t, data.{member}), offsetof(pmix_value_t, data));\n");
    }
    text
}

/// The struct of functions, field by field: its place, and the type of those that are given.
fn module() -> String {
    let types = source("types.rs");
    let (_, own) = types.split_once("pub struct pmix_server_module_t {\n").unwrap();
    let mut text = String::new();
    let fields = own
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
    for (index, (field, kind)) in fields.take_while(|(field, _)| *field != "later").enumerate() {
        let line = format!(
            "SAME(offsetof(pmix_server_module_t, {field}), {});\n",
            index * size_of::<usize>()
        );
        match field == SINCE_5 {
            true => text += &format!("#if PMIX_VERSION_MAJOR >= 5\n{line}#endif\n"),
            false => text += &line,
        }
        let kind = kind.trim_end_matches(',');
        if kind.starts_with("pmix_") {
            text += &format!("KIND(__typeof__(((pmix_server_module_t *)0)->{field}), {kind});\n");
        }
    }
    assert_eq!(
        offset_of!(pmix_server_module_t, later),
        text.matches("offsetof").count() * size_of::<usize>()
    );
    text
}

/// From lines as `pub const PMIX_ERROR: pmix_status_t = -1;` and `pub const PMIX_WAIT: &CStr = c"pmix.wait";`.
fn constants() -> String {
    let mut text = String::new();
    for line in (source("numbers.rs") + &source("attributes.rs")).lines() {
        let Some((name, rest)) = line.strip_prefix("pub const ").and_then(|line| line.split_once(": ")) else {
            continue;
        };
        let value = rest.split_once(" = ").unwrap().1.trim_end_matches(';');
        text += &match value.strip_prefix('c') {
            Some(value) => format!("TEXT({name}, {value});\n"),
            None => format!("SAME({name}, {value});\n"),
        };
    }
    text
}

/// From `pub type pmix_op_cbfunc_t = Option<unsafe extern "C" fn(status: pmix_status_t, ...)>;` in any number of lines.
fn callbacks() -> String {
    let types = source("types.rs");
    let mut text = String::new();
    for statement in types.split("pub type ").skip(1) {
        let statement = statement.split(';').next().unwrap();
        let (name, rest) = statement.split_once(" =").unwrap();
        let (_, rest) = rest.split_once("fn(").unwrap();
        let (arguments, rest) = rest.split_once(')').unwrap();
        let returned = rest
            .split_once("-> ")
            .map_or("void", |(_, kind)| kind.trim_end_matches(['>', ',', '\n']));
        text += &format!(
            "KIND({name}, {} (*)({}));\n",
            in_c(returned.trim()),
            arguments_in_c(arguments)
        );
    }
    text
}

/// The functions once more, in C.
fn functions() -> String {
    let all = source("functions.rs");
    let (_, all) = all.split_once("of_pmix! {\n").unwrap();
    let (all, _) = all.split_once("\n}\n").unwrap();
    let mut text = String::new();
    for declaration in all.split("pub fn ").skip(1) {
        let declaration = declaration.split(';').next().unwrap();
        let (name, rest) = declaration.split_once('(').unwrap();
        let (arguments, rest) = rest.split_once(')').unwrap();
        let returned = rest.split_once("-> ").map_or("void", |(_, kind)| kind.trim());
        text += &format!("{} {name}({});\n", in_c(returned), arguments_in_c(arguments));
    }
    text
}

fn arguments_in_c(arguments: &str) -> String {
    let kinds = arguments.split(',').filter_map(|argument| argument.split_once(": "));
    let kinds: Vec<String> = kinds.map(|(_, kind)| in_c(kind.trim())).collect();
    if kinds.is_empty() {
        "void".to_owned()
    } else {
        kinds.join(", ")
    }
}

/// A type of Rust as C has it.
fn in_c(kind: &str) -> String {
    if let Some(target) = kind.strip_prefix("*mut ") {
        return format!("{} *", in_c(target));
    }
    if let Some(target) = kind.strip_prefix("*const ") {
        return format!("const {} *", in_c(target));
    }
    match kind {
        "usize" => "size_t".to_owned(),
        "u32" => "unsigned int".to_owned(),
        "u8" => "unsigned char".to_owned(),
        kind => kind.strip_prefix("c_").unwrap_or(kind).to_owned(),
    }
}

/// Folders of headers: those that a variable names, else Debian's.
fn headers() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("PCM_PMIX_INCLUDE") {
        return env::split_paths(&named).collect();
    }
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let folders = libraries.map(|folder| folder.path().join("pmix2/include"));
    folders
        .filter(|folder| folder.join("pmix_server.h").is_file())
        .collect()
}

/// Whether the compiler takes a C file with these headers, and what it says.
fn said_to(headers: &Path, text: &str) -> (bool, String) {
    let mut compile = Command::new("cc");
    compile.arg("-I").arg(headers).args(["-fsyntax-only", "-x", "c", "-"]);
    let mut child = compile.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A compiler that ends early says why below.
    _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn every_line_is_that_of_the_header_and_one_that_differs_is_found() {
    let parts = [
        HEAD.to_owned(),
        layouts(),
        module(),
        constants(),
        callbacks(),
        functions(),
    ];
    let text = parts.concat();
    assert!(text.lines().count() > 190, "{text}");
    let planted = [
        ("SAME(PMIX_ERR_TIMEOUT, -24);", "SAME(PMIX_ERR_TIMEOUT, -25);"),
        ("TEXT(PMIX_WAIT, \"pmix.wait\");", "TEXT(PMIX_WAIT, \"pmix.wail\");"),
        (
            "SAME(offsetof(pmix_info_t, value), 520);",
            "SAME(offsetof(pmix_info_t, value), 516);",
        ),
        (
            "KIND(pmix_op_cbfunc_t, void (*)(pmix_status_t, void *));",
            "KIND(pmix_op_cbfunc_t, void (*)(void *));",
        ),
        (
            "pmix_status_t PMIx_server_finalize(void);",
            "pmix_status_t PMIx_server_finalize(int);",
        ),
    ];
    for (line, _) in planted {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    let all = headers();
    if all.is_empty() {
        skip::cannot_run("there is no header of PMIx: install libpmix-dev, or name its folder in PCM_PMIX_INCLUDE");
    }
    for headers in all {
        let (agrees, said) = said_to(&headers, &text);
        assert!(agrees, "{}: {said}", headers.display());
        for (line, other) in planted {
            let (agrees, _) = said_to(&headers, &text.replace(line, other));
            assert!(!agrees, "{other}");
        }
    }
}
