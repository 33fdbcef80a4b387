//! Ranks of a stock Open MPI 5 under the helper process: they start, add, meet, and hear of a rank that was killed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{Helper, LIMIT, Ranks, compiled, libpmix, open_mpi};
use pcm_pmix::{Order, Process, Report};
use std::{
    path::Path,
    time::{Duration, Instant},
};

#[test]
fn two_and_four_ranks_start_add_and_end() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "sum.c", folder.path());
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    for (name, size) in [("two", 2), ("four", 4)] {
        let begun = Instant::now();
        let mut ranks = helper.start(name, size, &program, &[]);
        ranks.wait_all();
        eprintln!("{size} ranks in {:?}", begun.elapsed());
        for rank in 0..size {
            let sum = size * (size + 1) / 2;
            assert_eq!(
                ranks.output(rank as usize),
                format!("rank {rank} of {size} sum {sum}\n")
            );
            for is_end in [false, true] {
                helper.expect(|report| match report {
                    Report::Connected { process } => !is_end && process.namespace == name && process.rank == rank,
                    Report::Finalized { process } => is_end && process.namespace == name && process.rank == rank,
                    _ => false,
                });
            }
        }
    }
    assert_eq!(helper.close(), Some(0));
}

/// Milliseconds that a rank says the meeting took.
fn met_in(output: &str) -> f64 {
    let (_, said) = output.split_once("met in ").unwrap();
    said.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn two_worlds_meet_and_add_as_one_and_again_with_others() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "meet.c", folder.path());
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    for round in 0..2 {
        let port = folder.path().join(format!("port{round}"));
        let port = port.to_str().unwrap();
        let mut one = helper.start(&format!("one{round}"), 2, &program, &["accept", port]);
        let mut other = helper.start(&format!("other{round}"), 3, &program, &["connect", port]);
        one.wait_all();
        other.wait_all();
        let outputs = [(&one, 0), (&one, 1), (&other, 0), (&other, 1), (&other, 2)];
        for (rank, (world, of_world)) in outputs.into_iter().enumerate() {
            let output = world.output(of_world);
            let expected = format!("rank {rank} of 5 sum 15 met in ");
            assert!(output.starts_with(&expected), "{output}");
            eprintln!("rank {rank} met in {} ms", met_in(&output));
        }
    }
    assert_eq!(helper.close(), Some(0));
}

/// Kills one of three that add without end; how long the others take to end.
fn killed(open_mpi: &Path, settings: &[(&str, &str)]) -> (Duration, Ranks, Helper) {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(open_mpi, "go_on.c", folder.path());
    let mut helper = Helper::serving(&libpmix(open_mpi), "a");
    let mut ranks = helper.start_with("w", 3, &program, &[], settings);
    ranks.until_said(0, "going on");
    let begun = Instant::now();
    ranks.kill(1);
    helper.ended("w", 1);
    for rank in [0, 2] {
        let status = ranks.wait(rank, LIMIT);
        assert!(!status.success(), "rank {rank}: {}", ranks.output(rank));
    }
    (begun.elapsed(), ranks, helper)
}

#[test]
fn ranks_whose_mate_is_killed_end_with_an_error() {
    let Some(open_mpi) = open_mpi() else { return };
    let (took, ranks, mut helper) = killed(&open_mpi, &[]);
    eprintln!("without fault tolerance they end after {took:?}: {}", ranks.output(0));
    assert_eq!(helper.close(), Some(0));
}

#[test]
fn ranks_with_fault_tolerance_hear_that_their_mate_was_killed() {
    let Some(open_mpi) = open_mpi() else { return };
    let (took, ranks, mut helper) = killed(&open_mpi, &[("OMPI_MCA_mpi_ft_enable", "1")]);
    for rank in [0, 2] {
        let output = ranks.output(rank);
        assert!(output.contains("process failed"), "{output}");
    }
    helper.expect(|report| matches!(report, Report::Aborted { process, status: 3, .. } if process.namespace == "w"));
    eprintln!("with fault tolerance they end after {took:?}");
    assert_eq!(helper.close(), Some(0));
}

#[test]
fn a_library_that_is_no_libpmix_is_named_in_one_error() {
    let mut helper = Helper::idle("a");
    let serve = helper.serve(Path::new("/nowhere/libpmix.so.2"));
    helper.order(&serve);
    let failed = helper.expect(|report| matches!(report, Report::Failed { .. }));
    let Report::Failed { reason } = failed else { panic!() };
    assert!(
        reason.starts_with("/nowhere/libpmix.so.2 cannot be loaded as the job's libpmix: "),
        "{reason}"
    );
    assert_eq!(helper.wait(), Some(1));
}

