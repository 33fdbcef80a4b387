//! Bench `wide`: collective operations of ranks at several sites, as libpcm carries them out against MPI's own, on the
//! same nodes and in turn. Sites are networks of their own, joined by wires that are long and slow.

use super::{
    bench::{Bench, Context, run_all},
    sparse_cg,
};
use limited_nodes::network::{FarSites, Network, Wire};
use pcm_bench::{Failure, OwnCluster, Report, Samples, progress::Progress, trial};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub(super) const BENCH: Bench = Bench {
    name: "wide",
    about: "all benches wide-*, one after the other; as root",
    run: |context| run_all(&PARTS, context),
};

pub(super) const PARTS: [Bench; 5] = [
    Bench {
        name: "wide-sizes",
        about: "fourteen collective operations over four sites at 10 ms and 1 MB/s against MPI's own, by their sizes",
        run: |context| run(context, &SIZES),
    },
    Bench {
        name: "wide-links",
        about: "the same over two sites, and over links that are longer, shorter, slower and faster",
        run: |context| run(context, &LINKS),
    },
    Bench {
        name: "wide-ways",
        about: "long messages from and to four sites over all links against one link each, at 10 ms and 1 MB/s",
        run: ways,
    },
    Bench {
        name: "wide-inside",
        about: "what a collective operation of one site costs more in a job over two sites, in nanoseconds",
        run: inside,
    },
    Bench {
        name: "wide-programs",
        about: "heat2d and conjugate gradients over two sites at 10 ms and 1 MB/s: MPI's own, libpcm, and with agents",
        run: programs,
    },
];

const NODES_OF_SITE: usize = 4;

const DEADLINE: Duration = Duration::from_secs(600);

/// Sites, milliseconds, bytes in a second, sizes.
struct Case {
    sites: usize,
    delay_ms: u64,
    megabytes_per_s: u64,
    sizes: &'static [&'static str],
    /// Shares of the rounds.
    rounds: (usize, usize),
}

impl Case {
    fn ranks(&self) -> usize {
        self.sites * NODES_OF_SITE
    }
}

/// One of two ways that are compared, and the variable with which a job takes it.
type Way = (&'static str, Option<(&'static str, &'static str)>);

const BY_LIBRARY: [Way; 2] = [("libpcm", None), ("MPI", Some(("PCM_WIDE", "no")))];

const fn case(sites: usize, delay_ms: u64, megabytes_per_s: u64, sizes: &'static [&'static str]) -> Case {
    Case {
        sites,
        delay_ms,
        megabytes_per_s,
        sizes,
        rounds: (1, 3),
    }
}

const SIZES: [Case; 2] = [
    Case {
        rounds: (1, 1),
        ..case(4, 10, 1, &["8", "1024", "65536"])
    },
    case(4, 10, 1, &["1048576"]),
];

const LINKS: [Case; 4] = [
    case(2, 10, 1, &["8", "1024", "65536"]),
    case(4, 1, 100, &["8", "65536"]),
    case(4, 50, 10, &["8", "65536"]),
    case(4, 100, 1, &["8", "65536"]),
];

/// Two megabytes, and for how long they are computed: a slow wire takes two seconds for them.
const PLATE_THAT_CROSSES: [&str; 8] = [
    "--rows",
    "512",
    "--cols",
    "512",
    "--iterations",
    "800",
    "--sleep-us",
    "10000",
];

/// In which order a communicator has its ranks.
const ORDERS: [(&str, &str); 2] = [("turn", "ranks in turn"), ("runs", "neighbours at one site")];

/// Operation and bytes, with what each repeat took.
type Times = BTreeMap<(String, u64), Vec<f64>>;

fn run(context: &Context, cases: &[Case]) -> Result<Report, Failure> {
    let mut report = Report::default();
    let cases = if context.quick { &cases[..1] } else { cases };
    for case in cases {
        measure(context, case, &mut report)?;
    }
    report.remarks.extend([
        format!("{NODES_OF_SITE} nodes at each site, a rank on each; each site has a wire to each other one"),
        "bytes: all that one rank gives or gets; the time from a common beginning until the last rank is done".into(),
    ]);
    Ok(report)
}

/// A cluster of so many nodes over the sites and links of a case.
fn up<'a>(context: &'a Context, case: &Case, nodes: usize) -> Result<(OwnCluster<'a>, TempDir), Failure> {
    let place = tempfile::tempdir().map_err(|error| Failure::bench(BENCH.name, error.to_string()))?;
    let program = context.program("pcm-wire");
    let sites = FarSites {
        count: case.sites,
        wire: Wire {
            delay: Duration::from_millis(case.delay_ms),
            bytes_per_s: case.megabytes_per_s * 1_000_000,
        },
        program: &program,
        are_named: true,
    };
    let network = Network::over_wires(nodes, sites, place.path());
    let network = network.ok_or_else(|| {
        Failure::bench(
            BENCH.name,
            "networks of its own need root, iproute2, nsenter and TAP devices",
        )
    })?;
    Ok((OwnCluster::up_in(&context.environment, network)?, place))
}

