//! Tells the agents of this machine what this `pcmctl` takes of its CPUs, so that they do not take it for a load of
//! others. Never waits for an agent, and never fails a command.

use pcm_proto::looking::{Looked, sockets_of};
use rustix::time::{ClockId, clock_gettime};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A `pcmctl` that stays tells it so often: agents judge half seconds.
const TELL_EVERY: Duration = Duration::from_millis(250);

static LOOKING: Mutex<Option<Looking>> = Mutex::new(None);

struct Looking {
    cluster_id: String,
    socket: UnixDatagram,
    told_us: u64,
}

/// This process looks at this cluster from now on.
pub(crate) fn begin(cluster_id: &str) {
    let mut looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    if looking.is_some() {
        return;
    }
    let Ok(socket) = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) else {
        return;
    };
    *looking = Some(Looking {
        cluster_id: cluster_id.to_owned(),
        socket,
        told_us: 0,
    });
    // Ends with the process.
    let _ = thread::Builder::new().name("looking".to_owned()).spawn(|| {
        loop {
            thread::sleep(TELL_EVERY);
            tell();
        }
    });
}

/// Tells what was used since the last time.
pub(crate) fn tell() {
    let mut looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(looking) = &mut *looking {
        looking.tell();
    }
}

impl Looking {
    fn tell(&mut self) {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used_us = used.tv_sec.cast_unsigned() * 1_000_000 + used.tv_nsec.cast_unsigned() / 1000;
        let looked = Looked {
            cpu: u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX),
            used_us: used_us.saturating_sub(self.told_us),
        };
        self.told_us = used_us;
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        for name in agents(&sockets, &self.cluster_id) {
            if let Ok(address) = SocketAddr::from_abstract_name(name) {
                // An agent that is gone, or has much to read, goes without.
                let _ = self.socket.send_to_addr(&looked.encode(), &address);
            }
        }
    }
}

/// The agents of a cluster among the sockets of this machine.
fn agents<'a>(sockets: &'a str, cluster_id: &str) -> Vec<&'a str> {
    let beginning = format!("@{}", sockets_of(cluster_id));
    let names = sockets.lines().filter_map(|line| line.split_whitespace().last());
    let agents = names.filter(|name| name.starts_with(&beginning));
    agents.map(|name| &name[1..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_of_this_cluster_are_found_among_the_sockets() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 11111 @pcm-looks-c1-n0\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 22222\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 33333 @pcm-looks-c2-n0\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 44444 @pcm-looks-c1-n1\n";
        assert_eq!(agents(sockets, "c1"), ["pcm-looks-c1-n0", "pcm-looks-c1-n1"]);
        assert!(agents(sockets, "c").is_empty());
    }
}
