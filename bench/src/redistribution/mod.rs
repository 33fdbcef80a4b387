//! Which method of reconfiguration is best where: jobs that grow and shrink between pairs of sizes by each method and
//! by the daemons' own choice. `plan` is what is to be done, `measure` does it on a job, `cell` is one pair of sizes,
//! `verdict` and `best_map` judge, `findings` is all of it as tables and files, `page` as one page to read; `read_csv`
//! reads results back.

mod best_map;
mod cell;
mod findings;
mod measure;
mod page;
mod plan;
mod read_csv;
mod verdict;

pub use cell::Cell;
pub use findings::Findings;
pub use measure::{Change, ChangingJob, measure};
pub use page::page;
pub use plan::{Data, Pair, Plan};
pub use read_csv::{Unreadable, read_cells};