/// Barrier, Bcast, Reduce and Allreduce.
const LONG: [&str; 2] = ["65536:4", "1048576:4"];

/// What jobs take their links for, and the way that follows.
const BY_LINKS: [Way; 2] = [
    ("all links", Some(("PCM_LINK", "10 1"))),
    ("one link", Some(("PCM_LINK", "10 1000000"))),
];

fn ways(context: &Context) -> Result<Report, Failure> {
    let case = case(4, 10, 1, &LONG);
    let (cluster, _place) = up(context, &case, case.ranks())?;
    let mut report = Report::default();
    compare(context, &cluster, (&case, context.rounds()), &BY_LINKS, &mut report)?;
    cluster.down()?;
    Ok(report)
}

/// Calls of each operation in one run.
const CALLS_INSIDE: &str = "200000";

fn inside(context: &Context) -> Result<Report, Failure> {
    let (cluster, _place) = up(context, &case(2, 1, 100, &[]), 2)?;
    let mut ways = [Times::new(), Times::new()];
    for round in 0..context.rounds() {
        for way in [round % 2, 1 - round % 2] {
            let mut command = cluster.pcmctl(&["run", "-n", "2", "--quiet"]);
            if way == 1 {
                command.env("PCM_WIDE", "no");
            }
            command
                .arg("--")
                .arg(context.program("pcm-wide"))
                .args(["inside", CALLS_INSIDE]);
            add(&mut ways[way], &trial::run(BENCH.name, command, DEADLINE)?)?;
        }
    }
    cluster.down()?;
    let mut report = Report::default();
    let [ours, theirs] = ways;
    for ((operation, _), values) in ours {
        let mpi = &theirs[&(operation.clone(), 8)];
        let series = |whose: &str, ms: &[f64]| {
            let ns = ms.iter().map(|ms| ms * 1e6).collect();
            Samples::of(format!("{operation} of one rank, {whose}"), "ns", ns)
        };
        let (ours, mpi) = (series("sites looked at", &values), series("MPI's own", mpi));
        let more = ours.median() - mpi.median();
        report.ratio(format!("{operation}: nanoseconds more"), more, "<= 30");
        report.series.extend([ours, mpi]);
    }
    Ok(report)
}

/// How a program runs: with MPI's own operations, with those of libpcm, and with agents that know of sites, too.
const WAYS: [(&str, &str, bool); 3] = [
    ("MPI's own", "none", false),
    ("libpcm", "none", true),
    ("libpcm and agents", "nts", true),
];

/// So many ranks, two at each of two sites, find room at one.
const RANKS: usize = 4;

/// A quarter of the rounds: a run takes half a minute.
const ROUNDS_SHARE: usize = 4;

const HEAT2D: [&str; 6] = ["--rows", "512", "--cols", "512", "--iterations", "1500"];
const CG_ROWS: &str = "2000";
const CG_STEPS: &str = "16";

fn programs(context: &Context) -> Result<Report, Failure> {
    let (cluster, place) = up(context, &case(2, 10, 1, &[]), 2 * RANKS)?;
    let heat2d = [context.program("heat2d-c").into()].into_iter();
    let heat2d: Vec<OsString> = heat2d.chain(HEAT2D.map(OsString::from)).collect();
    let conjugate_gradients = sparse_cg::words((context, BENCH.name), place.path(), &[CG_ROWS], CG_STEPS)?;
    let rounds = context.rounds().div_ceil(ROUNDS_SHARE);
    let mut report = Report::default();
    let mut progress = Progress::begin("rounds");
    for (name, words) in [("heat2d", heat2d), ("conjugate gradients", conjugate_gradients)] {
        let mut times = WAYS.map(|(way, ..)| Samples::new(format!("{name}, {way}"), "s"));
        for round in 0..rounds {
            for (series, (_, policy, is_wide)) in times.iter_mut().zip(WAYS) {
                // One rank on each of the first nodes: left to the daemons, all begin at one site more often.
                let mut command = cluster.pcmctl(&["run", "-n", &RANKS.to_string(), "--ppn", "1"]);
                command.args(["--quiet", "--policy", policy]);
                if !is_wide {
                    command.env("PCM_WIDE", "no");
                }
                command.arg("--").args(&words);
                let began = Instant::now();
                trial::run(BENCH.name, command, DEADLINE)?;
                series.push(began.elapsed().as_secs_f64());
            }
            progress.at(round as u64 + 1, rounds as u64);
        }
        let [own, libpcm, agents] = &times;
        for (way, other) in [("libpcm", libpcm), ("libpcm and agents", agents)] {
            report.ratio(
                format!("{name}: MPI's own / {way}"),
                own.median() / other.median(),
                None,
            );
        }
        report.series.extend(times);
    }
    progress.clear();
    cluster.down()?;
    report.remarks = vec![format!(
        "{RANKS} ranks on nodes of two sites in turn, {RANKS} nodes at each; the time from `pcmctl run` to its end"
    )];
    Ok(report)
}

