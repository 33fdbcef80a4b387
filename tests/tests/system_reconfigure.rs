//! Jobs of real ranks that migrate, grow and shrink while they compute: the result is that of an undisturbed run, who
//! leaves is gone, and nothing is left.

use pcm_proto::random::Random;
use std::fs;
use tests::{asked, cluster::Cluster, malleable::Malleable, processes};

/// Growth of a surviving rank's own memory from one round of changes to another, 40 rounds later.
const GROWTH_MAX_KIB: u64 = 2048;

/// Most ranks of the job.
const RANKS_MAX: usize = 8;

/// The round from which on nothing may grow.
const MEASURED_FROM: u32 = 10;

/// Changes that a relaunch may have saved: in some thousand, one connection of MPI's tcp transport is not made, its
/// ranks do not come back, and the change is carried out by relaunch (docs/decisions/0015).
const RESCUED_MAX: u32 = 1;

/// A leaver is gone so soon after the commit.
const GONE_MAX_MS: f64 = 200.0;

fn every_verb(program: &str) {
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, program, 2, 4000, 500);
    let before = job.nodes();
    let done = job.migrate(1, "n3");
    assert_eq!(
        (done["plan"].as_str(), done["ranks_after"].as_u64()),
        (Some("migrate"), Some(2)),
        "{done}"
    );
    assert!(done["bytes_moved"].as_u64() > Some(0), "{done}");
    assert_eq!(job.nodes(), [before[0].as_str(), "n3"]);
    job.resize(4);
    job.resize(2);
    let done = job.change("rebalance", &["--shares", "2,1"]);
    assert_eq!(done["plan"], "rebalance", "{done}");
    job.change("rebalance", &["--shares", "1,1"]);
    let there = job.change("rebalance", &["--shares", "3,1"]);
    let back = job.change("rebalance", &["--shares", "1,1"]);
    assert!(there["bytes_moved"].as_u64() > Some(0), "{there}");
    assert_eq!(there["bytes_moved"], back["bytes_moved"], "{back}");
    let outcome = cluster.run(&["rebalance", "1", "--shares", "1,2,3"]);
    assert!(
        outcome.stderr.contains("3 shares were given for 2 ranks"),
        "{outcome:?}"
    );
    let outcome = cluster.run(&["drain", "n3"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(!job.nodes().contains(&"n3".to_owned()));
    assert_eq!(job.ends_right().ranks, 2);
    cluster.down();
}

#[test]
fn each_verb_keeps_the_result_of_a_c_program() {
    every_verb("heat2d-c");
}

#[test]
fn each_verb_keeps_the_result_of_a_rust_program() {
    every_verb("heat2d");
}

#[test]
fn any_rank_may_leave_and_is_gone_while_the_others_go_on() {
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, "heat2d-c", 2, 15_000, 500);
    let first: Vec<u32> = job.ranks().iter().map(|rank| rank.pid).collect();
    for (rank, node) in [(0, "n2"), (1, "n3")] {
        let leaver = job.ranks()[rank].pid;
        job.migrate(rank, node);
        assert!(
            !processes::is_alive(leaver),
            "the process that was rank {rank} is still there"
        );
        job.goes_on();
    }
    assert!(
        job.ranks().iter().all(|rank| !first.contains(&rank.pid)),
        "all first ranks have left"
    );
    job.resize(1);
    job.goes_on();
    job.migrate(0, "n1");
    job.goes_on();
    job.resize(5);
    job.goes_on();
    job.resize(2);
    assert_eq!(job.ends_right().ranks, 2);
    cluster.down();
}

/// A rank's own memory in KiB, its descriptors and its mappings.
type Held = (u64, usize, usize);

fn held_by(pid: u32) -> Held {
    let bytes = proc_files::memory_bytes(pid, "RssAnon").expect("a size");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the rank lives");
    (bytes >> 10, processes::file_count(pid), maps.lines().count())
}

