//! Whether the processes of a world have the same MPI. Two kinds of it, or two versions, do not understand each other's
//! addresses and messages: each waits for the other in `MPI_Init`.

use super::gather::Puts;
use pcm_proto::app::environment::MPI_NAME_KEY;
use std::collections::BTreeMap;

/// Ranks that are named in one list.
const NAMED_MAX: usize = 8;

/// What the MPIs of a world's processes differ in, as far as these have said which they have.
pub(super) fn difference(puts: &Puts) -> Option<String> {
    let mut ranks: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (key, mpi) in puts.range(MPI_NAME_KEY.to_owned()..) {
        let Some(rank) = key.strip_prefix(MPI_NAME_KEY) else {
            break;
        };
        if let Ok(rank) = rank.parse() {
            ranks.entry(mpi).or_default().push(rank);
        }
    }
    if ranks.len() < 2 {
        return None;
    }
    let mut lists: Vec<(Vec<u32>, &str)> = ranks.into_iter().map(|(mpi, ranks)| (ranks, mpi)).collect();
    for (ranks, _) in &mut lists {
        ranks.sort_unstable();
    }
    lists.sort_unstable();
    let said: Vec<String> = lists
        .iter()
        .map(|(ranks, mpi)| format!("{} {mpi}", having(ranks)))
        .collect();
    Some(format!(
        "its ranks have different MPIs: {}; give all the same with 'run --mpi-lib' or PCM_MPI",
        said.join(", ")
    ))
}

fn having(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
    match (ranks.len(), ranks.len().saturating_sub(NAMED_MAX)) {
        (1, _) => format!("rank {} has", named.join("")),
        (_, 0) => format!("ranks {} have", named.join(", ")),
        (_, more) => format!("ranks {} and {more} more have", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puts(said: &[(u32, &str)]) -> Puts {
        let mut puts = Puts::from([("P0-businesscard".to_owned(), "other".to_owned())]);
        puts.extend(
            said.iter()
                .map(|(rank, mpi)| (format!("{MPI_NAME_KEY}{rank}"), (*mpi).to_owned())),
        );
        puts
    }

    #[test]
    fn ranks_with_one_mpi_and_ranks_that_say_nothing_do_not_differ() {
        assert_eq!(difference(&puts(&[])), None);
        assert_eq!(difference(&puts(&[(0, "MPICH 5.0.2"), (1, "MPICH 5.0.2")])), None);
        assert_eq!(difference(&puts(&[(1, "MPICH 5.0.2")])), None);
    }

    #[test]
    fn ranks_with_different_ones_are_named_in_their_order() {
        let mut said = vec![(10, "Intel"), (2, "MPICH")];
        let text = difference(&puts(&said)).unwrap();
        assert!(text.contains("rank 2 has MPICH, rank 10 has Intel"), "{text}");
        said.extend((11..30).map(|rank| (rank, "Intel")));
        let text = difference(&puts(&said)).unwrap();
        assert!(
            text.contains("ranks 10, 11, 12, 13, 14, 15, 16, 17 and 12 more have Intel"),
            "{text}"
        );
    }
}
