//! What is sent more than once when packets are lost, in virtual time: fragments sent for each fragment needed, and how
//! long a message takes.

use super::setting::{Problem, key};
use pcm_bench::Samples;
use pcm_fabric::datagram::{Core, DatagramLimits, Incarnation};
use std::{collections::BTreeMap, time::Duration};

const MESSAGES: usize = 400;
const LENGTH: usize = 3000;
const DELAY: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_secs(30);

pub(super) fn run(series: &mut Vec<Samples>) -> Result<(), Problem> {
    for percent in [0, 1, 5, 10, 30] {
        let (overhead, took) = at_loss(percent)?;
        let sent = format!("loss {percent} %, fragments sent per needed");
        series.push(Samples::of(sent, "ratio", vec![overhead]));
        let confirmed = format!("loss {percent} %, message of {LENGTH} B confirmed");
        series.push(Samples::of(confirmed, "ms", took));
    }
    Ok(())
}

fn at_loss(percent: u64) -> Result<(f64, Vec<f64>), Problem> {
    let key = key()?;
    let mut ends: [Core<usize>; 2] =
        [1, 2].map(|number| Core::new(&key, 1, Incarnation([number; 16]), DatagramLimits::default()));
    let mut wire: BTreeMap<(Duration, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let (mut now, mut count, mut dice) = (Duration::ZERO, 0, 88_172_645_463_325_252_u64);
    let (mut took, mut out) = (Vec::new(), Vec::new());
    for _ in 0..MESSAGES {
        let begun = now;
        ends[0].send(now, 1, vec![0; LENGTH], DEADLINE)?;
        loop {
            for end in &mut ends {
                while let Some(to) = end.poll_transmit(now, &mut out) {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    if dice % 100 >= percent {
                        count += 1;
                        wire.insert((now + DELAY, count), (to, out.clone()));
                    }
                }
            }
            while ends[1].poll_received().is_some() {}
            if let Some((_, outcome)) = ends[0].poll_outcome() {
                outcome?;
                took.push((now - begun).as_secs_f64() * 1e3);
                break;
            }
            let arrival = wire.keys().next().map(|(when, _)| *when);
            let timers = ends.iter().filter_map(Core::next_wakeup);
            now = timers.chain(arrival).min().ok_or("nothing will ever happen")?.max(now);
            for end in &mut ends {
                end.on_time(now);
            }
            while let Some(entry) = wire.first_entry().filter(|entry| entry.key().0 <= now) {
                let (to, mut packet) = entry.remove();
                ends[to].on_packet(now, 1 - to, &mut packet);
            }
        }
    }
    let needed = (MESSAGES * 3) as f64;
    Ok((ends[0].counters().fragments_sent as f64 / needed, took))
}
