//! Clusters in jobs of a real Slurm: up with the allocation, grown by helpers, given back, and nothing left.

use std::{fs, path::PathBuf, process::Command, time::Duration};
use tests::{
    binaries::built,
    cluster::LIMIT,
    heat2d::{Closing, reference_checksum},
    limited,
    slurm::Slurm,
    wait,
};

/// What a job of these tests may take, with a scheduler that looks every two seconds.
const JOB_ENDS_WITHIN: Duration = Duration::from_secs(120);

/// Far below KillWait, which a daemon that hangs would take.
const CANCELLED_WITHIN: Duration = Duration::from_secs(10);

const IDLE_WITHIN: Duration = Duration::from_secs(30);

/// `pcmctl expand` of a job that may just have been started: asked again while its ranks are before their loop.
const EXPAND: &str = r#"expand() {
    for i in $(seq 300); do
        said=$(pcmctl expand "$@" 2>&1) && code=0 || code=$?
        case $said in *"not begun its loop"* | *"no job"*) sleep 0.1 ;; *) break ;; esac
    done
    echo "$said"
    return $code
}"#;

fn folder_of_programs() -> PathBuf {
    built("pcmctl").parent().expect("a folder").to_owned()
}

/// A script whose programs are the built ones and whose cluster is in the Slurm's folder.
fn script(slurm: &Slurm, body: &str) -> String {
    let bin = folder_of_programs();
    let bin = bin.display();
    let cluster = slurm.home().join("the cluster");
    format!(
        "#!/bin/bash\nset -e\nexport PATH=\"{bin}:$PATH\" PCM_CLUSTER=\"{}\" PCM_POLICY=none PCM_PATIENCE=5\n{EXPAND}\n\
         {body}\n",
        cluster.display()
    )
}

/// Runs a job to its end and gives back what it printed.
fn run(slurm: &Slurm, options: &[&str], body: &str) -> String {
    let job = submitted(slurm, options, body);
    printed(slurm, &job)
}

fn submitted(slurm: &Slurm, options: &[&str], body: &str) -> String {
    let to = format!("--output={}", output(slurm).display());
    let options = [&["--ntasks-per-node=1", "--exclusive", &to], options].concat();
    slurm.submit(&options, &script(slurm, body))
}

fn output(slurm: &Slurm) -> PathBuf {
    slurm.home().join("job.out")
}

/// What a job printed until its end, which is a success.
fn printed(slurm: &Slurm, job: &str) -> String {
    let state = slurm.wait_for_end(job, JOB_ENDS_WITHIN);
    let printed = fs::read_to_string(output(slurm)).unwrap_or_default();
    assert_eq!(state, "COMPLETED", "{printed}");
    printed
}

/// Waits until a job has printed this.
fn wait_until_printed(slurm: &Slurm, text: &str) {
    wait::until(text, JOB_ENDS_WITHIN, || {
        let printed = fs::read_to_string(output(slurm)).unwrap_or_default();
        printed.contains(text).then_some(())
    });
}

/// What heat2d of so many rows, columns and iterations printed among other lines is right.
fn assert_right(printed: &str, (rows, cols, iterations): (usize, usize, u64)) {
    let closing = printed.lines().find(|line| line.starts_with("heat2d: "));
    let closing = Closing::read(closing.unwrap_or_default());
    assert_eq!(
        closing.checksum,
        reference_checksum(rows, cols, iterations),
        "{printed}"
    );
}

/// Nothing of any job: in Slurm's eyes, among the processes, in the directory.
fn assert_nothing_left(slurm: &Slurm, nodes: usize) {
    slurm.wait_until_idle(nodes, IDLE_WITHIN);
    wait::until("the end of all processes of jobs", LIMIT, || {
        slurm.processes_of_jobs().is_empty().then_some(())
    });
    assert!(!slurm.home().join("the cluster").exists());
}

#[test]
fn all_nodes_of_an_allocation_come_up_and_a_job_computes_right() {
    let slurm = Slurm::start(3, 2);
    let printed = run(
        &slurm,
        &["--nodes=3"],
        "pcmctl up
pcmctl run -n 3 -- bash -c 'echo rank on $PCM_NODE says $SLURMD_NODENAME'
pcmctl run -n 3 -- heat2d-c --rows 61 --cols 83 --iterations 200
pcmctl down",
    );
    assert!(printed.contains("3 nodes up in "), "{printed}");
    for node in ["v1", "v2", "v3"] {
        assert!(printed.contains(&format!("rank on {node} says {node}")), "{printed}");
    }
    assert_right(&printed, (61, 83, 200));
    assert_nothing_left(&slurm, 3);
}

