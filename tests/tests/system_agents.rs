//! Agents on a real cluster: jobs leave what is loaded, take what joins, stay where nothing is wrong, and say why.

use serde_json::Value;
use std::time::Duration;
use tests::{
    adapting::{Adapting, DECIDED},
    background::Background,
    binaries::built,
    own_share::OwnShare,
    wait,
};

/// Short noise and quiet: several times as long as a decision takes.
const QUIET: Duration = Duration::from_secs(12);

#[test]
fn ranks_leave_a_loaded_node_for_an_idle_one_stay_in_quiet_and_explain_says_what_it_brought() {
    let Some(own) = OwnShare::up(3) else { return };
    let job = Adapting::start(&own.cluster, &["-n", "2", "--nodes", "n0,n1,n2", "--policy", "cost"]);
    let places = || job.places().expect("the ranks are somewhere");
    // Bursts that are over before anything could be gained. A virtual machine may lose CPU time itself in one or two of
    // these spans, which is reason enough to move.
    let bursts = 5;
    let quiet = (0..bursts).filter(|_| {
        drop(own.load(&places()[0], 1));
        job.has_stayed(QUIET / bursts)
    });
    assert!(quiet.count() as u32 + 2 >= bursts, "{}", job.explained());
    let first = places();
    let load = own.load(&first[0], 2);
    job.wait_until("nobody on the loaded node", |places| !places.contains(&first[0]));
    let chosen: Vec<Value> = job.events("decision");
    let chosen: Vec<&Value> = chosen.iter().filter(|decision| !decision["chosen"].is_null()).collect();
    let decision = chosen.first().expect("what was done was decided");
    let number = |name: &str| decision[name].as_f64().expect("a number");
    assert_eq!(decision["policy"], "cost");
    assert!(
        number("predicted_gain_s") > number("cost_s") && number("cost_s") > 0.0,
        "{decision}"
    );
    assert!(
        decision["considered"].as_array().is_some_and(|all| !all.is_empty()),
        "{decision}"
    );
    wait::until("explain to say what the change has saved", DECIDED, || {
        job.explained().contains("The previous change has saved").then_some(())
    });
    let explained = job.explained();
    for words in [&format!("from {} to", first[0]), "gain", "cost", "iterations to come"] {
        assert!(explained.contains(words), "no {words:?} in {explained}");
    }
    drop(load);
    job.goes_on();
    job.end();
    own.down();
}

#[test]
fn a_job_whose_policy_is_none_and_a_program_that_cannot_be_changed_are_left_alone() {
    let Some(own) = OwnShare::up(2) else { return };
    let job = Adapting::start(&own.cluster, &["-n", "1", "--policy", "none"]);
    let first = job.places().expect("the rank is somewhere");
    let mut plain = own.cluster.pcmctl(&["run", "-n", "2", "--policy", "cost", "--"]);
    plain.arg(built("heat2d-c-plain"));
    plain.args(["--rows", "500", "--cols", "500", "--iterations", "100"]);
    let plain = Background::start(&mut plain);
    let load = own.load(&first[0], 2);
    job.stays(QUIET);
    drop(load);
    let outcome = plain.end(DECIDED * 2);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(job.events("reconfigured").is_empty());
    job.end();
    own.down();
}

#[test]
fn a_node_that_joins_takes_the_rank_that_suffers() {
    let Some(own) = OwnShare::up_for_one_more(2) else {
        return;
    };
    let load = (own.load("n0", 3), own.load("n1", 1));
    // Without a policy named, which the cluster of tests does for jobs that are to be left alone.
    let mut command = own.cluster.pcmctl(&["run", "-n", "1", "--"]);
    command.env_remove("PCM_POLICY").arg(built("heat2d-c"));
    command.args(["--rows", "2000", "--cols", "1500", "--iterations", "100000000"]);
    let job = Adapting::start_command(&own.cluster, &mut command);
    let joined = own.join("");
    job.wait_until("the rank on the node that joined", |places| places == [joined.as_str()]);
    drop(load);
    job.end();
    own.down();
}

#[test]
fn a_job_that_may_grow_takes_a_node_that_joins_and_gives_it_back_to_its_owner() {
    let Some(own) = OwnShare::up_for_one_more(1) else {
        return;
    };
    let joined = own.join("");
    let job = Adapting::start(
        &own.cluster,
        &["-n", "1", "--min", "1", "--max", "2", "--policy", "cost"],
    );
    job.wait_until("two ranks", |places| places.len() == 2 && places.contains(&joined));
    let load = own.load(&joined, 3);
    job.wait_until("the owner's node to be left", |places| !places.contains(&joined));
    drop(load);
    job.goes_on();
    job.end();
    own.down();
}

#[test]
fn a_draining_node_pushes_its_ranks_away() {
    let Some(own) = OwnShare::up(2) else { return };
    let job = Adapting::start(&own.cluster, &["-n", "1", "--policy", "cost"]);
    let first = job.places().expect("the rank is somewhere");
    let outcome = own.cluster.run(&["drain", &first[0]]);
    assert!(outcome.status.success(), "{outcome:?}");
    job.wait_until("the rank elsewhere", |places| places != first);
    job.end();
    own.down();
}
