//! One page: from Markdown to HTML, its headings, and its text for the search. Must never read or write a file.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;

#[derive(Debug, PartialEq)]
pub(super) struct Heading {
    pub(super) level: HeadingLevel,
    pub(super) text: String,
    /// What a link to it names after `#`.
    pub(super) id: String,
}

/// A page, or what comes before the first heading, or what follows one.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) heading: Option<usize>,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) html: String,
    pub(super) headings: Vec<Heading>,
    pub(super) sections: Vec<Section>,
}

impl Rendered {
    pub(super) fn title(&self) -> &str {
        self.headings.first().map_or("", |heading| &heading.text)
    }
}

/// `address` says where on the site a link leads.
pub(super) fn render(text: &str, mut address: impl FnMut(&str) -> String) -> Rendered {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let mut page = Under::default();
    for event in parser {
        match event {
            // What looks like HTML is a name in brackets.
            Event::Html(text) | Event::InlineHtml(text) => page.take(Event::Text(text)),
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => page.take(Event::Start(Tag::Link {
                link_type,
                dest_url: address(&dest_url).into(),
                title,
                id,
            })),
            event => page.take(event),
        }
    }
    let mut made = String::new();
    html::push_html(&mut made, page.events.into_iter());
    Rendered {
        html: made,
        headings: page.headings,
        sections: page.sections,
    }
}

/// A page under way.
struct Under<'a> {
    events: Vec<Event<'a>>,
    headings: Vec<Heading>,
    sections: Vec<Section>,
    /// How often an id was given.
    given: BTreeMap<String, usize>,
    /// Where the present heading began among the events.
    heading_at: Option<usize>,
    /// Language and text of the present piece of code.
    code: Option<(String, String)>,
}

impl Default for Under<'_> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            headings: Vec::new(),
            sections: vec![Section {
                heading: None,
                text: String::new(),
            }],
            given: BTreeMap::new(),
            heading_at: None,
            code: None,
        }
    }
}

impl<'a> Under<'a> {
    fn take(&mut self, event: Event<'a>) {
        if let Event::Text(text) | Event::Code(text) = &event {
            self.collect(text);
        }
        match event {
            Event::Start(Tag::Heading { .. }) => {
                self.heading_at = Some(self.events.len());
                self.events.push(event);
            }
            Event::End(TagEnd::Heading(level)) => self.end_heading(level, event),
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, code) = self.code.take().unwrap_or_default();
                self.insert(code_block(&language, &code));
            }
            Event::Text(text) if self.code.is_some() => {
                if let Some((_, code)) = &mut self.code {
                    code.push_str(&text);
                }
            }
            Event::Start(Tag::Table(_)) => {
                self.insert("<div class=\"table\">".into());
                self.events.push(event);
            }
            Event::End(TagEnd::Table) => {
                self.events.push(event);
                self.insert("</div>\n".into());
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) | Event::SoftBreak | Event::HardBreak => {
                self.collect(" ");
                self.events.push(event);
            }
            event => self.events.push(event),
        }
    }

    fn insert(&mut self, html: String) {
        self.events.push(Event::Html(html.into()));
    }

    fn collect(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut()
            && self.heading_at.is_none()
        {
            section.text.push_str(text);
        }
    }

    fn end_heading(&mut self, level: HeadingLevel, event: Event<'a>) {
        let Some(at) = self.heading_at.take() else { return };
        let text: String = self.events[at..].iter().filter_map(text_of).collect();
        let id = self.id_of(&text);
        self.events[at] = Event::Start(Tag::Heading {
            level,
            id: Some(CowStr::from(id.clone())),
            classes: Vec::new(),
            attrs: Vec::new(),
        });
        if level != HeadingLevel::H1 {
            self.insert(format!(
                "<a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to here\">#</a>"
            ));
        }
        self.events.push(event);
        self.headings.push(Heading { level, text, id });
        self.sections.push(Section {
            heading: Some(self.headings.len() - 1),
            text: String::new(),
        });
    }

    /// The id that the text of a heading has on other viewers of Markdown, too.
    fn id_of(&mut self, text: &str) -> String {
        let id = slug(text);
        let times = self.given.entry(id.clone()).or_default();
        *times += 1;
        match *times {
            1 => id,
            again => format!("{id}-{}", again - 1),
        }
    }
}

fn text_of<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text),
        _ => None,
    }
}

/// The text of a heading, as a link to it names it.
pub(super) fn slug(text: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(kept).collect()
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn code_block(language: &str, code: &str) -> String {
    let language = language.split(',').next().unwrap_or_default();
    let body: String = if language == "diff" {
        code.lines().map(diff_line).collect()
    } else {
        escaped(code)
    };
    let language = escaped(language);
    format!("<pre data-language=\"{language}\"><code>{body}</code></pre>\n")
}

fn diff_line(line: &str) -> String {
    let class = match line.chars().next() {
        Some('+') => "added",
        Some('-') => "removed",
        Some('@') => "where",
        _ => "same",
    };
    format!("<span class=\"{class}\">{}</span>\n", escaped(line))
}

#[cfg(test)]
mod tests {
    use super::{render, slug};

    #[test]
    fn ids_are_those_of_other_viewers_and_never_twice() {
        assert_eq!(slug("What `pcm_data` does, and C++"), "what-pcm_data-does-and-c");
        let page = render("# A\n\n## In C\n\n## In C++\n", str::to_owned);
        let ids: Vec<_> = page.headings.iter().map(|heading| heading.id.as_str()).collect();
        assert_eq!(ids, ["a", "in-c", "in-c-1"]);
        assert!(page.html.contains("<h2 id=\"in-c-1\">"), "{}", page.html);
    }

    #[test]
    fn brackets_and_code_are_text_and_links_are_rewritten() {
        let page = render("See <node> and [b](c.md).\n\n```c\na < b\n```\n", |_| "d.html".into());
        assert!(page.html.contains("&lt;node&gt;"), "{}", page.html);
        assert!(page.html.contains("<a href=\"d.html\">b</a>"), "{}", page.html);
        assert!(page.html.contains("<code>a &lt; b\n</code>"), "{}", page.html);
    }

    #[test]
    fn the_text_of_a_section_is_kept_for_the_search() {
        let page = render("# A\n\none *two*\n\n## B\n\n- three\n- `four`\n", str::to_owned);
        let texts: Vec<_> = page.sections.iter().map(|section| section.text.trim()).collect();
        assert_eq!(texts, ["", "one two", "three four"]);
    }

    #[test]
    fn lines_of_a_diff_are_marked() {
        let page = render("```diff\n+a\n-b\n c\n```\n", str::to_owned);
        assert!(page.html.contains("<span class=\"added\">+a</span>"), "{}", page.html);
        assert!(page.html.contains("<span class=\"removed\">-b</span>"), "{}", page.html);
    }
}
