//! The plate: the rows of each rank, one step of Jacobi's method, the checksum. No MPI in here.

use std::ops::Range;

/// The rows a rank owns: `count` of them from row `first` of the plate; and the ranks that own the rows next to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) above: Option<i32>,
    pub(crate) below: Option<i32>,
}

impl Block {
    /// The block of these rows. Ranks without rows, the last ones, have no neighbours.
    pub(crate) fn new(own: Range<u64>, rows: usize, rank: i32) -> Self {
        let (first, end) = (own.start as usize, own.end as usize);
        Self {
            first,
            count: end - first,
            above: (end > first && first > 0).then_some(rank - 1),
            below: (end > first && end < rows).then_some(rank + 1),
        }
    }
}

/// Sets the own rows, which have a halo row above and one below them: `count + 2` rows of `cols` cells.
pub(crate) fn set_initial(cells: &mut [f64], block: Block, rows: usize, cols: usize) {
    for (i, row) in cells.chunks_exact_mut(cols).skip(1).take(block.count).enumerate() {
        for (j, cell) in row.iter_mut().enumerate() {
            *cell = initial_cell(block.first + i, j, rows, cols);
        }
    }
}

/// Before the first iteration: hot along the top, cooling off along the sides, cold elsewhere.
fn initial_cell(row: usize, col: usize, rows: usize, cols: usize) -> f64 {
    if row == 0 {
        100.0
    } else if col == 0 || col == cols - 1 {
        100.0 * (rows - 1 - row) as f64 / (rows - 1) as f64
    } else {
        0.0
    }
}

/// One step of Jacobi's method in place. A row is overwritten while it and the row below it still need its old
/// values, so `old`, which has room for two rows, holds those.
pub(crate) fn relax(cells: &mut [f64], block: Block, rows: usize, cols: usize, old: &mut [f64]) {
    let (mut above, mut here) = old.split_at_mut(cols);
    above.copy_from_slice(&cells[..cols]);
    for i in 1..=block.count {
        let (upper, below) = cells.split_at_mut((i + 1) * cols);
        let row = &mut upper[i * cols..];
        let global = block.first + i - 1;
        here.copy_from_slice(row);
        if global > 0 && global < rows - 1 {
            relax_row(row, above, here, &below[..cols]);
        }
        std::mem::swap(&mut above, &mut here);
    }
}

fn relax_row(row: &mut [f64], above: &[f64], here: &[f64], below: &[f64]) {
    let inner = 1..row.len() - 1;
    let sides = here.iter().zip(&here[2..]);
    let cells = row[inner.clone()]
        .iter_mut()
        .zip(&above[inner.clone()])
        .zip(&below[inner]);
    for (((cell, above), below), (left, right)) in cells.zip(sides) {
        *cell = 0.25 * ((above + below) + (left + right));
    }
}

/// Each cell's bits are hashed with its position in the whole plate, and the hashes are added modulo 2^64. The sum of
/// integers is the same in any order: no rank needs the whole plate, and the sum does not depend on the partition.
pub(crate) fn checksum(cells: &[f64], block: Block, cols: usize) -> u64 {
    let own = &cells[cols..(block.count + 1) * cols];
    let first = (block.first * cols) as u64;
    own.iter().zip(first..).fold(0, |sum: u64, (cell, place)| {
        sum.wrapping_add(mix(cell.to_bits() ^ mix(place.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    })
}

/// A bijection that spreads every bit over all others (splitmix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(rows: usize, cols: usize) -> (Block, Vec<f64>) {
        let block = Block::new(0..rows as u64, rows, 0);
        let mut cells = vec![0.0; (rows + 2) * cols];
        set_initial(&mut cells, block, rows, cols);
        (block, cells)
    }

    #[test]
    fn neighbours_are_those_who_own_the_next_rows() {
        let ends = |own| {
            let block = Block::new(own, 7, 2);
            (block.above, block.below)
        };
        assert_eq!(ends(3..5), (Some(1), Some(3)));
        assert_eq!(ends(0..5), (None, Some(3)));
        assert_eq!(ends(5..7), (Some(1), None));
        assert_eq!(ends(7..7), (None, None), "a rank without rows has no neighbours");
    }

    #[test]
    fn a_step_is_the_mean_of_the_old_neighbours_and_keeps_the_border() {
        let (rows, cols) = (5, 6);
        let (block, mut cells) = whole(rows, cols);
        let mut old = vec![0.0; 2 * cols];
        for _ in 0..3 {
            let before = cells.clone();
            relax(&mut cells, block, rows, cols, &mut old);
            for (i, j) in (1..=rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let at = |i: usize, j: usize| before[i * cols + j];
                let is_border = i == 1 || i == rows || j == 0 || j == cols - 1;
                let mean = || 0.25 * ((at(i - 1, j) + at(i + 1, j)) + (at(i, j - 1) + at(i, j + 1)));
                assert_eq!(cells[i * cols + j], if is_border { at(i, j) } else { mean() });
            }
        }
    }

    #[test]
    fn the_checksum_sees_the_last_bit_and_the_place_of_a_cell() {
        let (block, cells) = whole(3, 4);
        let sum = checksum(&cells, block, 4);
        let mut other = cells.clone();
        other[9] = f64::from_bits(other[9].to_bits() ^ 1);
        assert_ne!(checksum(&other, block, 4), sum);
        let mut swapped = cells.clone();
        swapped.swap(4, 9);
        assert_ne!(checksum(&swapped, block, 4), sum);
        let mut halo = cells;
        halo[0] = 5.0;
        assert_eq!(checksum(&halo, block, 4), sum, "halo rows do not count");
    }
}
