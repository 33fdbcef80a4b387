//! The frame of a page: head, list of pages, contents, neighbours. Must never read a file.

use super::{
    markdown::{Heading, escaped},
    places::{Page, relative},
};
use pulldown_cmark::HeadingLevel;

/// What is put into the frame.
pub(super) struct Content<'a> {
    pub(super) url: &'a str,
    pub(super) title: &'a str,
    pub(super) body: &'a str,
    pub(super) headings: &'a [Heading],
    /// The file of the repository that it shows, below its root.
    pub(super) source: &'a str,
}

/// A whole page. `pages` are those of the list.
pub(super) fn framed(content: &Content<'_>, pages: &[Page]) -> String {
    let Content { url, title, body, .. } = content;
    let to = |target: &str| relative(url, target);
    let title = escaped(title);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="{style}">
<script>try {{ document.documentElement.dataset.theme = localStorage.getItem("theme") || ""; }} catch {{}}</script>
</head>
<body data-root="{root}">
<header>
<a class="brand" href="{index}">pcm</a>
<input id="query" type="search" placeholder="Search" aria-label="Search" autocomplete="off">
<button id="theme" type="button" aria-label="Light or dark"></button>
<ol id="found" hidden></ol>
</header>
<div class="columns">
<details class="pages" open><summary>Pages</summary><nav aria-label="Pages">
{list}</nav></details>
<main>
{body}
<footer>{neighbours}<p>Made from <code>{source}</code> by <code>cargo xtask docs</code>.</p></footer>
</main>
{contents}</div>
<script src="{index_of_search}"></script>
<script src="{script}"></script>
</body>
</html>
"#,
        style = to("style.css"),
        root = to(""),
        index = to("index.html"),
        index_of_search = to("search.js"),
        script = to("site.js"),
        list = list(url, pages),
        neighbours = neighbours(url, pages),
        contents = contents(content.headings),
        source = escaped(content.source),
    )
}

fn list(url: &str, pages: &[Page]) -> String {
    let mut made = String::new();
    let mut group = "";
    for page in pages {
        if page.group != group {
            made += if group.is_empty() { "" } else { "</ul>\n" };
            made += &format!("<h2>{}</h2>\n<ul>\n", page.group);
            group = page.group;
        }
        let current = if page.url == url { " aria-current=\"page\"" } else { "" };
        let (address, label) = (relative(url, &page.url), escaped(&page.label));
        made += &format!("<li><a href=\"{address}\"{current}>{label}</a></li>\n");
    }
    made + "</ul>\n"
}

/// The pages before and after in the list.
fn neighbours(url: &str, pages: &[Page]) -> String {
    let Some(at) = pages.iter().position(|page| page.url == url) else {
        return String::new();
    };
    let link = |page: Option<&Page>, class: &str| {
        page.map_or_else(String::new, |page| {
            let (address, label) = (relative(url, &page.url), escaped(&page.label));
            format!("<a class=\"{class}\" href=\"{address}\">{label}</a>")
        })
    };
    let before = at.checked_sub(1).and_then(|before| pages.get(before));
    let (before, after) = (link(before, "before"), link(pages.get(at + 1), "after"));
    format!("<p class=\"neighbours\">{before}{after}</p>")
}

/// The headings of the page, unless there is hardly one.
fn contents(headings: &[Heading]) -> String {
    let shown = |heading: &&Heading| matches!(heading.level, HeadingLevel::H2 | HeadingLevel::H3);
    let shown: Vec<&Heading> = headings.iter().filter(shown).collect();
    if shown.len() < 2 {
        return String::new();
    }
    let mut made = String::from("<aside><h2>On this page</h2>\n<ul>\n");
    for heading in shown {
        let (id, text) = (&heading.id, escaped(&heading.text));
        made += &format!("<li class=\"{}\"><a href=\"#{id}\">{text}</a></li>\n", heading.level);
    }
    made + "</ul></aside>\n"
}
