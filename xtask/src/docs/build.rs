//! Builds the site: each page, the files that pages link to, the index of the search. A link that leads nowhere fails
//! the build. Must never need a network.

use super::{
    markdown::{self, Rendered, escaped},
    places::{self, DECISIONS, HEADER, Page, relative, resolved, url_of_source},
    reference,
    template::{Content, framed},
};
use crate::{
    failure::{Failure, OnPath},
    repository::Repository,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Files as they are.
const ASSETS: [(&str, &str); 2] = [
    ("style.css", include_str!("style.css")),
    ("site.js", include_str!("site.js")),
];

/// A longer file of the repository is not shown: results of measurements are.
const SHOWN_MAX: u64 = 512 << 10;

/// Below docs, and on the site.
const PICTURES: &str = "pictures";

/// So much of a section can be found.
const FOUND_MAX: usize = 4000;

pub(crate) fn run(repository: &Repository) -> Result<(), Failure> {
    let out = repository.target.join("site");
    if out.exists() {
        fs::remove_dir_all(&out).on("remove", &out)?;
    }
    let count = build(&repository.root, &out)?;
    println!("{count} pages: open {}", out.join("index.html").display());
    Ok(())
}

/// Writes the site and counts its pages.
fn build(root: &Path, out: &Path) -> Result<usize, Failure> {
    let mut site = Site::new(root)?;
    for page in site.pages.clone() {
        let text = site.text_of(&page)?;
        site.add(&page, &text);
    }
    site.add_linked_files()?;
    site.check()?;
    for (name, text) in ASSETS {
        site.files.insert(name.into(), text.into());
    }
    // Under the name that coding assistants look for, as it is.
    let assistants = root.join("docs/llms.txt");
    if assistants.exists() {
        let text = fs::read_to_string(&assistants).on("read", &assistants)?;
        site.files.insert("llms.txt".into(), text);
    }
    let count = site.files.keys().filter(|url| url.ends_with(".html")).count();
    let found = json!(site.found).to_string();
    site.files
        .insert("search.js".into(), format!("window.pcmPages = {found};\n"));
    for (url, text) in &site.files {
        let path = out.join(url);
        let folder = path.parent().unwrap_or(out);
        fs::create_dir_all(folder).on("create", folder)?;
        fs::write(&path, text).on("write", &path)?;
    }
    copy_pictures(&root.join("docs").join(PICTURES), &out.join(PICTURES))?;
    Ok(count)
}

/// Pages of docs find them beside themselves, as in the repository.
fn copy_pictures(from: &Path, to: &Path) -> Result<(), Failure> {
    if !from.exists() {
        return Ok(());
    }
    fs::create_dir_all(to).on("create", to)?;
    for picture in fs::read_dir(from).on("read", from)?.flatten() {
        let path = picture.path();
        fs::copy(&path, to.join(picture.file_name())).on("copy", &path)?;
    }
    Ok(())
}

/// A link of a page within the site.
struct Link {
    page: String,
    as_written: String,
    target: String,
    anchor: Option<String>,
}

struct Site<'a> {
    root: &'a Path,
    /// All pages that are made from Markdown, those of the list first.
    pages: Vec<Page>,
    /// How many of them are in the list.
    listed: usize,
    /// What is written: the address, and the text.
    files: BTreeMap<String, String>,
    /// The anchors of each page.
    anchors: BTreeMap<String, BTreeSet<String>>,
    links: Vec<Link>,
    /// What pages link to that is no page, below the root.
    linked: BTreeSet<String>,
    /// For the search: address, page, heading, text.
    found: Vec<[String; 4]>,
}

impl<'a> Site<'a> {
    fn new(root: &'a Path) -> Result<Self, Failure> {
        let mut pages = places::pages(root)?;
        let listed = pages.len();
        pages.extend(places::decisions(root)?);
        Ok(Self {
            root,
            pages,
            listed,
            files: BTreeMap::new(),
            anchors: BTreeMap::new(),
            links: Vec::new(),
            linked: BTreeSet::new(),
            found: Vec::new(),
        })
    }

    /// The Markdown of a page: its file, or what is made of it.
    fn text_of(&self, page: &Page) -> Result<String, Failure> {
        if page.source == DECISIONS {
            return self.list_of_decisions();
        }
        let path = self.root.join(&page.source);
        let text = fs::read_to_string(&path).on("read", &path)?;
        Ok(if page.source == HEADER {
            reference::markdown(&text)
        } else {
            text
        })
    }

