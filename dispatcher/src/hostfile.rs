//! Host files: one node a line, `name [address] [cpus=0-3] [site=S] [ssh=user@host]`, `#` begins a comment.

use crate::cpus;
use pcm_proto::boot::{NodeSpec, Reach, is_destination};
use pcm_proto::ids::{NodeName, name_check};
use std::collections::BTreeSet;
use std::net::{TcpListener, ToSocketAddrs};

/// Most nodes of one cluster; the layout of daemons and the tables of peers are sized for it.
pub const NODES_MAX: usize = 1024;

/// The site of nodes that name none.
pub const SITE_DEFAULT: &str = "here";

/// Reads a host file. Errors name the line.
pub fn parse(text: &str) -> Result<Vec<NodeSpec>, String> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut names = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let node = parse_line(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        if !names.insert(node.name.clone()) {
            return Err(format!(
                "line {}: node {} is listed twice: give each node a separate name",
                index + 1,
                node.name
            ));
        }
        nodes.push(node);
    }
    match nodes.len() {
        0 => Err("no node is listed: write one per line, as 'name [address] [cpus=0-3] [site=S]'".to_owned()),
        count if count > NODES_MAX => Err(format!("{count} nodes; a cluster has at most {NODES_MAX}")),
        _ => Ok(nodes),
    }
}

/// Reads one node, as in a line of a host file or an argument of `grow`.
pub fn parse_line(line: &str) -> Result<NodeSpec, String> {
    let mut words = line.split_whitespace().peekable();
    let name = words.next().ok_or("a node needs a name")?;
    let name = NodeName::new(name).map_err(|error| format!("node name {name:?}: {error}"))?;
    let address = words
        .next_if(|word| !word.contains('='))
        .unwrap_or(name.as_str())
        .to_owned();
    let mut cpus = Vec::new();
    let mut site = SITE_DEFAULT.to_owned();
    let mut destination = None;
    for word in words {
        match word.split_once('=') {
            Some(("cpus", list)) => cpus = cpus::parse_list(list)?,
            Some(("site", name)) => {
                name_check(name).map_err(|error| format!("site {name:?}: {error}"))?;
                site = name.to_owned();
            }
            Some(("ssh", to)) if is_destination(to) => destination = Some(to.to_owned()),
            _ => {
                return Err(format!(
                    "{word:?} is not valid: a line is 'name [address] [cpus=0-3] [site=S] [ssh=user@host]'"
                ));
            }
        }
    }
    if !is_destination(&address) {
        return Err(format!(
            "address {address:?} is neither a host name nor a numeric address"
        ));
    }
    let reach = match destination {
        Some(destination) => Reach::Ssh { destination },
        None if is_local(&address) => Reach::Local,
        None => Reach::Ssh {
            destination: address.clone(),
        },
    };
    Ok(NodeSpec {
        name,
        address,
        site,
        cpus,
        reach,
    })
}

/// `count` virtual nodes `n0` … on this machine.
pub fn local_nodes(count: usize, cpus: &[Vec<u32>]) -> Result<Vec<NodeSpec>, String> {
    (0..count)
        .map(|index| {
            let name = NodeName::new(format!("n{index}")).map_err(|error| error.to_string())?;
            Ok(local_node(name, cpus.get(index).cloned().unwrap_or_default()))
        })
        .collect()
}

/// One virtual node on this machine.
pub fn local_node(name: NodeName, cpus: Vec<u32>) -> NodeSpec {
    NodeSpec {
        name,
        address: "127.0.0.1".to_owned(),
        site: SITE_DEFAULT.to_owned(),
        cpus,
        reach: Reach::Local,
    }
}

/// Whether an address is one of this machine: only then a socket can be bound to it.
fn is_local(address: &str) -> bool {
    let Ok(mut addresses) = (address, 0u16).to_socket_addrs() else {
        return false;
    };
    addresses.any(|address| TcpListener::bind(address).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_name_address_cpus_site_and_ssh() {
        let nodes = parse("# my hosts\na 127.0.0.1 cpus=0-1 site=east # here\n\nb 192.0.2.7 ssh=me@gate\n").unwrap();
        assert_eq!(nodes[0].cpus, [0, 1]);
        assert_eq!(nodes[0].site, "east");
        assert_eq!(nodes[0].reach, Reach::Local);
        assert_eq!(nodes[1].site, SITE_DEFAULT);
        assert_eq!(
            nodes[1].reach,
            Reach::Ssh {
                destination: "me@gate".into()
            }
        );
    }

    #[test]
    fn an_address_of_another_machine_is_reached_over_ssh() {
        let node = parse_line("b 192.0.2.7").unwrap();
        assert_eq!(
            node.reach,
            Reach::Ssh {
                destination: "192.0.2.7".into()
            }
        );
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [
            ("a 127.0.0.1\nb 127.0.0.1 cpu=1", "line 2: \"cpu=1\""),
            ("\n../a 127.0.0.1", "line 2: node name"),
            ("a 127.0.0.1\na 127.0.0.1", "line 2: node a is listed twice"),
            ("a 127.0.0.1 cpus=x", "line 1: \"x\""),
            ("a -oProxyCommand=evil", "line 1"),
            ("a 127.0.0.1 ssh=-oProxyCommand", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(line), "{text:?} gave {error:?}");
        }
        assert!(parse("# nothing\n").is_err());
    }
}
