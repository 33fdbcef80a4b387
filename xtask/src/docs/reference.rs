//! The reference of the C interface: a page of Markdown from the comments of pcm.h. Must never say what pcm.h does not.

use super::markdown::slug;
use std::collections::BTreeMap;

/// Names of the interface, and what a link to each names after `#`.
type Known = BTreeMap<String, String>;

/// A declaration with the comment above it.
struct Entry {
    comment: Vec<String>,
    code: Vec<String>,
}

const INTRODUCTION: &str = "# pcm.h

This page is made from `pcm.h`, the header of the C interface. [C++](../../docs/guide-cpp.md),
[Fortran](../../docs/guide-fortran.md), [Python](../../docs/guide-python.md) and [Rust](../../docs/guide-rust.md) have
the same functions under names of their own. The [guide](../../docs/guide.md) shows how they are used together.
";

/// A part of the page, and which entries it has.
struct Group {
    title: &'static str,
    has: fn(&Entry) -> bool,
}

const GROUPS: [Group; 3] = [
    Group {
        title: "Functions",
        has: |entry| !entry.code.is_empty() && !entry.is_macro() && !entry.is_type(),
    },
    Group {
        title: "Arrays and their options",
        has: Entry::is_macro,
    },
    Group {
        title: "Types",
        has: Entry::is_type,
    },
];

/// The page as Markdown.
pub(super) fn markdown(header: &str) -> String {
    let entries = entries(header);
    let mut known = Known::new();
    for entry in &entries {
        let id = slug(&entry.heading());
        known.extend(entry.names().into_iter().map(|name| (name, id.clone())));
    }
    let mut page = INTRODUCTION.to_owned();
    // The first comment is about the whole header; its first line is a title.
    if let Some((head, _)) = entries.split_first() {
        let comment = head.comment.iter().skip(1).cloned().collect();
        let code = Vec::new();
        page += &Entry { comment, code }.prose(&known);
    }
    for Group { title, has } in GROUPS {
        page += &format!("\n## {title}\n");
        for entry in entries.iter().filter(|entry| has(entry)) {
            page += &format!("\n### {}\n\n```c\n{}\n```\n", entry.heading(), entry.code.join("\n"));
            page += &entry.prose(&known);
        }
    }
    page
}

impl Entry {
    fn is_macro(&self) -> bool {
        self.first().starts_with("#define")
    }

    fn is_type(&self) -> bool {
        self.first().starts_with("typedef")
    }

    fn first(&self) -> &str {
        self.code.first().map_or("", String::as_str)
    }

    fn heading(&self) -> String {
        let names: Vec<String> = self.names().iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    /// What is declared, or all macros that are defined.
    fn names(&self) -> Vec<String> {
        if self.is_macro() {
            let defined = self.code.iter().filter_map(|line| line.strip_prefix("#define "));
            return defined.map(first_name).collect();
        }
        let all = self.code.join(" ");
        let name = if !self.is_type() {
            let before = all.split('(').next().unwrap_or_default();
            before.rsplit([' ', '*']).next().map(first_name)
        } else if all.contains('{') || !all.contains("(*") {
            all.trim_end_matches(';').rsplit([' ', '}']).next().map(first_name)
        } else {
            all.split("(*").nth(1).map(first_name)
        };
        name.filter(|name| !name.is_empty()).into_iter().collect()
    }

    /// The comment as Markdown. Lists of macros, and examples, keep their columns.
    fn prose(&self, known: &Known) -> String {
        let mut prose = String::from("\n");
        let mut is_code = false;
        for line in &self.comment {
            let keeps_columns = line.starts_with("  ");
            if keeps_columns != is_code {
                prose += if keeps_columns { "\n```text\n" } else { "```\n\n" };
                is_code = keeps_columns;
            }
            if keeps_columns {
                prose += &line[2..];
            } else {
                prose += &linked(line, known);
            }
            prose.push('\n');
        }
        if is_code {
            prose += "```\n";
        }
        prose
    }
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|c| is_of_name(*c)).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A line of a comment: names of the interface become links, and nothing else has a meaning in Markdown.
fn linked(line: &str, known: &Known) -> String {
    let mut made = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        if length == 0 {
            if "*_<>[]`#|\\".contains(first) {
                made.push('\\');
            }
            made.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        if let Some(id) = known.get(word) {
            made += &format!("[`{word}`](#{id})");
        } else if word.contains('_') {
            made += &format!("`{word}`");
        } else {
            made += word;
        }
        rest = after;
    }
    made
}

/// Comments with what they describe, in the order of the header. The first comment is about the whole.
fn entries(header: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut lines = header.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with("/*") {
            continue;
        }
        let mut comment = vec![line];
        while !comment.last().is_some_and(|line| line.ends_with("*/")) {
            let Some(line) = lines.next() else { break };
            comment.push(line);
        }
        let mut code: Vec<String> = Vec::new();
        // A structure has comments and empty lines inside; a declaration ends at the margin.
        let is_open = |code: &[String]| {
            let count = |c: char| code.iter().map(|line| line.matches(c).count()).sum::<usize>();
            count('{') > count('}')
        };
        while let Some(line) = lines.next_if(|line| is_open(&code) || !(line.is_empty() || line.starts_with("/*"))) {
            code.push(line.to_owned());
        }
        entries.push(Entry {
            comment: comment.iter().filter_map(|line| without_stars(line)).collect(),
            code,
        });
    }
    entries
}

/// A line of a comment; None for one that only draws a line, or is for those who edit the header.
fn without_stars(line: &str) -> Option<String> {
    let line = line.trim_start().trim_start_matches('/').trim_start_matches('*');
    let line = line.trim_end_matches('/').trim_end_matches('*').trim_end();
    let line = line.strip_prefix(' ').unwrap_or(line);
    let is_for_readers = !line.starts_with("----") && !line.starts_with("Generated from");
    is_for_readers.then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::markdown;

    const HEADER: &str = "/* x.h: all of it.
 *
 * Call from one_thread.
 */

#ifndef X_H
#define X_H

/* A list:
 *   X_A  one
 *   X_B  two */
#define X_A 1
#define X_B 2

/**
 * What a call returns, as *out.
 */
typedef enum x_result {
    /**
     * Good.
     */
    X_OK = 0,

} x_result;

/**
 * A hook.
 */
typedef int (*x_hook)(void *context);

/**
 * Does it with X_A; see x_hook and its x_result.
 */
enum x_result x_do(int a,
                   int b);
";

    #[test]
    fn each_declaration_has_a_heading_and_its_names_are_links() {
        let page = markdown(HEADER);
        for part in [
            "Call from `one_thread`.\n",
            "### `X_A`, `X_B`\n\n```c\n#define X_A 1\n#define X_B 2\n```\n",
            "```text\nX_A  one\nX_B  two\n```\n",
            "### `x_result`\n",
            "    X_OK = 0,\n\n} x_result;\n```\n",
            "as \\*out.",
            "### `x_hook`\n",
            "### `x_do`\n\n```c\nenum x_result x_do(int a,\n                   int b);\n```\n",
            "with [`X_A`](#x_a-x_b); see [`x_hook`](#x_hook) and its [`x_result`](#x_result).",
        ] {
            assert!(page.contains(part), "no {part} in\n{page}");
        }
    }
}