    fn list_of_decisions(&self) -> Result<String, Failure> {
        let mut list = String::from("# Decisions\n\nWhat was chosen, instead of what, and why.\n\n");
        for page in &self.pages[self.listed..] {
            let text = self.text_of(page)?;
            let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
            let name = page.source.rsplit('/').next().unwrap_or_default();
            list += &format!("- [{title}](decisions/{name})\n");
        }
        Ok(list)
    }

    fn add(&mut self, page: &Page, text: &str) {
        let rendered = markdown::render(text, |link| self.address(page, link));
        self.index(page, &rendered);
        let ids = rendered.headings.iter().map(|heading| heading.id.clone()).collect();
        self.anchors.insert(page.url.clone(), ids);
        let content = Content {
            url: &page.url,
            title: rendered.title(),
            body: &rendered.html,
            headings: &rendered.headings,
            source: &page.source,
        };
        let framed = framed(&content, &self.pages[..self.listed]);
        self.files.insert(page.url.clone(), framed);
    }

    /// Where a link of a page leads on the site.
    fn address(&mut self, page: &Page, link: &str) -> String {
        if link.contains("://") || link.starts_with("mailto:") {
            return link.to_owned();
        }
        let (path, anchor) = match link.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (link, None),
        };
        let target = if path.is_empty() {
            page.url.clone()
        } else {
            self.target(&page.source, path)
        };
        let mut address = if path.is_empty() {
            String::new()
        } else {
            relative(&page.url, &target)
        };
        if let Some(anchor) = &anchor {
            address += &format!("#{anchor}");
        }
        self.links.push(Link {
            page: page.source.clone(),
            as_written: link.to_owned(),
            target,
            anchor,
        });
        address
    }

    /// The page of a path, or that of a file which is to be shown; "" if there is neither.
    fn target(&mut self, from: &str, link: &str) -> String {
        let Some(path) = resolved(from, link) else {
            return String::new();
        };
        if let Some(page) = self.pages.iter().find(|page| page.source == path) {
            return page.url.clone();
        }
        let place = self.root.join(&path);
        if !place.exists() {
            return String::new();
        }
        let url = url_of_source(&path, place.is_dir());
        self.linked.insert(path);
        url
    }

    fn index(&mut self, page: &Page, rendered: &Rendered) {
        for section in &rendered.sections {
            let heading = section.heading.map(|at| &rendered.headings[at]);
            let address = heading.map_or_else(|| page.url.clone(), |heading| format!("{}#{}", page.url, heading.id));
            let heading = heading.map_or("", |heading| &heading.text);
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            if !heading.is_empty() || !text.is_empty() {
                let text = text.chars().take(FOUND_MAX).collect();
                self.found
                    .push([address, rendered.title().to_owned(), heading.to_owned(), text]);
            }
        }
    }

    /// Pages for files and folders that are linked to, and for the files in these folders.
    fn add_linked_files(&mut self) -> Result<(), Failure> {
        for path in self.linked.clone() {
            let place = self.root.join(&path);
            if !place.is_dir() {
                self.add_source(&path)?;
                continue;
            }
            let url = url_of_source(&path, true);
            let mut body = format!("<h1><code>{}</code></h1>\n<ul>\n", escaped(&path));
            for name in places::names(&place)? {
                let inner = format!("{path}/{name}");
                let name = escaped(&name);
                let target = relative(&url, &url_of_source(&inner, false));
                body += &if self.add_source(&inner)? {
                    format!("<li><a href=\"{target}\">{name}</a></li>\n")
                } else {
                    format!("<li>{name}</li>\n")
                };
            }
            self.add_plain(&url, &path, &(body + "</ul>\n"));
        }
        Ok(())
    }

    /// Whether the file is shown: it is, if it is text and not too long.
    fn add_source(&mut self, path: &str) -> Result<bool, Failure> {
        let place = self.root.join(path);
        let about = fs::metadata(&place).on("read", &place)?;
        if !about.is_file() || about.len() > SHOWN_MAX {
            return Ok(false);
        }
        let Ok(text) = fs::read_to_string(&place) else {
            return Ok(false);
        };
        let (name, text) = (escaped(path), escaped(&text));
        let body = format!("<h1><code>{name}</code></h1>\n<pre class=\"source\"><code>{text}</code></pre>\n");
        self.add_plain(&url_of_source(path, false), path, &body);
        Ok(true)
    }

    fn add_plain(&mut self, url: &str, path: &str, body: &str) {
        let content = Content {
            url,
            title: path,
            body,
            headings: &[],
            source: path,
        };
        let framed = framed(&content, &self.pages[..self.listed]);
        self.files.insert(url.to_owned(), framed);
    }

    /// Fails with the links that lead nowhere.
    fn check(&self) -> Result<(), Failure> {
        let leads = |link: &&Link| {
            let anchors = self.anchors.get(&link.target);
            let has_anchor = |anchor: &String| anchors.is_some_and(|anchors| anchors.contains(anchor));
            self.files.contains_key(&link.target) && link.anchor.as_ref().is_none_or(has_anchor)
        };
        let broken: Vec<String> = self
            .links
            .iter()
            .filter(|link| !leads(link))
            .map(|link| format!("{}: {}", link.page, link.as_written))
            .collect();
        if broken.is_empty() {
            return Ok(());
        }
        Err(Failure::Links { broken })
    }
}

