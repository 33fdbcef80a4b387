//! The redistributions that are measured, and the samples' summary.

use crate::{by_movement::Job, by_mpi};
use pcm::mpi::Communicator;
use pcm_bench::statistics::median;

/// Name and number of processes. In a name: ranks before and after.
pub(crate) const ALL: [(&str, u32); 5] = [
    ("migrate rows 1->1", 2),
    ("migrate rows 2->2", 3),
    ("grow rows 2->4", 4),
    ("shrink rows 4->2", 4),
    ("grow columns 2->4", 4),
];

/// Old and new ranks by process, and whether columns are divided instead of rows.
fn layouts(case: &str) -> (Vec<u32>, Vec<u32>, bool) {
    match case {
        "migrate rows 1->1" => (vec![0], vec![1], false),
        "migrate rows 2->2" => (vec![0, 1], vec![0, 2], false),
        "grow rows 2->4" => (vec![0, 1], vec![0, 2, 1, 3], false),
        "shrink rows 4->2" => (vec![0, 2, 1, 3], vec![0, 1], false),
        "grow columns 2->4" => (vec![0, 1], vec![0, 2, 1, 3], true),
        other => panic!("no case {other:?}"),
    }
}

/// Measures one case as the program of each process.
pub(crate) fn run(case: &str, bytes_per_rank: u64, rounds: u64) {
    by_mpi::initialize();
    let world = Communicator::world();
    let me = world.rank().unwrap();
    let (old, new, by_columns) = layouts(case);
    let mut samples: [Vec<f64>; 5] = Default::default();
    for round in 0..=rounds {
        let job = Job::new(&world, &old, &new, bytes_per_rank, by_columns);
        let one_way = by_mpi::one_way(&world, bytes_per_rank);
        let (alltoallv, alltoallv_moved) = job.by_alltoallv();
        let (seconds, moved) = job.by_movement();
        let gibibytes = |bytes: u64, seconds: f64| bytes as f64 / seconds / f64::from(1 << 30);
        let sample = [
            gibibytes(bytes_per_rank, one_way),
            gibibytes(alltoallv_moved, alltoallv),
            gibibytes(moved, seconds),
        ];
        // The first round warms MPI up.
        if me == 0 && round > 0 {
            let ratios = [sample[2] / sample[0], sample[2] / sample[1]];
            samples
                .iter_mut()
                .zip(sample.iter().chain(&ratios))
                .for_each(|(all, one)| all.push(*one));
        }
    }
    if me == 0 {
        let medians = samples.map(|samples| median(&samples));
        let [one_way, alltoallv, movement, to_one_way, to_alltoallv] = medians;
        println!(
            "{case:<20} one-way {one_way:5.2}  alltoallv {alltoallv:5.2}  movement {movement:5.2} GiB/s   \
             of one-way {to_one_way:4.2}  of alltoallv {to_alltoallv:4.2}"
        );
    }
    by_mpi::finalize();
}
