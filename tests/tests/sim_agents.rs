//! The real agents on simulated clusters: do they find good places, at what price in messages, and do they leave well
//! alone? Every test names its seed in what it says.

use ios_agent::decide::tuning::Tuning;
use tests::agents::central;
use tests::agents::scenario::{Scenario, Speeds};
use tests::agents::world::World;

const SECOND: u64 = 1_000_000;

fn mixed(nodes: usize) -> Scenario {
    Scenario {
        nodes,
        speeds: Speeds::Mixed,
        jobs: (nodes / 20).max(1),
        is_scattered: true,
        look_ms: 500,
        ..Scenario::default()
    }
}

#[test]
fn a_cluster_of_any_size_settles_with_the_same_messages_per_node() {
    let mut rows = Vec::new();
    for nodes in [10, 100, 1_000, 10_000] {
        let mut world = World::new(&mixed(nodes), 1);
        let best = central::throughput(&world);
        world.run(60 * SECOND);
        let row = (
            nodes,
            world.throughput() / best,
            world.messages_per_node_s(),
            world.settled_s(0.95),
        );
        println!(
            "nodes {:6}  of the best {:.3}  messages per node and s {:.3}  settled after {:5.1} s  changes {}",
            row.0,
            row.1,
            row.2,
            row.3,
            world.measures.changes.len()
        );
        assert_eq!(world.measures.crowded, Vec::<String>::new(), "nodes {nodes}");
        rows.push(row);
    }
    for (nodes, quality, messages, settled) in &rows {
        assert!(*quality >= 0.9, "{nodes} nodes: {quality}");
        assert!(*messages < 2.0 * rows[1].2.max(0.2), "{nodes} nodes: {messages}");
        // Logarithmic at most: a tenfold cluster may take one more unit of time.
        assert!(*settled <= 60.0, "{nodes} nodes: {settled}");
    }
}

#[test]
fn a_cluster_that_loses_nodes_and_messages_goes_on_and_stays_well_placed() {
    let scenario = Scenario {
        churn_per_minute: 0.01,
        loss: 0.01,
        ..mixed(1_000)
    };
    let mut world = World::new(&scenario, 2);
    world.run(120 * SECOND);
    let quality = world.throughput() / central::throughput(&world);
    let slowest = world
        .jobs
        .iter()
        .map(|job| job.iterations)
        .fold(f64::INFINITY, f64::min);
    println!(
        "deaths {}  of the best {quality:.3}  iterations of the slowest job {slowest:.0}  kept {:?}",
        world.measures.deaths,
        world.kept_max()
    );
    assert!(world.measures.deaths > 10);
    assert!(quality >= 0.85, "{quality}");
    // A rank on the slowest kind of node needs 41 ms an iteration.
    assert!(slowest > 120_000.0 / 41.0 * 0.8, "{slowest}");
    assert!(
        world.kept_max().iter().all(|kept| *kept <= 64),
        "{:?}",
        world.kept_max()
    );
}

#[test]
fn in_a_quiet_hour_nothing_moves() {
    for seed in 0..3 {
        let scenario = Scenario {
            nodes: 8,
            jobs: 2,
            noise: 0.04,
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, seed);
        // Bursts of others, too short to be worth anything: half a second in every twenty.
        for burst in 0..180 {
            let (at, node) = (
                burst * 20 * SECOND + seed * SECOND,
                (burst as usize * 3 + seed as usize) % 8,
            );
            world.load(at, node, 0.8);
            world.load(at + SECOND / 2, node, 0.0);
        }
        world.run(3600 * SECOND);
        assert_eq!(world.measures.changes, [], "seed {seed}");
    }
}

#[test]
fn after_a_spike_the_rank_computes_elsewhere_within_three_seconds() {
    let mut times = Vec::new();
    for seed in 0..30 {
        let mut world = World::new(
            &Scenario {
                nodes: 8,
                ..Scenario::default()
            },
            seed,
        );
        let at = 20 * SECOND + seed * 37_000;
        world.load(at, 2, 1.0);
        world.run(at + 30 * SECOND);
        let first = world.measures.changes.first();
        let (moved_us, ..) = first.unwrap_or_else(|| panic!("seed {seed}: nothing moved"));
        // The change takes effect after its preparation and pause.
        times.push((*moved_us - at) as f64 / 1e6 + 0.34);
        assert!(world.jobs[0].places.iter().all(|node| *node != 2), "seed {seed}");
        assert_eq!(
            world.measures.changes.len(),
            1,
            "seed {seed}: {:?}",
            world.measures.changes
        );
    }
    times.sort_by(f64::total_cmp);
    println!(
        "spike to computing elsewhere: median {:.2} s, p95 {:.2} s, worst {:.2} s",
        times[15], times[28], times[29]
    );
    assert!(times[28] <= 3.0, "{times:?}");
}

