//! Questions of this node to others: asked, gathered, followed, and the rows made of the answers.

pub mod addressee;
pub mod asker;
pub mod control_links;
pub mod early_messages;
pub mod gathering;
pub mod given;
pub mod hang_watch;
pub mod questions;
pub mod rank_rows;
pub mod series;

pub use asker::{Asker, DrainStep};
pub use gathering::{Outcome, Wanted};
pub use questions::{ANSWER_WITHIN, Queries};
