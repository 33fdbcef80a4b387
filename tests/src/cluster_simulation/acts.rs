//! What persons do in a history, drawn from its seed.

use super::person::{Act, Change};
use super::rank::Program;
use pcm_proto::layout::ModeWanted;
use pcm_proto::random::Random;

/// What persons do in a history, and when.
pub(super) fn draw_acts(machines: usize, programs: &[Program], heal_at: u64, random: &mut Random) -> Vec<(u64, Act)> {
    let mut acts = Vec::new();
    let jobs = 1 + random.index(3);
    for _ in 0..jobs {
        let run = Act::Run {
            program: random.index(programs.len()),
            ranks: 1 + random.below(4) as u32,
            is_detached: random.chance(0.6),
            restarts_max: random.pick(&[0, 5, 100]).unwrap_or(5),
            via: random.index(machines),
        };
        acts.push((random.between(300_000, 2_500_000), run));
    }
    let changes = random.index(6);
    for _ in 0..changes {
        let kinds = [
            Change::Migrate,
            Change::Migrate,
            Change::Expand,
            Change::Shrink,
            Change::Rebalance,
            Change::Evacuate,
            Change::Relaunch,
            Change::Arrange,
        ];
        let modes = [
            ModeWanted::Auto,
            ModeWanted::Auto,
            ModeWanted::Live,
            ModeWanted::Relaunch,
        ];
        let change = Act::Change {
            change: random.pick(&kinds).unwrap_or(Change::Rebalance),
            mode: random.pick(&modes).unwrap_or(ModeWanted::Auto),
            via: random.index(machines),
        };
        acts.push((random.between(2_000_000, heal_at + 1_000_000), change));
    }
    draw_orders(machines, heal_at, random, &mut acts);
    if random.chance(0.1) {
        let via = random.index(machines);
        acts.push((heal_at + random.between(500_000, 4_000_000), Act::Down { via }));
    }
    acts
}

/// Draws what a person wants beside jobs and changes: looks, checkpoints, drains and the like.
fn draw_orders(machines: usize, heal_at: u64, random: &mut Random, acts: &mut Vec<(u64, Act)>) {
    for _ in 0..random.index(4) {
        let via = random.index(machines);
        let act = match random.index(10) {
            0..=3 => Act::Look { via },
            4..=6 => Act::Checkpoint {
                in_files: random.chance(0.4),
                via,
            },
            7 => Act::Kill { via },
            8 => Act::Notice {
                machine: random.index(machines),
            },
            _ => {
                let machine = random.index(machines);
                let deadline_ms = random.chance(0.5).then_some(6_000);
                if random.chance(0.5) {
                    let undrain = Act::Undrain { machine, via };
                    acts.push((random.between(2_500_000, heal_at + 2_000_000), undrain));
                }
                Act::Drain {
                    machine,
                    deadline_ms,
                    via,
                }
            }
        };
        acts.push((random.between(2_000_000, heal_at), act));
    }
}
