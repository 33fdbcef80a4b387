//! The options of `pcm-daemon join`.

use pcm_proto::boot::is_destination;
use pcm_proto::ids::{NodeName, name_check};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
pcm-daemon join: joins a cluster by itself and stays in the foreground

  --cluster DIR    the cluster's directory [default: PCM_CLUSTER]; its key is proof enough
  --first          make the cluster and begin it
  --begin-at NODE  'pcmctl up' made the cluster; the node of this name begins it, others wait
  --node NAME      [default: SLURMD_NODENAME, else the host's name]
  --address HOST   where others reach it [default: PCM_ADDRESS, else the address towards the cluster]
  --site NAME      [default: here]
  --ends AT        when the node ends: seconds since 1970, RFC 3339 or 'never' [default: PCM_NODE_ENDS, else Slurm's]
  --wait SECONDS   for a daemon that answers, and for an earlier node of this name to be gone [default: 60]

SIGTERM: the node will be taken away; its ranks go elsewhere within PCM_NOTICE_SECONDS, and PCM_LEAVE_SECONDS before
the node ends. Exit codes: 0 the cluster is down or the node was removed; 75 left because of a notice or its end;
1 failed; 2 called wrongly.

Example:  srun --overlap --no-kill pcm-daemon join --cluster $HOME/cluster
";

/// From a name of a node on, for as long as its predecessor takes to be known as dead.
const WAIT: Duration = Duration::from_secs(60);
const WAIT_MAX: f64 = 86_400.0;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Join(Options),
    Help,
}

/// How the cluster begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// It has begun.
    Join,
    /// With this node, which makes it.
    Make,
    /// With the node of this name; `pcmctl up` has made it.
    With(NodeName),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) cluster_dir: PathBuf,
    pub(super) beginning: Beginning,
    pub(super) node: NodeName,
    pub(super) address: Option<String>,
    pub(super) site: String,
    pub(super) wait: Duration,
    /// When the node ends, as it was given.
    pub(super) ends: Option<String>,
}

/// Reads them; `variable` gives variables of the environment.
pub(super) fn parse(words: &[&str], variable: impl Fn(&str) -> Option<String>) -> Result<Wish, String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut dir = set("PCM_CLUSTER");
    let mut name = set("SLURMD_NODENAME");
    let mut address = set("PCM_ADDRESS");
    let (mut site, mut wait, mut ends) = ("here".to_owned(), WAIT, None);
    let mut beginning = Beginning::Join;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(|&value| value.to_owned());
        let missing = || format!("{word} needs a value");
        match *word {
            "-h" | "--help" => return Ok(Wish::Help),
            "--first" => beginning = Beginning::Make,
            "--begin-at" => beginning = Beginning::With(node_name(value().ok_or_else(missing)?)?),
            "--cluster" => dir = Some(value().ok_or_else(missing)?),
            "--node" => name = Some(value().ok_or_else(missing)?),
            "--address" => address = Some(value().ok_or_else(missing)?),
            "--site" => site = value().ok_or_else(missing)?,
            "--ends" => ends = Some(value().ok_or_else(missing)?),
            "--wait" => wait = seconds(&value().ok_or_else(missing)?)?,
            other => return Err(format!("{other} is no option")),
        }
    }
    let dir = dir.ok_or("no cluster is named: give its directory with --cluster DIR, or in PCM_CLUSTER")?;
    let cluster_dir = std::path::absolute(&dir).map_err(|error| format!("{dir}: {error}"))?;
    name_check(&site).map_err(|error| format!("site {site:?}: {error}"))?;
    if let Some(bad) = address.as_ref().filter(|address| !is_destination(address)) {
        return Err(format!("address {bad:?} is neither a host name nor a numeric address"));
    }
    Ok(Wish::Join(Options {
        cluster_dir,
        beginning,
        node: node_name(name.unwrap_or_else(host_name))?,
        address,
        site,
        wait,
        ends,
    }))
}

fn node_name(name: String) -> Result<NodeName, String> {
    NodeName::new(&name).map_err(|error| format!("node name {name:?}: {error}; give another with --node"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    if (0.0..=WAIT_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("--wait takes 0 to {WAIT_MAX} seconds"))
    }
}

/// This host's name up to the first dot.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[&str], slurm: Option<&str>) -> Result<Options, String> {
        let variable = |name: &str| slurm.filter(|_| name == "SLURMD_NODENAME").map(str::to_owned);
        parse(words, variable).map(|wish| match wish {
            Wish::Join(options) => options,
            Wish::Help => panic!("help"),
        })
    }

    #[test]
    fn the_engine_names_the_node_unless_somebody_does() {
        let named = |words: &[&str], slurm| joined(words, slurm).unwrap().node.to_string();
        assert_eq!(named(&["--cluster", "/c"], Some("v7")), "v7");
        assert_eq!(named(&["--cluster", "/c", "--node", "mine"], Some("v7")), "mine");
        assert_eq!(named(&["--cluster", "/c"], None), host_name());
    }

    #[test]
    fn only_one_node_begins_a_cluster_that_is_made_already() {
        let options = joined(&["--begin-at", "v1", "--cluster", "/c"], Some("v2")).unwrap();
        assert_eq!(options.beginning, Beginning::With(NodeName::new("v1").unwrap()));
        assert!(joined(&["--cluster", "/c", "--begin-at"], None).is_err());
        assert!(joined(&[], Some("v2")).unwrap_err().contains("PCM_CLUSTER"));
        assert!(joined(&["--cluster", "/c", "--address", "-o x"], None).is_err());
    }
}
