//! What carries the messages of the daemons under examination, why nothing better does, and on demand what it costs.

use super::finding::Finding;
use super::patient::Patient;
use crate::cluster::ClusterDir;
use crate::tuning;
use pcm_fabric::hybrid::Tuning;
use pcm_proto::control::NodeStatus;
use pcm_proto::fabric::FabricReport;

/// Says what each node uses; those that use the same share a line.
pub(crate) async fn check(patient: &Patient) -> Vec<Finding> {
    let said = patient.pcmctl(["nodes", "--json"]).await;
    let nodes: Vec<NodeStatus> = match serde_json::from_str(&said.stdout) {
        Ok(nodes) => nodes,
        Err(_) => {
            let found = format!("the nodes could not be listed: {}", said.stderr);
            return vec![Finding::broken("fabric", found, "see 'pcmctl logs'")];
        }
    };
    let mut kinds: Vec<(&FabricReport, Vec<&str>)> = Vec::new();
    for node in &nodes {
        match kinds.iter_mut().find(|(kind, _)| **kind == node.fabric) {
            Some((_, names)) => names.push(node.name.as_str()),
            None => kinds.push((&node.fabric, vec![node.name.as_str()])),
        }
    }
    kinds.into_iter().map(|(kind, names)| finding(kind, &names)).collect()
}

fn finding(fabric: &FabricReport, names: &[&str]) -> Finding {
    let names = names.join(" ");
    let why_not = fabric.why_not.join("; ");
    let found = match fabric.datagrams.as_str() {
        "none" => format!("{names}: {} for everything", fabric.connections),
        datagrams => format!(
            "{names}: {datagrams} for small messages, {} for the rest",
            fabric.connections
        ),
    };
    let copies = match fabric.copies.as_str() {
        "" => String::new(),
        ways => format!(", copies of checkpoints by way of {ways}"),
    };
    let found = format!("{found}{copies}. Not {why_not}");
    // Nothing is amiss where the owner asked for connections only.
    if fabric.why_not.iter().any(|why| why.starts_with("udp to ")) {
        let next = "open the port for UDP between these nodes too, or boot with --fabric tcp";
        return Finding::warning("fabric", found, next);
    }
    if fabric
        .why_not
        .iter()
        .any(|why| why.starts_with("rdma to ") && why.contains("confirms no"))
    {
        let next = "see that the devices of these nodes share a network ('ibv_devinfo'), or boot with --fabric udp";
        return Finding::warning("fabric", found, next);
    }
    Finding::ok("fabric", found)
}

/// Measures what exchanges cost between here and the daemons, and puts it where they read it.
pub(crate) async fn tune(patient: &Patient, cluster: &ClusterDir) -> Vec<Finding> {
    let tuned = match patient.cluster() {
        Ok(examined) => tuning::measured(&examined).await,
        Err(failure) => Err(failure.message),
    };
    let tuning = match tuned {
        Ok(tuning) => tuning,
        Err(why) => {
            return vec![Finding::warning(
                "fabric tuning",
                format!("not measured: {why}"),
                "daemons keep the previous values; open the ports for UDP and TCP and try again",
            )];
        }
    };
    match tuning::keep(cluster, &tuning) {
        Ok(path) => vec![Finding::ok(
            "fabric tuning",
            format!("{}; kept in {}", words(&tuning), path.display()),
        )],
        Err(failure) => vec![Finding::warning(
            "fabric tuning",
            format!("{}, but not kept: {}", words(&tuning), failure.message),
            "make room for the file, then try again",
        )],
    }
}

fn words(tuning: &Tuning) -> String {
    let of = |members: usize| {
        let choice = tuning.choose(members, 1000);
        format!(
            "1 kB to {members}: {choice}; connections from {} B",
            tuning.threshold(members)
        )
    };
    format!("{}; {}", of(1), of(4))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn datagrams_that_do_not_arrive_are_worth_a_look_and_those_nobody_asked_for_are_not() {
        let mut fabric = FabricReport {
            datagrams: "udp".into(),
            connections: "tcp".into(),
            copies: "rdma".into(),
            why_not: vec!["rdma: no device".into()],
        };
        let sound = finding(&fabric, &["n0", "n1"]);
        assert!(
            sound.verdict == Verdict::Ok && sound.found.contains("no device") && sound.found.contains("by way of rdma"),
            "{sound:?}"
        );
        fabric.why_not.push("udp to n1: silent".into());
        assert_eq!(finding(&fabric, &["n0"]).verdict, Verdict::Warning);
        fabric.datagrams = "none".into();
        let nothing = finding(&fabric, &["n0"]);
        assert!(
            nothing.verdict == Verdict::Warning && nothing.found.contains("for everything"),
            "{nothing:?}"
        );
        fabric.why_not = vec!["rdma to n1: it confirms no datagrams".into()];
        assert_eq!(finding(&fabric, &["n0"]).verdict, Verdict::Warning);
        fabric.why_not = vec!["udp: the cluster was booted with --fabric tcp".into()];
        assert_eq!(finding(&fabric, &["n0"]).verdict, Verdict::Ok);
    }

    #[test]
    fn a_tuning_is_told_with_its_numbers() {
        let text = words(&Tuning::default());
        assert!(
            text.contains("us over datagrams") && text.contains("1 kB to 4"),
            "{text}"
        );
    }
}
