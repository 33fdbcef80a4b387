//! Agents and the render farm, with the machine to themselves: while other programs load its CPUs, no node is idle.

use tests::{
    background::Background,
    cluster::Cluster,
    example::ranks,
    farm::{FILM_LIMIT, farm, has_programs, scene, wait_for_frames},
    wait,
};

const FRAMES: usize = 60;

#[test]
fn agents_grow_a_farm_onto_idle_nodes() {
    if !has_programs() {
        return;
    }
    let cluster = Cluster::up(3);
    let options = ["-n", "1", "--min", "1", "--max", "3", "--policy", "cost"];
    let running = Background::start(&mut farm(&cluster, &options, &scene(), FRAMES));
    wait_for_frames(&cluster.files().join("film"), 1);
    wait::until("a second rank", FILM_LIMIT, || {
        (ranks(&cluster).len() > 1).then_some(())
    });
    let outcome = running.end(FILM_LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let decided = cluster.events(Some("1"), "decision");
    let chosen = decided.iter().find(|decision| !decision["chosen"].is_null());
    assert!(
        chosen.is_some_and(|decision| decision["policy"] == "cost"),
        "{decided:?}"
    );
    cluster.down();
}
