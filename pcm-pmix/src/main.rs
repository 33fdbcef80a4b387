//! The process: orders and reports on connections to the socket that is its standard input.

fn main() {
    std::process::exit(pcm_pmix::run());
}
