//! What libpmix learns of a namespace: sizes, places and folders, for all its processes.

use super::infos::Infos;
use crate::{
    bindings::{
        attributes::{
            PMIX_APP_RANK, PMIX_APPNUM, PMIX_GLOBAL_RANK, PMIX_HOSTNAME, PMIX_JOB_NUM_APPS, PMIX_JOB_SIZE, PMIX_JOBID,
            PMIX_LOCAL_PEERS, PMIX_LOCAL_RANK, PMIX_LOCAL_SIZE, PMIX_LOCALLDR, PMIX_MAX_PROCS, PMIX_NODE_MAP,
            PMIX_NODE_RANK, PMIX_NODE_SIZE, PMIX_NODEID, PMIX_NSDIR, PMIX_NUM_NODES, PMIX_PARENT_ID, PMIX_PROC_DATA,
            PMIX_PROC_MAP, PMIX_PROCDIR, PMIX_RANK, PMIX_SPAWNED, PMIX_TMPDIR, PMIX_UNIV_SIZE,
        },
        numbers::{PMIX_BOOL, PMIX_PROC_RANK, PMIX_UINT16, PMIX_UINT32},
    },
    names::Value,
};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Namespace, Place};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Folders of the processes of this node, all below one of the server's own.
pub(super) struct Folders {
    top: PathBuf,
    of_namespace: PathBuf,
    of_ranks: BTreeMap<u32, PathBuf>,
}

/// Open MPI would make them below `/tmp`, and leave them there after a crash.
pub(super) fn folders(top: &Path, namespace: &str, ranks: &[u32]) -> Result<Folders, String> {
    let of_namespace = top.join(plain(namespace)?);
    let mut of_ranks = BTreeMap::new();
    for rank in ranks {
        let folder = of_namespace.join(rank.to_string());
        fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        of_ranks.insert(*rank, folder);
    }
    Ok(Folders {
        top: top.to_owned(),
        of_namespace,
        of_ranks,
    })
}

pub(super) fn remove_folders(top: &Path, namespace: &str) -> Result<(), String> {
    let folder = top.join(plain(namespace)?);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A name that is one component of a path.
fn plain(namespace: &str) -> Result<&str, String> {
    let is_plain = !namespace.is_empty() && !namespace.starts_with('.') && !namespace.contains(['/', '\0']);
    is_plain
        .then_some(namespace)
        .ok_or_else(|| format!("'{namespace}' is no name of a namespace"))
}

pub(super) fn infos(namespace: &Namespace, own: &NodeName, folders: &Folders) -> Infos {
    let local = namespace.ranks_on(own);
    let size = namespace.size();
    let places: Vec<&Place> = namespace
        .places
        .iter()
        .filter(|place| !place.ranks.is_empty())
        .collect();
    let hosts: Vec<&str> = places.iter().map(|place| place.host.as_str()).collect();
    let ranks: Vec<String> = places.iter().map(|place| commas(&place.ranks)).collect();
    let here = places.iter().position(|place| &place.node == own);
    let mut infos = Infos::default();
    infos.number(PMIX_UNIV_SIZE, PMIX_UINT32, namespace.universe.max(size));
    infos.number(PMIX_MAX_PROCS, PMIX_UINT32, namespace.universe.max(size));
    infos.number(PMIX_JOB_SIZE, PMIX_UINT32, size);
    infos.number(PMIX_LOCAL_SIZE, PMIX_UINT32, count(local.len()));
    infos.number(PMIX_NODE_SIZE, PMIX_UINT32, count(local.len()));
    infos.number(PMIX_NUM_NODES, PMIX_UINT32, count(places.len()));
    infos.number(PMIX_JOB_NUM_APPS, PMIX_UINT32, namespace.programs());
    infos.text(PMIX_JOBID, &namespace.name);
    // The form that libpmix compresses is not needed: it reads this one, too.
    infos.text(PMIX_NODE_MAP, format!("raw:{}", hosts.join(",")));
    infos.text(PMIX_PROC_MAP, format!("raw:{}", ranks.join(";")));
    if let (Some(here), Some(first)) = (here, local.first()) {
        infos.number(PMIX_NODEID, PMIX_UINT32, count(here));
        infos.text(PMIX_LOCAL_PEERS, commas(local));
        infos.number(PMIX_LOCALLDR, PMIX_PROC_RANK, *first);
    }
    infos.put(PMIX_TMPDIR, &path(&folders.top));
    infos.put(PMIX_NSDIR, &path(&folders.of_namespace));
    if let Some(parent) = &namespace.parent {
        infos.put(PMIX_PARENT_ID, &Value::Process(parent.clone()));
        infos.number(PMIX_SPAWNED, PMIX_BOOL, 1);
    }
    for (node, place) in places.iter().enumerate() {
        for (index, rank) in place.ranks.iter().enumerate() {
            let mut own = of_rank(*rank, count(index), count(node), &place.host);
            let (program, of_program) = namespace.program_of(*rank);
            own.number(PMIX_APPNUM, PMIX_UINT32, program);
            own.number(PMIX_APP_RANK, PMIX_PROC_RANK, of_program);
            if let Some(folder) = folders.of_ranks.get(rank) {
                own.put(PMIX_PROCDIR, &path(folder));
            }
            infos.list(PMIX_PROC_DATA, own);
        }
    }
    infos
}

fn of_rank(rank: u32, local: u32, node: u32, host: &str) -> Infos {
    let mut infos = Infos::default();
    // The rank must come first.
    infos.number(PMIX_RANK, PMIX_PROC_RANK, rank);
    infos.number(PMIX_GLOBAL_RANK, PMIX_PROC_RANK, rank);
    infos.number(PMIX_LOCAL_RANK, PMIX_UINT16, local);
    infos.number(PMIX_NODE_RANK, PMIX_UINT16, local);
    infos.number(PMIX_NODEID, PMIX_UINT32, node);
    infos.text(PMIX_HOSTNAME, host);
    infos
}

fn commas(ranks: &[u32]) -> String {
    let texts: Vec<String> = ranks.iter().map(u32::to_string).collect();
    texts.join(",")
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn path(path: &Path) -> Value {
    Value::Text(path.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_never_names_a_folder_elsewhere() {
        for name in ["", ".", "..", "a/b", "../up"] {
            assert!(plain(name).is_err(), "{name}");
        }
        assert_eq!(plain("job7.2"), Ok("job7.2"));
    }
}
