//! The environment that a process was started with, which marks what belongs to a cluster, a node or a job.

use std::fs;

/// The variables of one process.
#[derive(Clone, Debug)]
pub struct Environment(Vec<u8>);

impl Environment {
    /// Nothing for a process that has ended or belongs to another user.
    pub fn of(pid: u32) -> Option<Self> {
        fs::read(format!("/proc/{pid}/environ")).ok().map(Self)
    }

    /// The value of a variable, if it is text.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut variables = self.0.split(|byte| *byte == 0);
        let value = variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()
    }

    /// Whether some entry gives the variable this value; a name may come twice.
    pub fn has(&self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        self.0
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = Environment(b"PCM_NODES=3\0PCM_NODE=n1\0EMPTY=\0ODD\0PCM_NODE=n2".to_vec());
        assert_eq!(environment.value("PCM_NODE"), Some("n1"));
        assert_eq!(environment.value("EMPTY"), Some(""));
        assert_eq!(environment.value("ODD"), None);
        assert!(environment.has("PCM_NODE", "n2"));
        assert!(!environment.has("PCM_NODE", "n"));
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert!(Environment::of(std::process::id()).is_some());
        assert!(Environment::of(u32::MAX).is_none());
    }
}
