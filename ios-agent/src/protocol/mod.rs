//! The protocol component: who asks whom for work, who offers it, who keeps a place. Told in README.md. Pure.

pub mod agent;
pub mod effects;
pub mod known;
pub mod led_job;
pub mod picture;
pub mod reporting;
pub mod thief;