/// Slurm finds what a job started by the parents of processes, or by their group.
#[test]
fn a_helper_joins_is_cancelled_and_the_job_goes_on_without_it() {
    for proctrack in ["linuxproc", "pgid"] {
        goes_on_without_its_helper(&Slurm::start_tracking(3, 2, proctrack));
    }
}

fn goes_on_without_its_helper(slurm: &Slurm) {
    let printed = run(
        slurm,
        &["--nodes=2", "--time=10"],
        "pcmctl up
pcmctl grow --slurm 1 -- --exclusive
pcmctl run -n 2 --name heat --checkpoint-every 0.5 -- heat2d-c --rows 60 --cols 40 --iterations 1500 --sleep-us 5000 &
job=$!
for i in $(seq 300); do [ $(pcmctl nodes | grep -c ' up$') = 3 ] && break; sleep 0.1; done
squeue --noheader --name=pcm-grow-$SLURM_JOB_ID --format='helper: %T of %k for %l'
expand heat --to 3
sleep 1
before=$(date +%s%N)
scancel --name=pcm-grow-$SLURM_JOB_ID
until pcmctl nodes | grep -q 'v3.*gone' || ! pcmctl nodes | grep -q v3; do sleep 0.05; done
echo left after $((($(date +%s%N) - before) / 1000000)) ms
wait $job
pcmctl events --json | grep -c 'node v3 is taken away' || true
pcmctl down",
    );
    assert!(
        printed.contains("helper: RUNNING of one more node for job"),
        "{printed}"
    );
    assert!(printed.contains("expand: 2 to 3 ranks"), "{printed}");
    assert_right(&printed, (60, 40, 1500));
    assert_nothing_left(slurm, 3);
}

/// The controller and the daemons of all nodes are killed and come back; the job grows before and after.
#[test]
fn a_job_goes_on_while_slurm_is_away() {
    let mut slurm = Slurm::start(3, 2);
    let job = submitted(
        &slurm,
        &["--nodes=2", "--time=10"],
        "touch begun
pcmctl up
pcmctl run -n 2 --name heat --checkpoint-every 0.5 -- heat2d-c --rows 60 --cols 40 --iterations 4000 --sleep-us 5000 &
job=$!
expand heat --to 3
echo Slurm may go
until [ -e away ]; do sleep 0.1; done
before=$(date +%s)
pcmctl grow --slurm 1 -- --exclusive || echo refused after $(($(date +%s) - before)) s
pcmctl migrate heat --rank 0 --to v2
until [ -e back ]; do sleep 0.1; done
pcmctl grow --slurm 1 -- --exclusive
for i in $(seq 300); do [ $(pcmctl nodes | grep -c ' up$') = 3 ] && break; sleep 0.1; done
expand heat --to 4
wait $job
pcmctl down",
    );
    wait_until_printed(&slurm, "Slurm may go");
    slurm.wait_until_saved(&slurm.home().join("begun"));
    slurm.crash("slurmctld");
    slurm.crash("slurmd");
    fs::write(slurm.home().join("away"), "").expect("a file");
    wait_until_printed(&slurm, "refused after");
    wait_until_printed(&slurm, "migrate:");
    slurm.come_back();
    slurm.wait_until_idle(1, IDLE_WITHIN);
    fs::write(slurm.home().join("back"), "").expect("a file");
    let printed = printed(&slurm, &job);
    println!("{printed}");
    assert!(printed.contains("expand: 3 to 4 ranks"), "{printed}");
    assert_right(&printed, (60, 40, 4000));
    assert_nothing_left(&slurm, 3);
}

