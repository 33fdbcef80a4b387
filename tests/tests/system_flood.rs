//! A stranger opens 2,000 connections a second to a daemon and says nothing on them: a new link of ours is there within
//! two seconds, and a job keeps its speed. `PCM_FLOOD_SECONDS=60` floods for longer.

use std::{
    collections::VecDeque,
    fs,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};
use tests::{asked, cluster::Cluster, malleable::Malleable};

const PER_SECOND: u64 = 2000;

/// Connections that the stranger holds: more than there are places.
const HELD: usize = 1000;

/// Turns of quiet and flood, one after the other.
const TURNS: u32 = 4;

/// What a new link may take.
const LINK_WITHIN: Duration = Duration::from_secs(2);

/// The speed of a job that sleeps half of its time, on a machine of which the stranger and other tests take their part.
const SPEED_MIN: f64 = 0.6;

fn flood_for() -> Duration {
    Duration::from_secs(asked::number("PCM_FLOOD_SECONDS").unwrap_or(8))
}

/// Opens connections at its rate until it is told to stop.
fn flood(to: SocketAddr, opened: &AtomicU64, is_over: &AtomicBool) {
    let (begun, mut held) = (Instant::now(), VecDeque::new());
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_micros() as u64 * PER_SECOND / 1_000_000;
        if count >= due {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        count += 1;
        if let Ok(stream) = TcpStream::connect_timeout(&to, LINK_WITHIN) {
            opened.fetch_add(1, Ordering::Relaxed);
            held.push_back(stream);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

/// Asks over new links for so long; the longest any took.
fn longest_link(cluster: &Cluster, time: Duration) -> Duration {
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < time {
        let asked = Instant::now();
        let answer = cluster.run(&["nodes"]);
        assert!(answer.status.success(), "{answer:?}");
        longest = longest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(200));
    }
    longest
}

fn iterations(job: &Malleable) -> (u64, Instant) {
    let least = job.ranks().iter().map(|rank| rank.iteration).min();
    (least.unwrap_or(0), Instant::now())
}

/// Iterations a second while this runs, and what it gives.
fn speed<T>(job: &Malleable, during: impl FnOnce() -> T) -> (f64, T) {
    let (first, begun) = iterations(job);
    let given = during();
    let (last, ended) = iterations(job);
    ((last - first) as f64 / (ended - begun).as_secs_f64(), given)
}

#[test]
fn a_flood_without_a_key_keeps_no_member_out_and_slows_no_job() {
    let cluster = Cluster::up(2);
    let job = Malleable::start(&cluster, "heat2d-c", 2, 10_000_000, 2000);
    let address = fs::read_to_string(cluster.dir().join("nodes/n0/address")).expect("where it listens");
    let address: SocketAddr = address.trim().parse().expect("an address");
    let (turn, opened) = (flood_for() / TURNS, AtomicU64::new(0));
    let (mut quiet, mut flooded, mut longest) = (Vec::new(), Vec::new(), Duration::ZERO);
    for _ in 0..TURNS {
        quiet.push(speed(&job, || longest_link(&cluster, turn)).0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| flood(address, &opened, &is_over));
            let (speed, link) = speed(&job, || longest_link(&cluster, turn));
            is_over.store(true, Ordering::Relaxed);
            flooded.push(speed);
            longest = longest.max(link);
        });
    }
    let rate = opened.load(Ordering::Relaxed) as f64 / flood_for().as_secs_f64();
    let ratio = flooded.iter().sum::<f64>() / quiet.iter().sum::<f64>();
    println!("{rate:.0} connections a second, longest link {longest:?}, speed {ratio:.3} ({quiet:.0?}, {flooded:.0?})");
    assert!(
        rate > PER_SECOND as f64 / 2.0,
        "{rate:.0} connections a second are no flood"
    );
    assert!(longest < LINK_WITHIN, "{longest:?}");
    assert!(ratio > SPEED_MIN, "{ratio:.3}");
    job.kill();
    cluster.down();
}
