//! Which pages there are, in which order, and where each file of the repository is on the site. Must never read a page.

use crate::failure::{Failure, OnPath};
use std::{
    fs,
    path::{Component, Path},
};

/// A page of the site, made from a file of the repository.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// Where it comes from, below the root of the repository.
    pub(super) source: String,
    /// Where it is on the site.
    pub(super) url: String,
    /// Its name in the list of pages.
    pub(super) label: String,
    pub(super) group: &'static str,
}

/// The header that the reference is made from.
pub(super) const HEADER: &str = "pcm-lib/include/pcm.h";

/// Where decisions are; they have a list of their own.
pub(super) const DECISIONS: &str = "docs/decisions";

/// The group of pages that nobody has put elsewhere.
const MORE: &str = "More";

/// The list of pages: groups, and in each the files with their names.
const GROUPS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Start",
        &[
            ("README.md", "Overview"),
            ("docs/install.md", "Install"),
            ("docs/coming-from.md", "From mpirun, Intel MPI, LAM"),
            ("docs/other-mpis.md", "Another MPI"),
            ("docs/gallery.md", "Gallery"),
        ],
    ),
    (
        "Guides",
        &[
            ("docs/guide.md", "C"),
            ("docs/guide-cpp.md", "C++"),
            ("docs/guide-fortran.md", "Fortran"),
            ("docs/guide-python.md", "Python"),
            ("docs/guide-rust.md", "Rust"),
            ("docs/guide-data.md", "Data of your own"),
            ("docs/llms.txt", "For coding assistants"),
        ],
    ),
    (
        "Operating",
        &[
            ("docs/watching.md", "Inspect jobs"),
            ("docs/checkpoints.md", "Checkpoints"),
            ("docs/agents.md", "Jobs that adapt"),
            ("docs/sites.md", "Sites far apart"),
            ("docs/methods.md", "Methods"),
            ("docs/slurm.md", "Slurm"),
            ("docs/security.md", "Security"),
        ],
    ),
    (
        "Reference",
        &[
            (HEADER, "pcm.h"),
            ("docs/errors.md", "Errors"),
            ("docs/conformance.md", "Conformance"),
            ("docs/checkpoint-format.md", "Checkpoint files"),
            ("docs/protocol.md", "Protocol"),
            ("docs/glossary.md", "Glossary"),
        ],
    ),
    (
        "About",
        &[
            ("docs/limits.md", "Limits"),
            ("docs/comparison.md", "Comparison"),
            ("CHANGELOG.md", "Changes"),
            ("ARCHITECTURE.md", "Architecture"),
            (DECISIONS, "Decisions"),
        ],
    ),
];

/// The pages of the list that are there, then those of docs/ that the list does not name.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::new();
    for (group, listed) in GROUPS {
        for (source, label) in listed.iter().filter(|(source, _)| root.join(source).exists()) {
            pages.push(page(source, label, group));
        }
    }
    for name in names(&root.join("docs"))? {
        let source = format!("docs/{name}");
        if source.ends_with(".md") && !pages.iter().any(|page: &Page| page.source == source) {
            pages.push(page(&source, name.trim_end_matches(".md"), MORE));
        }
    }
    Ok(pages)
}

/// The pages of the decisions, which the list of pages does not name one by one.
pub(super) fn decisions(root: &Path) -> Result<Vec<Page>, Failure> {
    let names = names(&root.join(DECISIONS))?;
    let pages = names.iter().filter(|name| name.ends_with(".md"));
    Ok(pages
        .map(|name| page(&format!("{DECISIONS}/{name}"), name.trim_end_matches(".md"), "About"))
        .collect())
}

fn page(source: &str, label: &str, group: &'static str) -> Page {
    Page {
        source: source.to_owned(),
        url: url_of_page(source),
        label: label.to_owned(),
        group,
    }
}

fn url_of_page(source: &str) -> String {
    match source {
        "README.md" => "index.html".into(),
        HEADER => "reference.html".into(),
        DECISIONS => "decisions/index.html".into(),
        _ => {
            let stem = source.trim_start_matches("docs/");
            let stem = stem.trim_end_matches(".md").trim_end_matches(".txt");
            format!("{}.html", stem.to_lowercase())
        }
    }
}

/// Where a file that is no page is shown.
pub(super) fn url_of_source(path: &str, is_folder: bool) -> String {
    let end = if is_folder { "/index.html" } else { ".html" };
    format!("source/{path}{end}")
}

/// Names in a folder, sorted, without hidden ones and what Python leaves.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder).on("read", folder)?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('.') && !name.starts_with("__"))
        .collect();
    names.sort();
    Ok(names)
}

/// The path that a link on a page means, below the root; None if it leads out of the repository.
pub(super) fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The address of `to`, as a page at `from` writes it.
pub(super) fn relative(from: &str, to: &str) -> String {
    format!("{}{to}", "../".repeat(from.matches('/').count()))
}

#[cfg(test)]
mod tests {
    use super::{relative, resolved, url_of_page};

    #[test]
    fn links_are_followed_from_the_folder_of_their_page() {
        let of = |from, link| resolved(from, link);
        assert_eq!(of("README.md", "docs/guide.md").as_deref(), Some("docs/guide.md"));
        assert_eq!(
            of("docs/guide.md", "../examples/life").as_deref(),
            Some("examples/life")
        );
        assert_eq!(of("docs/decisions/0001-a.md", "../b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(of("README.md", "../../etc/passwd"), None);
        assert_eq!(of("README.md", "/etc/passwd"), None);
    }

    #[test]
    fn addresses_are_relative_to_the_folder_of_the_page() {
        assert_eq!(relative("index.html", "guide.html"), "guide.html");
        assert_eq!(relative("source/a/b.html", "guide.html"), "../../guide.html");
        assert_eq!(url_of_page("docs/decisions/0001-a.md"), "decisions/0001-a.html");
        assert_eq!(url_of_page("docs/llms.txt"), "llms.html");
    }
}
