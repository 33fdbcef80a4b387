//! The executable of a node's keeper and daemon.

fn main() {
    std::process::exit(pcm_daemon::entry::run(std::env::args_os().skip(1)));
}
