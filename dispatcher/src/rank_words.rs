//! What a rank does now, in a few letters: the same in `ps` and in `top`.

use crate::output::bytes;
use pcm_proto::job::RankStatus;
use pcm_proto::page::ANY;

/// What stands above it.
pub(crate) const CALL_HEAD: &str = "CALL peer #tag size";

/// `Recv 3 #7 8.0 KiB`: the call without its prefix, and as far as it has them its peer, tag and size; `-` of a rank
/// that computes.
pub(crate) fn call(rank: &RankStatus) -> String {
    let name = rank.call.strip_prefix("MPI_").unwrap_or(&rank.call);
    let after =
        |before: &str, value: Option<i32>| value.map_or_else(String::new, |it| format!(" {before}{}", number(it)));
    let size = match rank.bytes {
        Some(size) if size.0 > 0 => format!(" {}", bytes(size.0)),
        _ => String::new(),
    };
    format!("{name}{}{}{size}", after("", rank.peer), after("#", rank.tag))
}

/// A peer or a tag.
pub(crate) fn number(value: i32) -> String {
    match value {
        ANY => "any".to_owned(),
        value => value.to_string(),
    }
}

/// For how long it has been in its call; empty of a rank that computes.
pub(crate) fn since(rank: &RankStatus) -> String {
    if is_computing(rank) {
        return String::new();
    }
    match rank.call_since_ms {
        ms if ms <= 0.0 => "-".to_owned(),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 100_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => pcm_view::time::span((ms * 1000.0) as u64),
    }
}

fn is_computing(rank: &RankStatus) -> bool {
    rank.call == "-"
}

/// Milliseconds under a head that names the unit; `-` where there are none.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms <= 0.0 => "-".to_owned(),
        ms if ms < 9.995 => format!("{ms:.2}"),
        ms if ms < 99.95 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// Bytes, or `-` where there are none to speak of.
pub(crate) fn memory(rank: &RankStatus) -> String {
    if rank.memory.0 == 0 {
        "-".to_owned()
    } else {
        bytes(rank.memory.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pcm_proto::ids::{Bytes, Iteration, NodeName, ProcessId, Rank};

    /// A rank in a call.
    pub(crate) fn rank() -> RankStatus {
        RankStatus {
            rank: Rank(1),
            process: ProcessId(1),
            node: NodeName::new("n0").unwrap(),
            pid: 23_456,
            iteration: Iteration(123_456),
            iterations_here: 10,
            useful_ms: 12.5,
            wait_ms: 1.5,
            memory: Bytes(300 << 20),
            iterations_declared: None,
            restored: Bytes(0),
            call: "MPI_Sendrecv".into(),
            call_since_ms: 5321.0,
            peer: Some(12),
            tag: Some(1),
            bytes: Some(Bytes(8192)),
            sent: Bytes(123_456_789),
            received: Bytes(1),
            registered: Bytes(0),
            constant: Bytes(0),
        }
    }

    #[test]
    fn a_call_is_told_with_what_it_has_and_nothing_else() {
        assert_eq!(call(&rank()), "Sendrecv 12 #1 8.0 KiB");
        let (peer, tag) = (Some(ANY), Some(ANY));
        let any = RankStatus {
            peer,
            tag,
            bytes: None,
            ..rank()
        };
        assert_eq!(call(&any), "Sendrecv any #any");
        let bytes = Some(Bytes(0));
        let barrier = RankStatus {
            call: "MPI_Barrier".into(),
            peer: None,
            tag: None,
            bytes,
            ..rank()
        };
        assert_eq!(call(&barrier), "Barrier");
    }

    #[test]
    fn a_rank_that_computes_is_in_no_call_since_no_time() {
        let computing = RankStatus {
            call: "-".into(),
            peer: None,
            tag: None,
            bytes: None,
            ..rank()
        };
        assert_eq!((call(&computing), since(&computing)), ("-".to_owned(), String::new()));
        assert_eq!(since(&rank()), "5.3 s");
        assert_eq!(
            since(&RankStatus {
                call_since_ms: 7_440_000.0,
                ..rank()
            }),
            "2h04m"
        );
    }
}
