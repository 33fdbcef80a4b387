//! The verbs providers on a RoCE device in software: two processes in one guest, and one in each of two; and daemons
//! that say their small messages over such a device. The guests are emulated, so their times say nothing.

use tests::{
    guests::{Guests, assert_ended, documents, marked, packets},
    limited::Outcome,
};

/// What the trial says when every message and block came through.
const ALL_IS_WELL: &str = "rdma: all is well";

fn assert_well(outcome: &Outcome) {
    assert!(
        outcome.stdout.contains(ALL_IS_WELL) && outcome.stdout.contains("ended with 0"),
        "{}\n{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn two_processes_in_one_guest_exchange_messages_and_memory() {
    let Some(guests) = Guests::brought() else { return };
    assert_well(&guests.try_in_one(r#""$trial" serve & "$trial" try 10.9.0.1 && wait $!"#));
}

#[test]
fn two_guests_exchange_messages_and_memory() {
    let Some(guests) = Guests::brought() else { return };
    let (serving, asking) = guests.try_in_two(r#"exec "$trial" serve"#, r#"exec "$trial" try 10.9.0.1"#);
    assert_well(&asking);
    assert_ended(&serving);
}

/// Boots two nodes in the guest, has them run jobs, cuts the device off from its network and has them run another.
const IN_ONE_GUEST: &str = r#"
job() { pcmctl run -n 2 --nodes n0,n1 -- sh -c "echo $1: \$PCM_NODE"; }
packets
pcmctl up --local 2 --fabric rdma || exit 1
until_told rdma
job rank || exit 1
packets
echo "nodes: $(nodes)"
pcmctl run -n 2 --nodes n0,n1 -- /mnt/pcm-trial ring 1 && echo "ring: whole"
ip link set dummy0 down
until_told udp
echo "without: $(nodes)"
job later || exit 1
pcmctl down
"#;

/// Boots a node here and one in the other guest, and has them run jobs.
const IN_TWO_GUESTS: &str = r#"
packets
pcmctl up --hosts /tmp/hosts || exit 1
until_told rdma
until_quiet
pcmctl run -n 6 -- sh -c 'echo rank: $PCM_NODE' || exit 1
packets
echo "nodes: $(nodes)"
until_quiet
pcmctl run -n 6 --wait sleep -- sh -c 'echo ring on: $PCM_NODE; exec /mnt/pcm-trial ring 1' && echo "ring: whole"
pcmctl down
"#;

/// Both nodes said after this mark that these carry their small messages.
fn assert_carried(outcome: &Outcome, mark: &str, datagrams: &str) {
    let [nodes] = &documents(outcome, mark)[..] else {
        panic!("told once: {}", outcome.stdout);
    };
    let used = nodes.as_array().into_iter().flatten();
    let used = used.map(|node| &node["fabric"]["datagrams"]);
    assert_eq!(used.collect::<Vec<_>>(), [datagrams; 2], "{nodes}");
}

/// A job ran on both nodes.
fn assert_both_ran(outcome: &Outcome, mark: &str) {
    let mut ranks: Vec<&str> = marked(outcome, mark).collect();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks, ["n0", "n1"], "{}", outcome.stdout);
}

/// By the account of the guest's kernel.
fn assert_device_sent(outcome: &Outcome) {
    let [before, after] = packets(outcome)[..] else {
        panic!("counted twice: {}", outcome.stdout);
    };
    assert!(
        after > before,
        "the device sent nothing: {before} packets, then {after}"
    );
}

#[test]
fn daemons_speak_over_a_device_and_go_on_over_udp_where_it_fails() {
    let Some(guests) = Guests::brought() else { return };
    let outcome = guests.nodes_in_one(IN_ONE_GUEST);
    assert_ended(&outcome);
    assert_carried(&outcome, "nodes: ", "rdma");
    assert_carried(&outcome, "without: ", "udp");
    assert_both_ran(&outcome, "rank: ");
    assert_both_ran(&outcome, "later: ");
    assert!(outcome.stdout.contains("ring: whole"), "{}", outcome.stdout);
    assert_device_sent(&outcome);
}

#[test]
fn daemons_of_two_guests_take_the_device_by_themselves() {
    let Some(guests) = Guests::brought() else { return };
    let (outcome, other) = guests.nodes_in_two(IN_TWO_GUESTS);
    assert_ended(&outcome);
    assert_carried(&outcome, "nodes: ", "rdma");
    assert_both_ran(&outcome, "rank: ");
    assert_both_ran(&outcome, "ring on: ");
    assert!(outcome.stdout.contains("ring: whole"), "{}", outcome.stdout);
    assert_device_sent(&outcome);
    assert_ended(&other);
}
