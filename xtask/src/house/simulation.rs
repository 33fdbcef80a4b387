//! Whether seeded simulation and the daemon drive the same node.

use super::row::Row;
use crate::source_tree::{Tree, names};
use serde_json::json;

/// The pure node, as whoever drives it imports it.
const NODE: [&str; 3] = ["pcm_core", "node", "Node"];

/// Crates with simulated worlds.
const SIMULATORS: [&str; 2] = ["tests/", "pcm-core/tests/"];

pub(super) fn row(tree: &Tree) -> Row {
    let drivers = |folder: &str| -> Vec<&str> {
        tree.rust()
            .filter(|file| file.path.starts_with(folder) && drives(&file.masked))
            .map(|file| file.path.as_str())
            .collect()
    };
    let daemon = drivers("pcm-daemon/src/");
    let simulated: Vec<&str> = SIMULATORS.iter().flat_map(|folder| drivers(folder)).collect();
    let is_met = !daemon.is_empty() && !simulated.is_empty();
    Row {
        measure: "in seeded simulation",
        before: "reconfiguration; agents",
        now: if is_met { "the whole node" } else { "not the whole node" }.into(),
        target: "the whole node",
        is_met,
        details: json!({ "daemon": daemon, "simulation": simulated }),
    }
}

/// Whether a file imports the node: `pcm_core::node::Node`, or `pcm_core::node::{.., Node, ..}`.
fn drives(masked: &str) -> bool {
    let imports = masked.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let mut imports = imports.map(|import| names(import).collect::<Vec<_>>());
    imports.any(|import| import.starts_with(&NODE[..2]) && import[2..].contains(&NODE[2]))
}

#[cfg(test)]
mod tests {
    use super::row;
    use crate::source_tree::planted::planted;

    #[test]
    fn a_simulation_counts_only_when_it_drives_the_node_that_the_daemon_drives() {
        let daemon = ("pcm-daemon/src/lib.rs", "use pcm_core::node::{Event, Node};\n");
        let simulated = ("tests/src/lib.rs", "use pcm_core::node::Node;\n");
        let other = ("tests/src/lib.rs", "use pcm_core::node::Event;\nstruct Node;\n");
        assert!(row(&planted(&[daemon, simulated])).is_met);
        assert!(!row(&planted(&[daemon, other])).is_met);
        assert!(!row(&planted(&[simulated])).is_met);
    }
}
