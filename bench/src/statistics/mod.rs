//! Statistics of samples: `summary` has medians and quantiles, `significance` says whether variants differ,
//! `distributions` has the tails for that. All pure.

mod distributions;
mod significance;
mod summary;

pub use significance::{conover_iman, kruskal_wallis, shapiro_wilk};
pub use summary::{mean, median, paired_ratio, quantile};
