//! The exact answer for any number of ranks where data lies in one line: then old and new intervals overlap in a
//! staircase, no two kept overlaps can cross, and the best set is found in one pass. Only for uniform prices.

use super::overlap::Overlap;

/// The old rank whose process should take each new rank to keep most bytes; none where the overlap is no staircase.
/// `survives` tells which old ranks' processes stay.
pub(super) fn keep_most(overlap: &Overlap, survives: &[bool]) -> Option<Vec<Option<u32>>> {
    let steps: Vec<(u32, u32, u64)> = overlap
        .entries()
        .filter(|(from, ..)| survives[*from as usize])
        .collect();
    if steps.windows(2).any(|pair| pair[1].0 < pair[0].0) {
        return None;
    }
    // best[k]: most bytes kept with the first k steps; a step excludes those that share one of its ranks, which
    // directly precede it.
    let mut best = Vec::with_capacity(steps.len() + 1);
    best.push(0u128);
    let mut compatible = Vec::with_capacity(steps.len());
    let (mut same_from, mut same_to) = (0, 0);
    for (k, (from, to, bytes)) in steps.iter().enumerate() {
        if k > 0 && steps[k - 1].0 != *from {
            same_from = k;
        }
        if k > 0 && steps[k - 1].1 != *to {
            same_to = k;
        }
        compatible.push(same_from.min(same_to));
        best.push(best[k].max(best[same_from.min(same_to)] + u128::from(*bytes)));
    }
    let mut kept = vec![None; overlap.ranks().1 as usize];
    let mut k = steps.len();
    while k > 0 {
        if best[k] == best[k - 1] {
            k -= 1;
        } else {
            let (from, to, _) = steps[k - 1];
            kept[to as usize] = Some(from);
            k = compatible[k - 1];
        }
    }
    Some(kept)
}
