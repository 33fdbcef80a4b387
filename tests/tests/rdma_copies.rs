//! Copies of checkpoints between daemons that have a RoCE device in software: over it, over TCP where it fails
//! meanwhile, and jobs that come back from them. The guests are emulated, so their times say nothing.

use serde_json::Value;
use tests::{
    guests::{Guests, assert_ended, documents, marked, packets},
    heat2d::{Closing, Plate},
    limited::Outcome,
};

/// Parts of 320 KB.
const SMALL: Plate = Plate {
    rows: 400,
    cols: 400,
    iterations: 250,
    sleep_us: 100_000,
};

/// Parts of 4 MB: 4,096 packets each. Copying all of them takes one or two seconds, where ranks leave the CPUs to it.
const LARGE: Plate = Plate {
    rows: 2000,
    cols: 1000,
    iterations: 150,
    sleep_us: 400_000,
};

/// Seconds from one checkpoint to the next; seldom enough that there is a lull after the copies.
const OFTEN: u32 = 2;
const SELDOM: u32 = 4;

/// Starts a job on both nodes; `$job` is its process, and /tmp/said what it says. Its ranks leave the guest's CPUs to
/// the daemons while they wait: copying is niced.
fn start(plate: &Plate, every: u32) -> String {
    let arguments = plate.arguments().join(" ");
    format!(
        "pcmctl run -n 4 --name plate --wait sleep --checkpoint-every {every} -- /mnt/heat2d-c {arguments} > /tmp/said \
         2>&1 &\njob=$!\n"
    )
}

/// Its result is that of an undisturbed run.
fn assert_right(plate: &Plate, outcome: &Outcome) {
    let said: Vec<&str> = marked(outcome, "said: ").collect();
    let last = said.iter().rev().find(|line| line.starts_with("heat2d: iterations "));
    let last = last.unwrap_or_else(|| panic!("no closing line: {}", outcome.stdout));
    assert_eq!(Closing::read(last).checksum, plate.checksum(), "{}", outcome.stdout);
}

/// Boots two nodes in one guest, which do not use the memory they have in common.
const UP_IN_ONE: &str = r#"
PCM_COPIES=rdma pcmctl up --local 2 --fabric rdma || exit 1
until_told rdma
"#;

/// Boots a node in each of two guests, whose copies are encrypted.
const UP_IN_TWO: &str = r#"
pcmctl up --hosts /tmp/hosts --encrypt-rdma || exit 1
until_told rdma
until_quiet
"#;

/// Waits for checkpoints whose parts were copied, kills n1, and waits for the job's end on n0. On a busy machine
/// datagrams are late at times, and copies take TCP for a while.
const KILL_AND_END: &str = r#"
told 1 '"copy_way_changed"' '"node":"n0"'
told 3 '"checkpoint_complete"' .
packets
until_copies $WAY
until_n0_copied $WAY
events copy_way_changed
$KILL
wait $job
echo "ended: $?"
sed 's/^/said: /' /tmp/said
events recovered
pcmctl down
"#;

fn kill_and_end(way: &str, kill: &str) -> String {
    KILL_AND_END.replace("$WAY", way).replace("$KILL", kill)
}

/// Cuts the device off while a part is on its way over it, as soon as it is after a lull: what a look costs here is a
/// good part of what a copy takes.
const CUT_MEANWHILE: &str = r#"
told 1 '"copy_way_changed"' .
told 2 '"checkpoint_complete"' .
until_copies rdma
packets
# carried COMPARISON PACKETS: waits until so many packets were sent between two looks.
carried() {
    read before < $counter
    for _ in $(seq 600); do
        sleep 0.05
        read now < $counter
        [ $((now - before)) $1 $2 ] && return
        before=$now
    done
    give_up "never $1 $2 packets at a time"
}
carried -lt 50
carried -ge 200
ip link set dummy0 down
packets
told 1 '"copy_way_changed"' 'rdma did not work'
made=$(pcmctl events --json | grep -c '"checkpoint_complete"')
told $((made + 1)) '"checkpoint_complete"' .
"#;

/// The job came back from a checkpoint and ended well.
fn assert_came_back(outcome: &Outcome) {
    assert_ended(outcome);
    let ended: Vec<&str> = marked(outcome, "ended: ").collect();
    assert_eq!(ended, ["0"], "{}", outcome.stdout);
    let [recovered] = &documents(outcome, "recovered: ")[..] else {
        panic!("once: {}", outcome.stdout);
    };
    assert!(recovered["from"].as_u64() > Some(0), "{recovered}");
}

/// More than the parts of one checkpoint went over the device, a kilobyte to a packet.
fn assert_parts_went_over_the_device(outcome: &Outcome, plate: &Plate) {
    let least = (plate.rows * plate.cols * 8 / 1024) as u64;
    let sent = packets(outcome);
    assert!(
        sent.last() > Some(&least),
        "{sent:?} packets, {least} for one checkpoint"
    );
}

/// The first copy that n0, which lives on, made of a part of n1 came over the device, for this reason.
fn assert_began_on_the_device(outcome: &Outcome, reason: &str) {
    let began = documents(outcome, "copy_way_changed: ");
    let first = began.iter().find(|turn| turn["node"] == "n0");
    let first = first.unwrap_or_else(|| panic!("n0 copied nothing: {began:?}"));
    let told = (&first["way"], &first["reason"]);
    assert_eq!(told, (&"rdma".into(), &reason.into()), "{began:?}");
}

#[test]
fn a_job_comes_back_from_a_checkpoint_that_was_copied_over_a_device() {
    let Some(guests) = Guests::brought() else { return };
    let end = kill_and_end("rdma", "kill_node n1");
    let outcome = guests.nodes_in_one(&[UP_IN_ONE, &start(&SMALL, OFTEN), &end].concat());
    assert_came_back(&outcome);
    assert_right(&SMALL, &outcome);
    assert_parts_went_over_the_device(&outcome, &SMALL);
    assert_began_on_the_device(&outcome, "PCM_COPIES says so");
}

#[test]
fn nodes_of_two_guests_copy_over_the_device_by_themselves() {
    let Some(guests) = Guests::brought() else { return };
    let end = kill_and_end("rdma", "/mnt/ssh 'kill -9 $(pidof pcm-daemon)' < /dev/null");
    let (outcome, other) = guests.nodes_in_two(&[UP_IN_TWO, &start(&SMALL, OFTEN), &end].concat());
    assert_came_back(&outcome);
    assert_right(&SMALL, &outcome);
    assert_began_on_the_device(&outcome, "it is on another host");
    assert_ended(&other);
}

#[test]
fn a_copy_goes_on_over_tcp_when_the_device_fails_meanwhile() {
    let Some(guests) = Guests::brought() else { return };
    let end = kill_and_end("bulk", "kill_node n1");
    let outcome = guests.nodes_in_one(&[UP_IN_ONE, &start(&LARGE, SELDOM), CUT_MEANWHILE, &end].concat());
    assert_came_back(&outcome);
    assert_right(&LARGE, &outcome);
    assert_began_on_the_device(&outcome, "PCM_COPIES says so");
    let turns = documents(&outcome, "copy_way_changed: ");
    let (way, reason) = ("bulk", "rdma did not work: nothing came for 5 s");
    let is_cut = |turn: &Value| turn["way"] == way && turn["reason"] == reason;
    assert!(turns.iter().any(is_cut), "{turns:?}");
}
