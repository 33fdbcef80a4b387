//! What people see: events and changes in words, tables, drawings, the report of a job and the page that shows it live.
//! Must never ask a daemon: it shows what it is given.

pub mod chart;
pub mod dashboard;
pub mod lines;
pub mod plain;
pub mod report;
pub mod sentences;
pub mod svg;
pub mod table;
pub mod time;
