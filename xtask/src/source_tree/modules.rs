//! The modules of one compiled root file, as its `mod` declarations name them, and what each declares and imports.

use super::{
    file::SourceFile,
    tokens::Token,
    use_trees::{Import, imports},
};
use std::collections::{BTreeMap, BTreeSet};

/// A module: a file, or a part of one.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    /// Its file's place in the list that the modules were read from.
    pub(super) file: usize,
    pub(super) children: BTreeMap<String, usize>,
    pub(super) items: BTreeSet<String>,
    pub(super) uses: Vec<Use>,
    pub(super) paths: Vec<PathAt>,
}

/// One import, and where it is.
pub(super) struct Use {
    pub(super) import: Import,
    pub(super) is_public: bool,
    pub(super) offset: usize,
}

/// A path with `::` in code.
pub(super) struct PathAt {
    pub(super) segments: Vec<String>,
    pub(super) offset: usize,
}

/// All modules below a root file; the root is the first. Files that only tests compile are marked in `test_files` and
/// are no part of the answer.
pub(super) fn modules(
    files: &[SourceFile],
    by_path: &BTreeMap<&str, usize>,
    root: usize,
    test_files: &mut BTreeSet<usize>,
) -> Vec<Module> {
    let mut reader = Reader {
        files,
        by_path,
        test_files,
        modules: Vec::new(),
    };
    let folder = files[root].path.rsplit_once('/').map_or("", |(folder, _)| folder);
    reader.file("crate".into(), None, root, folder.into());
    reader.modules
}

struct Reader<'a> {
    files: &'a [SourceFile],
    by_path: &'a BTreeMap<&'a str, usize>,
    test_files: &'a mut BTreeSet<usize>,
    modules: Vec<Module>,
}

/// An open block: the module it belongs to, and whether the block is that module itself.
struct Block {
    module: usize,
    is_module: bool,
}

impl Reader<'_> {
    fn add(&mut self, name: String, parent: Option<usize>, file: usize) -> usize {
        let added = self.modules.len();
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.clone(), added);
        }
        self.modules.push(Module {
            name,
            parent,
            file,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
        });
        added
    }

    /// Reads a file; `folder` is where its child modules are.
    fn file(&mut self, name: String, parent: Option<usize>, file: usize, folder: String) {
        let source = &self.files[file];
        let (tokens, masked) = (source.tokens.as_slice(), source.masked.as_str());
        let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
        let first = self.add(name, parent, file);
        let mut blocks = vec![Block {
            module: first,
            is_module: true,
        }];
        let mut at = 0;
        while at < tokens.len() {
            let Some(Block { module, is_module }) = blocks.last().map(|block| Block { ..*block }) else {
                break;
            };
            let is_test = source.is_test_at(tokens[at].start);
            match text(at) {
                "mod" if is_module && text(at + 2) == ";" => {
                    let inline = self.inline_folder(first, module);
                    let child = declared(source, tokens[at].start, &folder, &inline, text(at + 1));
                    self.child_file(module, text(at + 1), &child, is_test);
                    at += 2;
                }
                _ if is_test => {}
                "mod" if is_module && text(at + 2) == "{" => {
                    let inner = self.add(text(at + 1).into(), Some(module), file);
                    blocks.push(Block {
                        module: inner,
                        is_module: true,
                    });
                    at += 2;
                }
                "{" => blocks.push(Block {
                    module,
                    is_module: false,
                }),
                "}" => {
                    blocks.pop();
                }
                "use" => {
                    let end = (at..tokens.len()).find(|place| text(*place) == ";").unwrap_or(at);
                    let is_public = at > 0 && matches!(text(at - 1), "pub" | ")");
                    for import in imports(&tokens[at + 1..end], masked) {
                        self.modules[module].uses.push(Use {
                            import,
                            is_public,
                            offset: tokens[at].start,
                        });
                    }
                    at = end;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" if is_module => {
                    self.modules[module].items.insert(text(at + 1).into());
                }
                "macro_rules" => {
                    self.modules[0].items.insert(text(at + 2).into());
                }
                _ => at = self.path(file, module, at),
            }
            at += 1;
        }
    }

    /// Notes a path that begins at this token; its last token.
    fn path(&mut self, file: usize, module: usize, at: usize) -> usize {
        let source = &self.files[file];
        let (tokens, masked) = (source.tokens.as_slice(), source.masked.as_str());
        let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
        let follows = |place: usize| text(place + 1) == ":" && text(place + 2) == ":";
        if !tokens[at].is_name || !follows(at) {
            return at;
        }
        let mut segments = vec![text(at).to_string()];
        let mut last = at;
        while follows(last) && tokens.get(last + 3).is_some_and(|token| token.is_name) {
            last += 3;
            segments.push(text(last).into());
        }
        self.modules[module].paths.push(PathAt {
            segments,
            offset: tokens[at].start,
        });
        last
    }

    /// Folders of the inline modules between a file's module and this one.
    fn inline_folder(&self, first: usize, mut module: usize) -> String {
        let mut folder = String::new();
        while module != first {
            folder = format!("{}/{folder}", self.modules[module].name);
            match self.modules[module].parent {
                Some(parent) => module = parent,
                None => break,
            }
        }
        folder
    }

    fn child_file(&mut self, parent: usize, name: &str, candidates: &[String], is_test: bool) {
        let Some((path, file)) = candidates
            .iter()
            .find_map(|path| Some((path, *self.by_path.get(path.as_str())?)))
        else {
            return;
        };
        let folder = match path.strip_suffix("/mod.rs") {
            Some(folder) => folder,
            None => path.trim_end_matches(".rs"),
        }
        .to_string();
        if is_test {
            self.test_files.insert(file);
            // What is below it is for tests too.
            let below = format!("{folder}/");
            self.test_files.extend(
                self.by_path
                    .range(below.as_str()..)
                    .filter_map(|(path, file)| path.starts_with(&below).then_some(*file)),
            );
            return;
        }
        self.file(name.into(), Some(parent), file, folder);
    }
}

/// Where the file of `mod name;` can be.
fn declared(source: &SourceFile, offset: usize, folder: &str, inline: &str, name: &str) -> Vec<String> {
    let before = source.text[..offset].trim_end();
    let given = before
        .rsplit_once("#[path = \"")
        .and_then(|(_, rest)| rest.strip_suffix("\"]"));
    if let Some(given) = given {
        let own = source.path.rsplit_once('/').map_or("", |(own, _)| own);
        return vec![joined(own, given)];
    }
    vec![
        format!("{folder}/{inline}{name}.rs"),
        format!("{folder}/{inline}{name}/mod.rs"),
    ]
}

fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