/// One random change: a rank moves, or one or two join or leave.
fn change_at_random(job: &Malleable<'_>, random: &mut Random, round: u32) -> serde_json::Value {
    let ranks = job.ranks();
    let size = ranks.len();
    // The first change brings everything in MPI that depends on the number of ranks to its size.
    let to = if round == 1 {
        RANKS_MAX
    } else {
        (size + random.index(5)).saturating_sub(2).clamp(1, RANKS_MAX)
    };
    // From the tenth round on rank 0 stays, so that one process lives through the others.
    let rank = random.index(size);
    if to != size {
        job.resize(to)
    } else if round >= MEASURED_FROM && rank == 0 {
        job.resize(if size == RANKS_MAX { size - 1 } else { size + 1 })
    } else {
        let others: Vec<String> = (0..4)
            .map(|n| format!("n{n}"))
            .filter(|node| *node != ranks[rank].node)
            .collect();
        job.migrate(rank, &others[random.index(3)])
    }
}

#[test]
fn fifty_random_changes_of_a_c_program_keep_the_result_and_leave_nothing() {
    fifty_random_changes("heat2d-c");
}

#[test]
fn fifty_random_changes_of_a_rust_program_keep_the_result_and_leave_nothing() {
    fifty_random_changes("heat2d");
}

fn fifty_random_changes(program: &str) {
    let seed = asked::number("PCM_TEST_SEED").unwrap_or(u64::from(std::process::id()));
    println!("seed {seed}: PCM_TEST_SEED={seed} replays the changes");
    let mut random = Random::new(seed);
    let cluster = Cluster::up(4);
    let job = Malleable::start(&cluster, program, 3, 20_000, 300);
    let mut closing = Vec::new();
    let (mut measured, mut measured_from, mut rescued) = (None, MEASURED_FROM, 0);
    for round in 1..=50 {
        let before = job.ranks();
        let done = change_at_random(&job, &mut random, round);
        let after = job.ranks();
        for gone in before
            .iter()
            .filter(|rank| after.iter().all(|other| other.pid != rank.pid))
        {
            assert!(
                !processes::is_alive(gone.pid),
                "round {round}: {gone:?} left and is still there"
            );
        }
        if done["mode"] == "relaunch" {
            println!("round {round} was rescued by a relaunch: {done}\n{}", cluster.logs());
            (measured, measured_from, rescued) = (None, round + MEASURED_FROM, rescued + 1);
        } else {
            closing.push(phase_ms(&done, "closing"));
        }
        if round >= measured_from && measured.is_none() {
            measured = Some((after[0].pid, held_by(after[0].pid)));
        }
    }
    assert!(rescued <= RESCUED_MAX, "{rescued} changes were rescued by relaunches");
    match measured {
        Some(then) => expect_no_growth(&job, then),
        None => println!("saved too late for growth to be seen"),
    }
    closing.sort_by(f64::total_cmp);
    let (median, longest) = (closing[closing.len() / 2], closing[closing.len() - 1]);
    println!("closing: median {median} ms, longest {longest} ms");
    assert!(median <= GONE_MAX_MS, "leavers are gone late: {closing:?}");
    // One rank does the rest fastest where ranks outnumber CPUs.
    if job.ranks().len() > 1 {
        job.resize(1);
    }
    job.ends_right();
    cluster.down();
}

/// Holds what rank 0 has against what it had, and that it is still the same process.
fn expect_no_growth(job: &Malleable<'_>, (pid, (memory, descriptors, maps)): (u32, Held)) {
    assert_eq!(job.ranks()[0].pid, pid, "rank 0 stayed");
    let (memory_now, descriptors_now, maps_now) = held_by(pid);
    println!("memory {memory} to {memory_now} KiB");
    println!("{descriptors} to {descriptors_now} descriptors, {maps} to {maps_now} mappings");
    assert!(
        memory_now.saturating_sub(memory) <= GROWTH_MAX_KIB,
        "{memory} to {memory_now} KiB"
    );
    // One connection to each rank there can be, and a few mappings that the allocator adds or drops.
    assert!(
        descriptors_now <= descriptors + RANKS_MAX,
        "{descriptors} to {descriptors_now} descriptors"
    );
    assert!(maps_now <= maps + 8, "{maps} to {maps_now} mappings");
}

fn phase_ms(done: &serde_json::Value, phase: &str) -> f64 {
    let took = done["phases_ms"][phase].as_f64();
    took.unwrap_or_else(|| panic!("no phase {phase} in {done}"))
}