/// Checkpoints cross to another site until the daemon knows what its wire carries; what it tells jobs then.
fn link(context: &Context, cluster: &OwnCluster<'_>) -> Result<String, Failure> {
    let told = || {
        let mut told = cluster.pcmctl(&["run", "-n", "1", "--quiet"]);
        told.args(["--", "printenv", "PCM_LINK"]);
        trial::run(BENCH.name, told, DEADLINE)
    };
    let unknown = told()?;
    for _ in 0..CROSSINGS_MAX {
        let mut command = cluster.pcmctl(&["run", "-n", "1", "--quiet", "--checkpoint-every", "1", "--"]);
        command.arg(context.program("heat2d-c")).args(PLATE_THAT_CROSSES);
        trial::run(BENCH.name, command, DEADLINE)?;
        let told = told()?;
        if told.split(' ').nth(1) != unknown.split(' ').nth(1) {
            return Ok(told);
        }
    }
    let problem = format!("no wire was measured by {CROSSINGS_MAX} jobs whose checkpoints cross it");
    Err(Failure::bench(BENCH.name, problem))
}

/// One such job was not enough while compilers had both CPUs.
const CROSSINGS_MAX: usize = 4;

fn measure(context: &Context, case: &Case, report: &mut Report) -> Result<(), Failure> {
    let (cluster, _place) = up(context, case, case.ranks())?;
    let (sites, delay_ms, megabytes_per_s) = (case.sites, case.delay_ms, case.megabytes_per_s);
    report.remarks.push(format!(
        "{sites} sites, {delay_ms} ms, {megabytes_per_s} MB/s: jobs were told {} (milliseconds, MB/s)",
        link(context, &cluster)?.trim()
    ));
    let rounds = (context.rounds() * case.rounds.0).div_ceil(case.rounds.1);
    compare(context, &cluster, (case, rounds), &BY_LIBRARY, report)?;
    cluster.down()
}

/// Runs both ways in turn, in both orders of ranks; the ratio is the second's time over the first's.
fn compare(
    context: &Context,
    cluster: &OwnCluster<'_>,
    (case, rounds): (&Case, usize),
    ways: &[Way; 2],
    report: &mut Report,
) -> Result<(), Failure> {
    let mut progress = Progress::begin("rounds");
    for (order, named) in ORDERS {
        let mut times = [Times::new(), Times::new()];
        for round in 0..rounds {
            for way in [round % 2, 1 - round % 2] {
                let mut command = cluster.pcmctl(&["run", "-n", &case.ranks().to_string(), "--quiet"]);
                command.envs(ways[way].1);
                let margin = case.delay_ms as f64 / 1e3 * 8.0 + 0.05;
                command.arg("--").arg(context.program("pcm-wide"));
                command.args([order, &margin.to_string(), "1"]).args(case.sizes);
                add(&mut times[way], &trial::run(BENCH.name, command, DEADLINE)?)?;
            }
            progress.at(round as u64 + 1, rounds as u64);
        }
        add_ratios(case, named, ways, times, report);
    }
    progress.clear();
    Ok(())
}

/// Takes the lines `OPERATION BYTES SECONDS` in.
fn add(times: &mut Times, said: &str) -> Result<(), Failure> {
    let before = times.values().map(Vec::len).sum::<usize>();
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [operation, bytes, seconds] = words[..]
            && let (Ok(bytes), Ok(seconds)) = (bytes.parse(), seconds.parse::<f64>())
        {
            times
                .entry((operation.to_owned(), bytes))
                .or_default()
                .push(seconds * 1e3);
        }
    }
    match times.values().map(Vec::len).sum::<usize>() > before {
        true => Ok(()),
        false => Err(Failure::bench(BENCH.name, format!("no times in {said:?}"))),
    }
}

fn add_ratios(case: &Case, order: &str, ways: &[Way; 2], [first, second]: [Times; 2], report: &mut Report) {
    let Case {
        sites,
        delay_ms,
        megabytes_per_s,
        ..
    } = case;
    let network = format!("{sites} sites, {delay_ms} ms, {megabytes_per_s} MB/s, {order}");
    let [(first_way, _), (second_way, _)] = ways;
    for (key, values) in first {
        let Some(others) = second.get(&key) else { continue };
        let (operation, bytes) = key;
        let name = format!("{operation} of {bytes} bytes, {network}");
        let first = Samples::of(format!("{name}: {first_way}"), "ms", values);
        let second = Samples::of(format!("{name}: {second_way}"), "ms", others.clone());
        let ratio = second.median() / first.median();
        report.ratio(format!("{name}: {second_way} / {first_way}"), ratio, None);
        report.series.extend([first, second]);
    }
}
