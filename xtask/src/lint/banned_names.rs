//! Names of modules that say nothing, and names that were given up for better ones.

use super::complaint::Complaint;
use crate::source_tree::Tree;

/// A name that no module below a folder may have, and what it is called today.
struct Ban {
    folder: &'static str,
    name: &'static str,
    better: &'static str,
}

const fn ban(folder: &'static str, name: &'static str, better: &'static str) -> Ban {
    Ban { folder, name, better }
}

const WHAT_IT_OWNS: &str = "what it owns";

/// Words that the field uses elsewhere are banned only where they were misleading.
const BANS: [Ban; 30] = [
    ban("", "utils", WHAT_IT_OWNS),
    ban("", "common", WHAT_IT_OWNS),
    ban("", "helpers", WHAT_IT_OWNS),
    ban("", "misc", WHAT_IT_OWNS),
    ban("", "manager", WHAT_IT_OWNS),
    ban("", "apart", "other_communicators"),
    ban("", "beside", "background"),
    ban("", "copy_ways", "route"),
    ban("", "crowd", "oversubscription"),
    ban("", "dwell", "phase_delay"),
    ban("", "greeting", "first_contact"),
    ban("", "look", "rank_snapshot"),
    ban("", "reform", "reconfigure"),
    ban("", "sight", "quorum"),
    ban("", "spare_copies", "buffer_pool"),
    ban("", "standing", "hang_report"),
    ban("", "steer", "commands"),
    ban("", "wills", "succession"),
    ban("", "wishes", "program_requests"),
    ban("pcm-lib/src/session/", "files", "checkpoints"),
    ban("pcm-daemon/", "arrivals", "inbound"),
    ban("pcm-daemon/", "asks", "queries"),
    ban("pcm-daemon/", "bulk", "transfer"),
    ban("pcm-daemon/", "fetch", "inbound"),
    ban("pcm-daemon/", "gather", "queries"),
    ban("pcm-daemon/", "kept", "checkpoint_store"),
    ban("pcm-daemon/", "notice", "preemption"),
    ban("pcm-daemon/", "parked", "relaunch_store"),
    ban("pcm-daemon/", "together", "transfer"),
    ban("pcm-core/src/node/", "kept", "checkpoint_store"),
];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let path = file.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let module = path.rsplit('/').next().unwrap_or(path);
        for ban in BANS.iter().filter(|ban| file.path.starts_with(ban.folder)) {
            if module == ban.name || module.strip_prefix(ban.name).is_some_and(|rest| rest.starts_with('_')) {
                complaints.push(Complaint {
                    path: file.path.clone(),
                    line: 1,
                    rule: "banned-name",
                    advice: format!("call the module `{module}` by {}", better(ban)),
                });
            }
        }
    }
    complaints
}

fn better(ban: &Ban) -> String {
    if ban.better == WHAT_IT_OWNS {
        ban.better.into()
    } else {
        format!("today's word `{}`", ban.better)
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;

    #[test]
    fn empty_names_and_old_names_are_found_where_they_are_banned() {
        let found = check(&planted(&[
            ("a/src/utils.rs", ""),
            ("a/src/crowd/mod.rs", ""),
            ("a/src/gather.rs", ""),
            ("a/src/looking.rs", ""),
            ("pcm-daemon/src/gather_rows.rs", ""),
        ]));
        let texts: Vec<_> = found
            .iter()
            .map(|one| format!("{}: {}", one.path, one.advice))
            .collect();
        assert_eq!(
            texts,
            [
                "a/src/crowd/mod.rs: call the module `crowd` by today's word `oversubscription`",
                "a/src/utils.rs: call the module `utils` by what it owns",
                "pcm-daemon/src/gather_rows.rs: call the module `gather_rows` by today's word `queries`",
            ]
        );
    }
}
