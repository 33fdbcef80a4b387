//! What other people compute on a node. Must never outlive its user: it ends by itself, too.

use crate::place::Place;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io,
    process::{Child, Stdio},
};

/// Seconds after which a load ends by itself, whatever became of who started it.
const LIFE_S: &str = "300";

/// Processes that compute until it is dropped.
#[derive(Debug)]
pub struct Load(Vec<Child>);

impl Load {
    /// Starts so many of them at a place.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn on(place: &Place, processes: usize) -> io::Result<Self> {
        let mut load = Self(Vec::with_capacity(processes));
        for _ in 0..processes {
            let mut command = place.command("timeout");
            command.args([LIFE_S, "sh", "-c", "while :; do :; done"]);
            load.0.push(command.stdin(Stdio::null()).spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A signal that `timeout` can pass on to what computes.
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_load_computes_until_it_is_dropped() {
        let load = Load::on(&Place::on_cpu(0), 1).unwrap();
        let pid = load.0[0].id();
        assert!(fs::exists(format!("/proc/{pid}/stat")).unwrap());
        drop(load);
        assert!(!fs::exists(format!("/proc/{pid}/stat")).unwrap());
    }
}
