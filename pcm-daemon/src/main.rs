//! The executable of a node's keeper and daemon.

fn main() {
    let code = pcm_daemon::entry::run(std::env::args_os().skip(1));
    node_log::finish();
    std::process::exit(code);
}