/// Helpers of a preemptible partition leave for an urgent job, and come back when it is done; one that is cancelled
/// does not.
#[test]
fn scavengers_give_their_nodes_up_and_come_back() {
    let slurm = Slurm::start(3, 2);
    let job = submitted(
        &slurm,
        &["--nodes=1", "--time=10"],
        "pcmctl up
pcmctl grow --slurm 2 --scavenge -- --exclusive --partition=idle
up() { for i in $(seq 600); do [ $(pcmctl nodes | grep -c ' up$') = $1 ] && break; sleep 0.1; done; }
up 3
pcmctl run -n 1 --name heat --checkpoint-every 0.5 -- heat2d-c --rows 60 --cols 40 --iterations 6000 --sleep-us 5000 &
job=$!
expand heat --to 3
echo all nodes are taken
until [ -e urgent ]; do sleep 0.02; done
until [ $(pcmctl nodes | grep -c ' up$') != 3 ]; do sleep 0.02; done
noticed=$(date +%s%N)
until [ $(pcmctl ps heat | grep -c ' v1 ') = 3 ]; do sleep 0.02; done
echo empty after $((($(date +%s%N) - noticed) / 1000000)) ms
# Slurm keeps what went back into the queue there for two minutes.
soon() { for id in $(squeue --noheader --name=pcm-grow-$SLURM_JOB_ID --states=PENDING --format=%A); do
    scontrol update JobId=$id StartTime=now || true
done; }
for i in $(seq 60); do soon; [ $(pcmctl nodes | grep -c ' up$') = 3 ] && break; sleep 0.5; done
squeue --noheader --name=pcm-grow-$SLURM_JOB_ID --format='%A is %T'
echo back again
expand heat --to 4
helper=$(squeue --noheader --name=pcm-grow-$SLURM_JOB_ID --format=%A | head -n 1)
scancel $helper
state() { squeue --noheader --jobs=$helper --states=all --format=%T; }
for i in $(seq 100); do [ $(state) = CANCELLED ] && break; sleep 0.2; done
echo cancelled: $(state)
wait $job
pcmctl nodes
pcmctl down",
    );
    wait_until_printed(&slurm, "all nodes are taken");
    fs::write(slurm.home().join("urgent"), "").expect("a file");
    let options = ["--nodes=2", "--exclusive", "--partition=urgent", "--output=urgent.out"];
    let urgent = slurm.submit(&options, "#!/bin/sh\nsleep 2\necho done\n");
    assert_eq!(slurm.wait_for_end(&urgent, JOB_ENDS_WITHIN), "COMPLETED");
    let printed = printed(&slurm, &job);
    println!("{printed}");
    assert!(
        printed.contains("empty after") && printed.contains("back again"),
        "{printed}"
    );
    assert!(printed.contains("expand: 3 to 4 ranks"), "{printed}");
    assert!(printed.contains("cancelled: CANCELLED"), "{printed}");
    assert_right(&printed, (60, 40, 6000));
    assert_nothing_left(&slurm, 3);
}

#[test]
fn a_helper_that_is_removed_gives_its_node_back() {
    let slurm = Slurm::start(2, 2);
    let printed = run(
        &slurm,
        &["--nodes=1", "--time=10"],
        "pcmctl up
helper=$(pcmctl grow --slurm 1 --json -- --exclusive | tr -dc 0-9)
for i in $(seq 300); do [ $(pcmctl nodes | grep -c ' up$') = 2 ] && break; sleep 0.1; done
pcmctl nodes
pcmctl remove v2
is_running() { squeue --noheader --jobs=$helper --states=RUNNING,COMPLETING | grep -q .; }
for i in $(seq 300); do is_running || break; sleep 0.1; done
scontrol --oneliner show job $helper | tr ' ' '\\n' | grep -E '^(JobState|ExitCode)='
pcmctl down",
    );
    assert!(printed.contains("node v2 is removed"), "{printed}");
    assert!(printed.contains("JobState=COMPLETED\nExitCode=0:0"), "{printed}");
    assert_nothing_left(&slurm, 2);
}