#[test]
fn a_parent_that_comes_back_hears_what_it_may_have_missed() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "go_on.c", folder.path());
    let library = libpmix(&open_mpi);
    let mut helper = Helper::serving(&library, "a");
    let environments = helper.register("w", 2);
    let mut ranks = helper.start_all("w", environments.clone(), &program, &[], &[]);
    ranks.until_said(0, "going on");
    helper.come_back(&library);
    helper.expect(|report| matches!(report, Report::Ready { .. }));
    for rank in [0, 1] {
        helper.expect(|report| matches!(report, Report::Connected { process } if process.rank == rank));
    }
    assert_eq!(helper.register("w", 2), environments);
    assert!(!ranks.are_over());
    ranks.kill(0);
    helper.ended("w", 0);
    helper.expect(|report| matches!(report, Report::Over { process } if process.rank == 0));
    assert!(!ranks.wait(1, LIMIT).success());
}

#[test]
fn a_helper_whose_parent_stays_away_ends_with_its_folder() {
    let Some(open_mpi) = open_mpi() else { return };
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    helper.leave();
    assert_eq!(helper.wait(), Some(1));
    assert!(!helper.folder().exists());
}

#[test]
fn ranks_end_when_the_helper_is_killed() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "go_on.c", folder.path());
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    let mut ranks = helper.start("w", 2, &program, &[]);
    ranks.until_said(0, "going on");
    helper.kill();
    for rank in [0, 1] {
        let status = ranks.wait(rank, LIMIT);
        assert!(!status.success(), "rank {rank}: {}", ranks.output(rank));
    }
}

#[test]
fn a_rank_spawns_children_that_the_parent_of_the_helper_starts() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "spawn.c", folder.path());
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    let mut ranks = helper.start("w", 1, &program, &[]);
    let asked = helper.expect(|report| matches!(report, Report::SpawnAsked { .. }));
    let Report::SpawnAsked {
        number,
        process,
        commands,
    } = asked
    else {
        panic!()
    };
    assert_eq!((&process, commands.len()), (&Process::new("w", 0), 1));
    let command = &commands[0];
    assert_eq!(command.processes, 2);
    assert!(command.program.ends_with(b"spawn"), "{command:?}");
    let arguments: Vec<&str> = command.arguments[1..]
        .iter()
        .map(|text| std::str::from_utf8(text).unwrap())
        .collect();
    assert_eq!(arguments, ["child", "of mine"]);
    let environments = helper.register_spawned("children", 2, Some(process));
    let variables = command
        .environment
        .iter()
        .map(|text| std::str::from_utf8(text).unwrap());
    let variables: Vec<(&str, &str)> = variables.filter_map(|text| text.split_once('=')).collect();
    let mut children = helper.start_all("children", environments, &program, &arguments, &variables);
    let outcome = Ok("children".to_owned());
    helper.order(&Order::SpawnAnswer { number, outcome });
    ranks.wait_all();
    children.wait_all();
    assert_eq!(ranks.output(0), "parent rank 0 of 3 sum 6\n");
    for rank in [0, 1] {
        assert_eq!(children.output(rank), format!("of mine rank {} of 3 sum 6\n", rank + 1));
    }
}

#[test]
fn what_is_forgotten_leaves_no_file_and_its_name_can_be_used_again() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "sum.c", folder.path());
    let mut helper = Helper::serving(&libpmix(&open_mpi), "a");
    for _ in 0..2 {
        let mut ranks = helper.start("w", 2, &program, &[]);
        ranks.wait_all();
        assert!(helper.folder().join("w").is_dir());
        let namespace = "w".to_owned();
        helper.order(&Order::Forget { namespace });
    }
    // Orders are carried out in order.
    helper.register("last", 1);
    assert!(!helper.folder().join("w").exists());
    assert_eq!(helper.close(), Some(0));
    let left = std::fs::read_dir(helper.folder()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    let of_libpmix: Vec<_> = left
        .iter()
        .filter(|name| name.to_string_lossy().starts_with("pmix"))
        .collect();
    assert!(of_libpmix.is_empty(), "{left:?}");
}
