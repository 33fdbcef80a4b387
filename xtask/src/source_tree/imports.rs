//! Follows the paths of a module to the file that declares what they name. Must never need a compiler: a path that
//! leads out of the crate is nothing.

use super::modules::Module;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) file: usize,
    pub(super) name: String,
}

/// One file needs something of another.
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) offset: usize,
    pub(super) target: Target,
}

/// More steps than any path has; a name that imports itself ends there.
const STEPS_MAX: usize = 32;

/// Where a path leads; `None` for a module and for what is outside of the crate.
pub(super) fn resolve(modules: &[Module], module: usize, path: &[String]) -> Option<Target> {
    follow(modules, module, path, STEPS_MAX)
}

fn follow(modules: &[Module], module: usize, path: &[String], steps: usize) -> Option<Target> {
    let steps = steps.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    let is_last = rest.is_empty();
    match first.as_str() {
        "crate" => inside(modules, 0, rest, steps),
        "self" => inside(modules, module, rest, steps),
        "super" => {
            let parent = modules[module].parent?;
            match rest.first().map(String::as_str) {
                Some("super") => follow(modules, parent, rest, steps),
                _ => inside(modules, parent, rest, steps),
            }
        }
        name => {
            let here = &modules[module];
            if !is_last && let Some(child) = here.children.get(name) {
                return inside(modules, *child, rest, steps);
            }
            if let Some(found) = imported(modules, module, name, rest, steps) {
                return Some(found);
            }
            here.items.contains(name).then(|| target(modules, module, name))
        }
    }
}

/// Follows the rest of a path whose beginning names this module.
fn inside(modules: &[Module], module: usize, path: &[String], steps: usize) -> Option<Target> {
    let steps = steps.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    let here = &modules[module];
    if let Some(child) = here.children.get(first) {
        return inside(modules, *child, rest, steps);
    }
    if here.items.contains(first) {
        return Some(target(modules, module, first));
    }
    imported(modules, module, first, rest, steps).or_else(|| Some(target(modules, module, first)))
}

/// Follows a name that this module imports itself.
fn imported(modules: &[Module], module: usize, name: &str, rest: &[String], steps: usize) -> Option<Target> {
    for found in &modules[module].uses {
        let mut path = found.import.path.clone();
        match &found.import.alias {
            Some(alias) if alias == name => {}
            None => {
                let below = module_at(modules, module, &path, steps)?;
                if !has(&modules[below], name) {
                    continue;
                }
                path.push(name.into());
            }
            _ => continue,
        }
        path.extend(rest.iter().cloned());
        return follow(modules, module, &path, steps);
    }
    None
}

fn has(module: &Module, name: &str) -> bool {
    let imports = |found: &super::modules::Use| found.import.alias.as_deref() == Some(name);
    module.items.contains(name) || module.children.contains_key(name) || module.uses.iter().any(imports)
}

/// The module that a path names, if it names one.
fn module_at(modules: &[Module], from: usize, path: &[String], steps: usize) -> Option<usize> {
    let mut steps = steps;
    let mut at = from;
    for (place, segment) in path.iter().enumerate() {
        steps = steps.checked_sub(1)?;
        at = match segment.as_str() {
            "crate" => 0,
            "self" => at,
            "super" => modules[at].parent?,
            name => match modules[at].children.get(name) {
                Some(child) => *child,
                None if place == 0 => {
                    let alias = |found: &&super::modules::Use| found.import.alias.as_deref() == Some(name);
                    let import = modules[at].uses.iter().find(alias)?;
                    module_at(modules, at, &import.import.path, steps)?
                }
                None => return None,
            },
        };
    }
    Some(at)
}

fn target(modules: &[Module], module: usize, name: &str) -> Target {
    Target {
        file: modules[module].file,
        name: name.into(),
    }
}

/// What each file needs of the others. A `pub use` of a name that its file does not need itself is none.
pub(super) fn edges(modules: &[Module], is_needed: impl Fn(usize, &str) -> bool) -> Vec<Edge> {
    let mut found = Vec::new();
    for (place, module) in modules.iter().enumerate() {
        let mut add = |offset: usize, target: Option<Target>| {
            if let Some(target) = target.filter(|target| target.file != module.file) {
                found.push(Edge {
                    from: module.file,
                    offset,
                    target,
                });
            }
        };
        for one in &module.uses {
            match &one.import.alias {
                Some(alias) if one.is_public && !is_needed(module.file, alias) => {}
                Some(_) => add(one.offset, resolve(modules, place, &one.import.path)),
                None if one.is_public => {}
                None => {
                    let all = module_at(modules, place, &one.import.path, STEPS_MAX);
                    add(one.offset, all.map(|all| target(modules, all, "*")));
                }
            }
        }
        for path in &module.paths {
            add(path.offset, resolve(modules, place, &path.segments));
        }
    }
    found
}
