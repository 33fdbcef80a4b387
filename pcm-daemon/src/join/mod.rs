//! `pcm-daemon join`: a node that joins a cluster by itself, or begins one, with nothing but the cluster's directory.
//! It finds a daemon that answers, puts itself into the list of nodes and becomes a keeper in the foreground: the same
//! process, so that an engine such as Slurm watches and signals the right one.

mod options;
mod seeds;

use crate::{cluster_record, node_end};
use options::{Beginning, Options, Wish};
use pcm_core::membership::timing;
use pcm_fabric::ClusterKey;
use pcm_proto::app::environment::{CLUSTER as CLUSTER_ID, NODE};
use pcm_proto::boot::{BootSpec, NodeSpec, Reach};
use pcm_proto::cluster_record::{ClusterRecord, LOCK_FILE, Manner, RecordedNode};
use pcm_proto::fabric::FabricWish;
use pcm_proto::handshake::PROTOCOL_VERSION;
use pcm_proto::node_end::END_VARIABLE;
use pcm_proto::secret::Secret;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Silence after which a node is taken for dead, in seconds, where the cluster's list does not say it.
const PATIENCE_VARIABLE: &str = "PCM_PATIENCE";

/// Runs `pcm-daemon join` with these options; returns only when the node did not join.
pub(crate) fn run(options: &[&str]) -> i32 {
    let options = match options::parse(options, |name| std::env::var(name).ok()) {
        Ok(Wish::Join(options)) => options,
        Ok(Wish::Help) => {
            print!("{}", options::HELP);
            return 0;
        }
        Err(error) => {
            eprintln!("pcm-daemon: {error}; 'pcm-daemon join --help' lists the options");
            return 2;
        }
    };
    let ends = match node_end::for_keeper(options.ends.as_deref(), |name| std::env::var(name).ok()) {
        Ok(ends) => ends,
        Err(error) => {
            eprintln!("pcm-daemon: {error}");
            return 2;
        }
    };
    match prepare(&options).and_then(|spec| become_keeper(&spec, ends)) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("pcm-daemon: node {} did not join: {error}", options.node);
            1
        }
    }
}

/// Everything the keeper of this node needs; the node is in the list when this succeeds.
fn prepare(options: &Options) -> Result<BootSpec, String> {
    let dir = &options.cluster_dir;
    let is_first = match &options.beginning {
        Beginning::Make => {
            make_cluster(dir)?;
            true
        }
        Beginning::With(node) => *node == options.node,
        Beginning::Join => false,
    };
    let found = if is_first {
        seeds::Found::default()
    } else {
        seeds::find(options)?
    };
    let key = ClusterKey::load(&dir.join("key")).map_err(|error| error.to_string())?;
    let record = cluster_record::read(dir).map_err(|error| unusable(dir, &error))?;
    let manner = record.and_then(|record| record.manner).unwrap_or_else(default_manner);
    let node = NodeSpec {
        name: options.node.clone(),
        address: options.address.clone().or(found.address).unwrap_or_else(own_address),
        site: options.site.clone(),
        cpus: Vec::new(),
        reach: Reach::Local,
    };
    enlist(dir, key.cluster_id(), &node)?;
    Ok(BootSpec {
        version: PROTOCOL_VERSION,
        cluster_id: key.cluster_id().to_owned(),
        cluster_dir: dir.clone(),
        key: Secret::new(key.secret_hex().as_str()),
        node,
        subtree: Vec::new(),
        seeds: found.seeds,
        fabric: manner.fabric,
        is_rdma_sealed: manner.is_rdma_sealed,
        patience_ms: manner.patience_ms,
    })
}

/// Makes the directory, the key and an empty list. A directory with a list has, or had, a cluster: `pcmctl` ends it.
fn make_cluster(dir: &Path) -> Result<(), String> {
    let failed = |error| unusable(dir, &error);
    own_files::make_directory(dir).map_err(failed)?;
    own_files::open_lock(&dir.join(LOCK_FILE)).map_err(failed)?;
    let key = ClusterKey::generate().map_err(|error| error.to_string())?;
    let mut made = Ok(());
    let changed = cluster_record::change(dir, |record| {
        if record.is_some() {
            made = Err(format!(
                "a cluster is in {} already: join it without --first, or end it with 'pcmctl down'",
                dir.display()
            ));
            return None;
        }
        made = key.store(&dir.join("key")).map_err(|error| error.to_string());
        made.is_ok().then(|| ClusterRecord {
            id: key.cluster_id().to_owned(),
            created_us: now_us(),
            nodes: Vec::new(),
            manner: Some(default_manner()),
            core: None,
        })
    });
    changed.map_err(failed)?;
    made
}

/// Puts the node into the list. What an earlier node of its name left says where that one listened.
fn enlist(dir: &Path, cluster_id: &str, node: &NodeSpec) -> Result<(), String> {
    let stale = dir.join("nodes").join(node.name.as_str()).join("address");
    match fs::remove_file(&stale) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&stale, &error)),
        _ => {}
    }
    let mut is_there = true;
    let changed = cluster_record::change(dir, |record| {
        let record = record.filter(|record| record.id == cluster_id);
        is_there = record.is_some();
        let mut record = record?;
        record.nodes.retain(|known| known.spec.name != node.name);
        record.nodes.push(RecordedNode {
            spec: node.clone(),
            listens: None,
        });
        Some(record)
    });
    changed.map_err(|error| unusable(dir, &error))?;
    if is_there { Ok(()) } else { Err(seeds::over(dir)) }
}

/// Turns this process into the keeper: the environment must name cluster and node from the beginning, because `down`
/// finds processes by it.
fn become_keeper(spec: &BootSpec, ends: Option<String>) -> Result<std::convert::Infallible, String> {
    let failed = |error: std::io::Error| format!("the keeper cannot be started: {error}");
    let text = serde_json::to_vec(spec).map_err(|error| failed(error.into()))?;
    let memory = memfd_create("pcm-boot", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut file = File::from(memory);
    file.write_all(&text).and_then(|()| file.rewind()).map_err(failed)?;
    let null = OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    eprintln!("pcm-daemon: node {} joins cluster {}", spec.node.name, spec.cluster_id);
    let error = Command::new(program)
        .args(["--foreground", "--joined"])
        .env(CLUSTER_ID, &spec.cluster_id)
        .env(NODE, spec.node.name.as_str())
        .envs(ends.map(|ends| (END_VARIABLE, ends)))
        .stdin(file)
        .stdout(null)
        .exec();
    cluster_record::take_out(spec);
    Err(failed(error))
}

fn default_manner() -> Manner {
    let told = std::env::var(PATIENCE_VARIABLE).ok().and_then(|text| text.parse().ok());
    let told = told.and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    let patience = told
        .unwrap_or(timing::PATIENCE)
        .clamp(timing::PATIENCE_MIN, timing::PATIENCE_MAX);
    Manner {
        fabric: FabricWish::Auto,
        is_rdma_sealed: false,
        patience_ms: u32::try_from(patience.as_millis()).unwrap_or(u32::MAX),
    }
}

/// The address of the first node: no daemon has seen it yet.
fn own_address() -> String {
    let launcher = std::env::var("SLURM_LAUNCH_NODE_IPADDR").ok();
    launcher
        .and_then(|launcher| seeds::own_address_towards(&format!("{launcher}:9")))
        .unwrap_or_else(options::host_name)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn unusable(path: &Path, error: &std::io::Error) -> String {
    format!(
        "{}: {error}; the cluster's directory must be the same, and writable, on every node",
        path.display()
    )
}
