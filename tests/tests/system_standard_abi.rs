//! Jobs of programs that were compiled for the standard ABI of MPI-5: they change live and by relaunch and recover, and
//! the result is that of an undisturbed run bit for bit; their calls of MPI do what they do without libpcm.

use pcm_proto::random::Random;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tests::{
    asked,
    background::Background,
    binaries::mpiexec,
    cluster::{Cluster, LIMIT},
    conformance::{Outcomes, read},
    crashing::Crashing,
    limited,
    malleable::Malleable,
    processes,
    standard_abi::{With, compiled, compiler, library},
};

const CHANGES: u32 = 20;
const RANKS_MAX: usize = 6;
const NODES: u32 = 4;

const HEAT: &str = "examples/heat2d/heat2d.c";
const CONFORMANCE: &str = "tests/programs/conformance";
/// A chapter that is lost is noticed.
const CHECKS_MIN: usize = 300;
const ROUND_MAX: Duration = Duration::from_secs(240);

/// What the daemons choose for their ranks: without it, MPICH's own choice does not let a program spawn here.
const TRANSPORT: [(&str, &str); 2] = [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Files with program code in a process whose names begin so, without their folders.
fn loaded(pid: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the rank lives");
    let files = maps.lines().filter(|line| line.contains(" r-xp "));
    let names = files.filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name);
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("libpcm") || name.starts_with("libmpi"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// One random live change: a rank moves, or one or two join or leave.
fn change_at_random(job: &Malleable<'_>, random: &mut Random) -> serde_json::Value {
    let ranks = job.ranks();
    let size = ranks.len();
    let to = (size + random.index(5)).saturating_sub(2).clamp(1, RANKS_MAX);
    if to != size {
        return job.resize(to);
    }
    let rank = random.index(size);
    let nodes = (0..NODES).map(|number| format!("n{number}"));
    let others: Vec<String> = nodes.filter(|node| *node != ranks[rank].node).collect();
    job.migrate(rank, &others[random.index(others.len())])
}

#[test]
fn twenty_random_live_changes_keep_the_result_and_who_leaves_is_gone() {
    let Some(compiler) = compiler() else { return };
    let seed = asked::number("PCM_TEST_SEED").unwrap_or(u64::from(std::process::id()));
    println!("seed {seed}: PCM_TEST_SEED={seed} replays the changes");
    let mut random = Random::new(seed);
    let cluster = Cluster::up(NODES);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let job = Malleable::start(&cluster, text(&program), 2, 20_000, 300);
    assert_eq!(loaded(job.ranks()[0].pid), ["libmpi_abi.so.1", "libpcm_abi.so"]);
    for round in 1..=CHANGES {
        let before = job.ranks();
        let done = change_at_random(&job, &mut random);
        let after = job.ranks();
        assert_eq!(done["mode"], "live", "round {round}: {done}\n{}", cluster.logs());
        let gone = before
            .iter()
            .filter(|rank| after.iter().all(|other| other.pid != rank.pid));
        for gone in gone {
            assert!(
                !processes::is_alive(gone.pid),
                "round {round}: {gone:?} left and is still there"
            );
        }
    }
    job.ends_right();
    cluster.down();
}

#[test]
fn a_program_linked_with_the_other_libpcm_or_with_none_works_with_its_own() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::TheOther);
    let job = Malleable::start(&cluster, text(&program), 2, 6000, 500);
    let names = loaded(job.ranks()[0].pid);
    assert!(names.contains(&"libpcm_abi.so".to_owned()), "{names:?}");
    job.migrate(1, "n0");
    job.resize(3);
    job.resize(1);
    assert_eq!(job.ends_right().ranks, 1);
    // Without a variable that names an MPI: by the run path of the program.
    let plain = compiled(&compiler, "tests/programs/which_mpi.c", cluster.files(), With::Nothing);
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    let outcome = limited::run(command.arg(&plain).env_remove("PCM_MPI"), LIMIT);
    let expected = format!("runs with {}", library().display());
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), [expected.as_str(); 2]);
    cluster.down();
}

/// What starts it has no MPI.
fn in_a_shell(cluster: &Cluster, program: &Path, abi: Option<&str>) -> limited::Outcome {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--", "sh", "-c", "exec \"$0\""]);
    command.arg(program).env_remove("PCM_MPI");
    limited::run(command.envs(abi.map(|abi| ("PCM_MPI_ABI", abi))), LIMIT)
}

#[test]
fn a_program_behind_a_script_is_told_which_word_it_needs() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(1);
    let program = compiled(&compiler, "tests/programs/which_mpi.c", cluster.files(), With::Nothing);
    let refused = in_a_shell(&cluster, &program, None);
    assert!(
        !refused.status.success() && refused.stderr.contains("PCM_MPI_ABI=standard"),
        "{refused:?}"
    );
    let told = in_a_shell(&cluster, &program, Some("standard"));
    assert!(told.status.success(), "{told:?}");
    let expected = format!("runs with {}", library().display());
    assert_eq!(told.stdout.lines().collect::<Vec<_>>(), [expected.as_str(); 2]);
    let unknown = in_a_shell(&cluster, &program, Some("another"));
    assert!(
        unknown.status.code() == Some(2) && unknown.stderr.contains("mpich or standard"),
        "{unknown:?}"
    );
    // One library for a program of one ABI, the other one named for it.
    let other = library().with_file_name("libmpi.so.12");
    let mut command = cluster.pcmctl(&["run", "--mpi-lib", text(&other), "--"]);
    let wrong = limited::run(command.arg(&program), LIMIT);
    assert!(
        wrong.status.code() == Some(2) && wrong.stderr.contains("was compiled for the standard ABI"),
        "{wrong:?}"
    );
    cluster.down();
}

