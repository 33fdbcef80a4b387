//! What `doctor` looks at: this machine, the daemons' fabric, and the MPI in use under real daemons.

pub(crate) mod fabric;
pub(crate) mod finding;
pub(crate) mod machine;
pub(crate) mod messages;
pub(crate) mod patient;