/// A load that follows the job: whatever node a rank is moved to is loaded next.
#[test]
fn a_load_that_turns_against_every_decision_costs_less_than_two_per_cent() {
    let run = |policy: &str| {
        let scenario = Scenario {
            nodes: 8,
            policy: policy.into(),
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, 6);
        let mut loaded = 0;
        for second in 0..600 {
            world.run(second * SECOND);
            if !world.jobs[0].places.contains(&loaded) {
                world.load(world.now_us, loaded, 0.0);
                loaded = world.jobs[0].places[0];
                world.load(world.now_us, loaded, 1.0);
            }
        }
        (world.jobs[0].iterations, world.measures.changes.len())
    };
    let ((still, _), (moving, changes)) = (run("none"), run("cost"));
    println!("{changes} changes, {:.3} of not moving", moving / still);
    assert!(
        moving >= 0.98 * still && changes < 100,
        "{moving} against {still}, {changes} changes"
    );
}

#[test]
fn a_node_that_joins_gets_work_at_once() {
    let mut world = World::new(
        &Scenario {
            nodes: 5,
            speeds: Speeds::Same,
            ..Scenario::default()
        },
        8,
    );
    // All nodes are loaded but for the fifth, which becomes free after ten seconds.
    (0..5).for_each(|node| world.load(0, node, 1.0));
    world.load(10 * SECOND, 4, 0.0);
    world.load(10 * SECOND, 1, 2.0);
    world.run(16 * SECOND);
    assert!(
        world.jobs[0].places.contains(&4),
        "{:?} {:?}",
        world.jobs[0].places,
        world.measures.changes
    );
}

#[test]
fn jobs_that_can_grow_share_the_cluster_and_none_starves() {
    let scenario = Scenario {
        nodes: 16,
        jobs: 3,
        ranks: 2,
        min: 1,
        max: 16,
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, 9);
    world.run(120 * SECOND);
    let sizes: Vec<usize> = world.jobs.iter().map(|job| job.places.len()).collect();
    println!("sizes {sizes:?}, changes {}", world.measures.changes.len());
    assert!(
        sizes.iter().all(|size| *size >= 2) && sizes.iter().sum::<usize>() >= 12,
        "{sizes:?}"
    );
    let changes = world.measures.changes.len();
    world.run(240 * SECOND);
    assert!(
        world.measures.changes.len() <= changes + 2,
        "ping-pong: {:?}",
        &world.measures.changes[changes..]
    );
}

#[test]
fn an_owner_gets_the_node_back() {
    let scenario = Scenario {
        nodes: 4,
        ranks: 4,
        min: 2,
        max: 4,
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, 10);
    world.load(5 * SECOND, 3, 1.0);
    world.run(40 * SECOND);
    assert!(
        !world.jobs[0].places.contains(&3),
        "{:?} {:?}",
        world.jobs[0].places,
        world.measures.changes
    );
    assert_eq!(world.jobs[0].places.len(), 3);
}

#[test]
fn slow_nodes_get_smaller_shares() {
    let mut world = World::new(
        &Scenario {
            nodes: 2,
            ranks: 2,
            min: 2,
            max: 2,
            ..Scenario::default()
        },
        11,
    );
    world.nodes[1].speed = 0.5;
    world.run(30 * SECOND);
    let best = world.jobs[0].work_ms / 1.5 + world.jobs[0].mpi_ms;
    assert!(
        world.iteration_ms(0) <= 1.05 * best,
        "{} against {best}",
        world.iteration_ms(0)
    );
}

#[test]
fn where_nobody_named_the_sites_jobs_are_gathered_by_what_was_measured() {
    for seed in 0..10 {
        let scenario = Scenario {
            nodes: 12,
            sites: 2,
            has_site_names: false,
            messages: 10.0,
            policy: "nts".to_owned(),
            is_scattered: true,
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, seed);
        world.run(60 * SECOND);
        let sites: Vec<usize> = world.jobs[0]
            .places
            .iter()
            .map(|node| world.nodes[*node].site)
            .collect();
        assert!(sites.iter().all(|site| *site == sites[0]), "seed {seed}: {sites:?}");
        assert!(
            world.measures.changes.len() <= 2,
            "seed {seed}: {:?}",
            world.measures.changes
        );
    }
}

#[test]
fn a_planted_fault_is_noticed_an_eager_judge_moves_in_a_quiet_hour() {
    let mut tuning = Tuning::default();
    (
        tuning.judge.holds,
        tuning.judge.gain_min,
        tuning.judge.gain_sure,
        tuning.judge.gain_per_cost_min,
    ) = (1, 0.0, 0.0, 1.0);
    let mut world = World::tuned(
        &Scenario {
            nodes: 8,
            jobs: 2,
            noise: 0.04,
            ..Scenario::default()
        },
        0,
        tuning,
    );
    world.run(600 * SECOND);
    assert!(!world.measures.changes.is_empty());
}