#[test]
fn a_job_is_relaunched_and_ends_right() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let job = Malleable::start(&cluster, text(&program), 2, 6000, 500);
    for to in ["3", "1"] {
        let verb = if to == "3" { "expand" } else { "shrink" };
        let outcome = cluster.run(&[verb, "1", "--to", to, "--mode", "relaunch"]);
        assert!(outcome.status.success(), "{outcome:?}\n{}", job.told());
    }
    assert_eq!(job.ends_right().ranks, 1);
    cluster.down();
}

#[test]
fn a_killed_rank_costs_the_iterations_since_the_last_checkpoint_and_nothing_else() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::that_crashes(3);
    let program = compiled(&compiler, HEAT, cluster.files(), With::ItsOwn);
    let every = ["--checkpoint-every", "0.3"];
    let job = Crashing::start_program(&cluster, text(&program), &every, (1500, 3000), &[]);
    job.wait_for("checkpoint_complete", 2);
    assert!(job.kill_rank(2));
    job.wait_for("recovered", 1);
    let recovered = job.events("recovered").remove(0);
    assert!(recovered["from"].as_u64() > Some(0), "{recovered}");
    assert_eq!(recovered["ranks"], 4, "{recovered}");
    job.ends_right();
    cluster.down();
}

/// The one round of checks that a command runs.
fn round(command: &mut Command) -> Outcomes {
    let outcome = limited::run(command, ROUND_MAX);
    let mut rounds = read(&outcome.stdout);
    assert!(outcome.status.success() && rounds.len() == 1, "{outcome:?}");
    rounds.remove(0)
}

/// The checks before a change, and after each.
fn around_changes(cluster: &Cluster, program: &Path) -> Vec<Outcomes> {
    let mut command = cluster.pcmctl(&["run", "-n", "4", "--nodes", "n0", "--name", "changing", "--"]);
    let job = Background::start(command.arg(program).args(["--changes", "2"]));
    cluster.wait_until_ranks_of_iterate("changing");
    let changes: [&[&str]; 2] = [
        &["migrate", "changing", "--rank", "0", "--to", "n1", "--mode", "live"],
        &["expand", "changing", "--to", "5", "--mode", "live"],
    ];
    for change in changes {
        let outcome = cluster.run(change);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let outcome = job.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    read(&outcome.stdout)
}

/// The name and both words of each check that ended otherwise.
fn differences(place: &str, expected: &Outcomes, found: &Outcomes) -> Vec<String> {
    let word = |outcomes: &Outcomes, name: &str| outcomes.get(name).map(ToString::to_string).unwrap_or_default();
    let names = expected
        .keys()
        .chain(found.keys().filter(|name| !expected.contains_key(*name)));
    let pairs = names.map(|name| (name, word(expected, name), word(found, name)));
    let kind = |word: &str| word.split_whitespace().next().map(str::to_owned);
    pairs
        .filter(|(_, one, other)| kind(one) != kind(other))
        .map(|(name, one, other)| format!("{place}: {name}: {one} became {other}"))
        .collect()
}

#[test]
fn every_check_of_conformance_ends_as_without_libpcm() {
    let Some(compiler) = compiler() else { return };
    let cluster = Cluster::up(2);
    let folder = |name: &str| -> PathBuf {
        let folder = cluster.files().join(name);
        fs::create_dir(&folder).expect("a folder of the test");
        folder
    };
    let plain = compiled(&compiler, CONFORMANCE, &folder("plain"), With::Nothing);
    let linked = compiled(&compiler, CONFORMANCE, &folder("linked"), With::ItsOwn);
    let under_mpiexec = |program: &Path| {
        let mut command = cluster.command(mpiexec());
        round(command.envs(TRANSPORT).args(["-n", "4"]).arg(program))
    };
    let expected = under_mpiexec(&plain);
    assert!(expected.len() >= CHECKS_MIN, "{}", expected.len());
    let mut found = differences("mpiexec with libpcm", &expected, &under_mpiexec(&linked));
    let mut command = cluster.pcmctl(&["run", "-n", "4", "--"]);
    found.extend(differences("pcmctl run", &expected, &round(command.arg(&plain))));
    let around = around_changes(&cluster, &linked);
    assert_eq!(around.len(), 3);
    for (place, outcomes) in ["before a change", "after a migration", "after an expansion"]
        .iter()
        .zip(&around)
    {
        found.extend(differences(place, &expected, outcomes));
    }
    cluster.down();
    println!("{} checks, {} differ", expected.len(), found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
