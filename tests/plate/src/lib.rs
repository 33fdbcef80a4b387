//! What heat2d must compute. A crate of its own, for it is optimised where the tests are not. Must never use what it
//! checks.

use pcm_proto::random::mix;

/// The checksum by an independent, sequential computation on two full grids.
pub fn reference_checksum(rows: usize, cols: usize, iterations: u64) -> String {
    let side = |row: usize| 100.0 * (rows - 1 - row) as f64 / (rows - 1) as f64;
    let first = |row: usize, col: usize| match (row, col) {
        (0, _) => 100.0,
        (row, col) if col == 0 || col == cols - 1 => side(row),
        _ => 0.0,
    };
    let mut grid: Vec<Vec<f64>> = (0..rows)
        .map(|row| (0..cols).map(|col| first(row, col)).collect())
        .collect();
    for _ in 0..iterations {
        let old = grid.clone();
        for row in 1..rows - 1 {
            for col in 1..cols - 1 {
                let (vertical, horizontal) = (
                    old[row - 1][col] + old[row + 1][col],
                    old[row][col - 1] + old[row][col + 1],
                );
                grid[row][col] = 0.25 * (vertical + horizontal);
            }
        }
    }
    let cells = grid.iter().flatten().zip(0_u64..);
    let hashes = cells.map(|(cell, place)| mix(cell.to_bits() ^ mix(place.wrapping_add(0x9e37_79b9_7f4a_7c15))));
    format!("{:016x}", hashes.fold(0, u64::wrapping_add))
}
