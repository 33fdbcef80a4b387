//! One simulated cluster of real agents: `agents_trial NODES SEED SECONDS` prints its numbers.

use tests::agents::central;
use tests::agents::scenario::{Scenario, Speeds};
use tests::agents::world::World;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [nodes, seed, seconds] = numbers[..] else {
        eprintln!("usage: agents_trial NODES SEED SECONDS");
        std::process::exit(2);
    };
    let nodes = nodes.max(4) as usize;
    let scenario = Scenario {
        nodes,
        speeds: Speeds::Mixed,
        jobs: (nodes / 20).max(1),
        is_scattered: true,
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, seed);
    let best = central::throughput(&world);
    let before = world.throughput();
    world.run(seconds * 1_000_000);
    println!(
        "agents nodes {nodes} seed {seed} messages {:.4} settled_half {:.2} settled_most {:.2} before {:.4} after \
         {:.4} changes {}",
        world.messages_per_node_s(),
        world.settled_s(0.5),
        world.settled_s(0.95),
        before / best,
        world.throughput() / best,
        world.measures.changes.len()
    );
}
