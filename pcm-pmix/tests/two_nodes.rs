//! Two helper processes, as on two nodes, whose messages the test carries as daemons would.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{Helper, LIMIT, Ranks, compiled, libpmix, open_mpi};
use pcm_pmix::{Namespace, Order, Place, Report};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Both nodes, each of which knows all namespaces.
struct Nodes([Helper; 2]);

impl Nodes {
    fn new(library: &Path) -> Self {
        let a = Helper::serving(library, "a");
        let mut b = Helper::idle("b");
        let Order::Serve(mut serve) = b.serve(library) else {
            panic!()
        };
        serve.directory = a.node.clone();
        serve.first_context = 1 << 32;
        b.order(&Order::Serve(serve));
        b.expect(|report| matches!(report, Report::Ready { .. }));
        Self([a, b])
    }

    /// Starts a world with these ranks on each node.
    fn start(&mut self, name: &str, ranks: [&[u32]; 2], program: &Path, arguments: &[&str]) -> [Ranks; 2] {
        let place = |(helper, ranks): (&Helper, &[u32])| Place {
            node: helper.node.clone(),
            host: helper.node.as_str().to_owned(),
            ranks: ranks.to_vec(),
        };
        let namespace = Namespace {
            name: name.to_owned(),
            places: self.0.iter().zip(ranks).map(place).collect(),
            universe: 16,
            parent: None,
            programs: Vec::new(),
        };
        let environments = self.0.each_mut().map(|helper| helper.registered(&namespace));
        let mut environments = environments.into_iter();
        self.0.each_mut().map(|helper| {
            let environments = environments.next().unwrap();
            helper.start_all(name, environments, program, arguments, &[])
        })
    }

    /// Carries messages until all ranks are over.
    fn carry_until_over(&mut self, all: &mut [&mut Ranks]) {
        let deadline = Instant::now() + LIMIT;
        while !all.iter_mut().all(|ranks| ranks.are_over()) {
            assert!(Instant::now() < deadline, "ranks do not end: {:?}", all[0].output(0));
            for from in [0, 1] {
                let soon = Instant::now() + Duration::from_millis(1);
                let is_meant = |report: &Report| matches!(report, Report::ToNode { .. });
                let Some(Report::ToNode { node, number, message }) = self.0[from].until(soon, &is_meant) else {
                    continue;
                };
                let from = self.0[from].node.clone();
                let to = self.0.iter_mut().find(|helper| helper.node == node).unwrap();
                to.order(&Order::FromNode {
                    node: from,
                    number,
                    message,
                });
            }
        }
    }
}

#[test]
fn a_world_over_two_nodes_adds() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "sum.c", folder.path());
    let mut nodes = Nodes::new(&libpmix(&open_mpi));
    let [mut a, mut b] = nodes.start("w", [&[0, 2], &[1, 3]], &program, &[]);
    nodes.carry_until_over(&mut [&mut a, &mut b]);
    a.wait_all();
    b.wait_all();
    for (index, rank) in [0, 2].into_iter().enumerate() {
        assert_eq!(a.output(index), format!("rank {rank} of 4 sum 10\n"));
    }
}

#[test]
fn worlds_of_two_nodes_meet() {
    let Some(open_mpi) = open_mpi() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&open_mpi, "meet.c", folder.path());
    let mut nodes = Nodes::new(&libpmix(&open_mpi));
    let port = folder.path().join("port");
    let port = port.to_str().unwrap();
    let [mut a, mut b] = nodes.start("one", [&[0], &[1]], &program, &["accept", port]);
    let [mut c, mut d] = nodes.start("other", [&[], &[0, 1]], &program, &["connect", port]);
    nodes.carry_until_over(&mut [&mut a, &mut b, &mut c, &mut d]);
    [&mut a, &mut b, &mut d].into_iter().for_each(Ranks::wait_all);
    assert!(b.output(0).starts_with("rank 1 of 4 sum 10 met in "), "{}", b.output(0));
    assert!(d.output(1).starts_with("rank 3 of 4 sum 10 met in "), "{}", d.output(1));
}