/// The helper has two minutes, is closed for ranks in the last 200 s and is left in the last 100 s.
#[test]
fn nodes_know_the_limits_of_their_jobs_and_a_helper_is_left_before_its_own() {
    let slurm = Slurm::start(3, 2);
    let told = slurm.home().join("nodes.json");
    let printed = run(
        &slurm,
        &["--nodes=2", "--time=10"],
        &format!(
            "export PCM_LEAVE_SECONDS=100
pcmctl up
helper=$(pcmctl grow --slurm 1 --json -- --exclusive --time=2 | tr -dc 0-9)
for i in $(seq 300); do [ $(pcmctl nodes | grep -c ' up$') = 3 ] && break; sleep 0.1; done
pcmctl nodes --json > {told}
pcmctl nodes
SLURM_TIME_FORMAT=%s squeue --noheader --jobs=$SLURM_JOB_ID,$helper --format='job %A ends at %e of'
echo core $SLURM_JOB_ID helper $helper of
pcmctl run -n 2 --nodes v1,v2,v3 --name heat -- heat2d-c --rows 60 --cols 40 --iterations 1500 --sleep-us 15000 &
job=$!
expand heat --to 3 --nodes v3 2>&1 || echo refused
for i in $(seq 600); do pcmctl nodes | grep -q '^v3.* up$' || break; sleep 0.1; done
pcmctl events --json | grep node_ends
is_running() {{ squeue --noheader --jobs=$helper --states=RUNNING,COMPLETING | grep -q .; }}
for i in $(seq 300); do is_running || break; sleep 0.1; done
scontrol --oneliner show job $helper | tr ' ' '\\n' | grep '^ExitCode='
wait $job
pcmctl down",
            told = told.display()
        ),
    );
    let number = |before: &str| {
        let rest = printed.split_once(before).map(|(_, rest)| rest).unwrap_or_default();
        let word = rest.split_whitespace().next().unwrap_or_default();
        word.parse::<u64>()
            .unwrap_or_else(|_| panic!("no number after {before:?}: {printed}"))
    };
    let nodes: serde_json::Value = serde_json::from_slice(&fs::read(told).expect("nodes")).expect("JSON");
    let (core, helper) = (number("core "), number("helper "));
    let ends = |node: usize, of: &str| nodes[node]["ends"][of].as_u64().unwrap_or_default();
    for (node, job, limit_ms) in [(0, core, 600_000), (1, core, 600_000), (2, helper, 120_000)] {
        let end = number(&format!("job {job} ends at "));
        assert_eq!(ends(node, "at_us"), end * 1_000_000, "{nodes:#}");
        let left = ends(node, "left_ms");
        assert!(left <= limit_ms && left + 60_000 > limit_ms, "{nodes:#}");
    }
    assert!(
        printed.contains("LEFT") && printed.contains("end too soon"),
        "{printed}"
    );
    assert!(printed.contains("refused"), "{printed}");
    assert!(printed.contains(r#""name":"v3""#), "{printed}");
    assert!(printed.contains("ExitCode=75:0"), "{printed}");
    assert_right(&printed, (60, 40, 1500));
    assert_nothing_left(&slurm, 3);
}

#[test]
fn a_job_without_a_limit_has_no_end() {
    let slurm = Slurm::start(1, 2);
    let printed = run(
        &slurm,
        &["--nodes=1"],
        "pcmctl up\npcmctl nodes --json\npcmctl nodes\npcmctl down",
    );
    assert!(
        printed.contains("\"ends\":null") && !printed.contains("LEFT"),
        "{printed}"
    );
    assert_nothing_left(&slurm, 1);
}

#[test]
fn a_helper_that_waits_is_cancelled_with_its_cluster() {
    let slurm = Slurm::start(1, 2);
    let printed = run(
        &slurm,
        &["--nodes=1"],
        "pcmctl up
helper=$(pcmctl grow --slurm 1 --json | tr -dc 0-9)
pcmctl down
scontrol --oneliner show job $helper | tr ' ' '\\n' | grep '^JobState='",
    );
    assert!(printed.contains("JobState=CANCELLED"), "{printed}");
    assert_nothing_left(&slurm, 1);
}

#[test]
fn a_job_that_is_cancelled_with_all_its_nodes_goes_on_from_its_files() {
    let slurm = Slurm::start(2, 2);
    let kept = slurm.home().join("kept");
    let kept = kept.display();
    let job = slurm.submit(
        &[
            "--nodes=2",
            "--ntasks-per-node=1",
            "--exclusive",
            "--output=cancelled.out",
        ],
        &script(
            &slurm,
            &format!(
                "pcmctl up
pcmctl run -n 2 --detach --checkpoint-every 0.3 --checkpoint-dir {kept} -- \\
    heat2d-c --rows 60 --cols 40 --iterations 1500 --sleep-us 5000
sleep 600"
            ),
        ),
    );
    let listed = || {
        let listed = slurm.client(
            &built("pcmctl").display().to_string(),
            &["checkpoints", "--json", &kept.to_string()],
        );
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        listed.as_array().map_or(0, Vec::len)
    };
    wait::until("two checkpoints in files", LIMIT, || (listed() >= 2).then_some(()));
    let told = slurm.client("scancel", &[&job]);
    assert!(told.status.success(), "{told:?}");
    slurm.wait_until_idle(2, CANCELLED_WITHIN);
    let printed = run(
        &slurm,
        &["--nodes=2"],
        &format!("pcmctl down --if-up\npcmctl up\npcmctl restart --newest {kept} -n 3\npcmctl down"),
    );
    assert!(printed.contains("continues from iteration "), "{printed}");
    assert_right(&printed, (60, 40, 1500));
    assert_nothing_left(&slurm, 2);
}

/// The template with other lines at its top.
fn template(program: &str, folder: &str) -> String {
    let printed = limited::run(Command::new(built("pcmctl")).args(["slurm", "template"]), LIMIT);
    assert!(printed.status.success(), "{printed:?}");
    let mut script = printed.stdout;
    for (begins, becomes) in [
        ("ranks=", "ranks=3".to_owned()),
        ("program=", format!("program=({program})")),
        ("folder=", format!("folder=\"{folder}\"")),
    ] {
        let line = script.lines().find(|line| line.starts_with(begins)).map(str::to_owned);
        script = script.replace(&line.unwrap_or_else(|| panic!("no {begins} in {script}")), &becomes);
    }
    script
}

#[test]
fn the_template_outlives_its_limit_and_computes_right() {
    let slurm = Slurm::start(2, 2);
    let folder = slurm.home().join("template");
    let output = slurm.home().join("job.out");
    let bin = folder_of_programs();
    let bin = bin.display();
    let program = format!("{bin}/heat2d-c --rows 60 --cols 40 --iterations 1600 --sleep-us 5000");
    let script = template(&program, &folder.display().to_string());
    let script = script.replace(
        "\nexport PCM_CLUSTER=",
        &format!("\nexport PATH=\"{bin}:$PATH\"\nexport PCM_CLUSTER="),
    );
    let job = slurm.submit(&[&format!("--output={}", output.display())], &script);
    let printed = || fs::read_to_string(&output).unwrap_or_default();
    let mut ps = slurm.command(built("pcmctl"));
    ps.args(["ps", "job", "--json", "--cluster"])
        .arg(folder.join("cluster"));
    wait::until("the job to iterate", LIMIT, || {
        let shown: serde_json::Value = serde_json::from_str(&limited::run(&mut ps, LIMIT).stdout).ok()?;
        (shown["ranks"][0]["iteration"].as_u64() > Some(50)).then_some(())
    });
    // What Slurm sends when the time is nearly up.
    let told = slurm.client("scancel", &["--batch", "--signal=USR1", &job]);
    assert!(told.status.success(), "{told:?}");
    wait::until("the job to be queued again", JOB_ENDS_WITHIN, || {
        (slurm.state(&job) == "PENDING").then_some(())
    });
    // Slurm lets a job that was requeued wait for two minutes, because its nodes refuse it in the same second.
    wait::until("an earlier start", LIMIT, || {
        let earlier = slurm.client(
            "scontrol",
            &["update", &format!("JobId={job}"), "StartTime=now+3seconds"],
        );
        earlier.status.success().then_some(())
    });
    assert_eq!(slurm.wait_for_end(&job, JOB_ENDS_WITHIN), "COMPLETED", "{}", printed());
    let printed = printed();
    assert!(printed.contains("job continues from iteration "), "{printed}");
    assert_right(&printed, (60, 40, 1600));
    fs::remove_dir_all(folder).expect("what the script is meant to keep");
    assert_nothing_left(&slurm, 2);
}

#[test]
fn without_the_clients_of_slurm_up_says_what_is_missing() {
    let empty = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(built("pcmctl"));
    command.args(["up", "--slurm", "--cluster"]).arg(empty.path().join("c"));
    command
        .env("SLURM_JOB_ID", "1")
        .env("SLURM_JOB_NODELIST", "v1")
        .env("PATH", empty.path());
    let outcome = limited::run(&mut command, LIMIT);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot start scontrol"), "{outcome:?}");
    assert!(!empty.path().join("c").exists());
}

#[test]
fn up_outside_of_a_job_says_so() {
    let outcome = limited::run(
        Command::new(built("pcmctl"))
            .args(["up", "--slurm"])
            .env_remove("SLURM_JOB_ID"),
        LIMIT,
    );
    assert_eq!(outcome.status.code(), Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("this is no Slurm job"), "{outcome:?}");
}