#[cfg(test)]
mod tests {
    use super::build;
    use crate::repository::Repository;
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
    };

    fn html_files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(html_files(&path));
            } else if path.extension().is_some_and(|ending| ending == "html") {
                files.push(path);
            }
        }
        files
    }

    /// The values of an attribute in a page.
    fn values<'t>(text: &'t str, attribute: &str) -> BTreeSet<&'t str> {
        let begin = format!(" {attribute}=\"");
        text.split(begin.as_str())
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect()
    }

    /// Looks at what was written, not at what the builder thinks of it.
    #[test]
    fn the_site_builds_and_every_link_of_it_leads_to_a_file_and_an_anchor() {
        let out = tempfile::tempdir().unwrap();
        let root = Repository::locate().unwrap().root;
        let count = build(&root, out.path()).unwrap();
        let files = html_files(out.path());
        assert_eq!(files.len(), count);
        let texts: BTreeMap<PathBuf, String> = files
            .iter()
            .map(|path| (path.canonicalize().unwrap(), fs::read_to_string(path).unwrap()))
            .collect();
        let mut followed = 0;
        for (path, text) in &texts {
            let mut links = values(text, "href");
            links.extend(values(text, "src"));
            for link in links.iter().filter(|link| !link.contains("://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() {
                    path.clone()
                } else {
                    let target = path.parent().unwrap().join(file);
                    let found = target.canonicalize();
                    found.unwrap_or_else(|_| panic!("{}: {link} leads nowhere", path.display()))
                };
                let has_anchor = anchor.is_empty() || values(&texts[&target], "id").contains(anchor);
                assert!(has_anchor, "{}: {link} has no such heading", path.display());
                followed += 1;
            }
        }
        assert!(count > 60 && followed > 2000, "{count} pages with {followed} links");
    }

    #[test]
    fn nothing_on_the_site_is_fetched_from_elsewhere() {
        let out = tempfile::tempdir().unwrap();
        build(&Repository::locate().unwrap().root, out.path()).unwrap();
        for path in html_files(out.path()) {
            let text = fs::read_to_string(&path).unwrap();
            let fetched = text
                .lines()
                .filter(|line| line.starts_with("<script") || line.starts_with("<link"));
            for line in fetched {
                assert!(!line.contains("://"), "{}: {line}", path.display());
            }
        }
    }

    #[test]
    fn links_that_lead_nowhere_fail_the_build_and_are_named() {
        let root = tempfile::tempdir().unwrap();
        let decisions = root.path().join("docs/decisions");
        fs::create_dir_all(&decisions).unwrap();
        fs::write(decisions.join("0001-a.md"), "# 1. A\n").unwrap();
        let readme = root.path().join("README.md");
        let text = "# R\n\n## Here\n\n[a](docs/x.md) [b](#here) [c](#there) [d](docs/decisions/0001-a.md#no)\n";
        fs::write(&readme, text).unwrap();
        let out = root.path().join("out");
        let failure = build(root.path(), &out).unwrap_err().to_string();
        for broken in ["docs/x.md", "#there", "docs/decisions/0001-a.md#no"] {
            assert!(failure.contains(&format!("README.md: {broken}")), "{failure}");
        }
        assert!(!failure.contains("#here"), "{failure}");
        assert!(!out.exists());
        fs::write(&readme, "# R\n\n## Here\n\n[b](#here)\n").unwrap();
        assert_eq!(build(root.path(), &out).unwrap(), 3);
    }
}
