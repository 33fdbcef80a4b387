//! Rows and records so large that they stay in their place, over changes of any kind, with addresses to slide in and
//! without.

use tests::{cluster::Cluster, moving::Moving};

/// Columns of some megabytes on each rank, on up to five.
const MIB: u32 = 40;

/// In kibibytes: enough for MPI. Under any limit memory has no addresses beside it.
const LIMITED: &str = "ulimit -v 16777216";

const CHANGES: [&[&str]; 9] = [
    &["expand", "1", "--to", "4"],
    &["shrink", "1", "--to", "3"],
    &["migrate", "1", "--rank", "1", "--to", "n3"],
    &["expand", "1", "--to", "5"],
    &["shrink", "1", "--to", "2"],
    &["rebalance", "1", "--shares", "3,1"],
    &["expand", "1", "--to", "3"],
    &["shrink", "1", "--to", "1"],
    &["expand", "1", "--to", "2"],
];

fn survives(kind: &str, before: &str) {
    let cluster = Cluster::up(4);
    let job = Moving::start(&cluster, kind, MIB, &[], before, &[]);
    // Records follow no shares.
    for words in CHANGES
        .into_iter()
        .filter(|words| words[0] != "rebalance" || kind == "lengths")
    {
        job.change(&[words, &["--mode", "live"]].concat());
    }
    job.kill();
    cluster.down();
}

#[test]
fn large_rows_are_right_after_every_change() {
    survives("lengths", "");
}

#[test]
fn large_records_are_right_after_every_change() {
    survives("records", "");
}

#[test]
fn large_rows_are_right_after_every_change_under_a_limit_on_addresses() {
    survives("lengths", LIMITED);
}

#[test]
fn large_records_are_right_after_every_change_under_a_limit_on_addresses() {
    survives("records", LIMITED);
}
