//! The process: orders on standard input, reports on standard output.

fn main() {
    std::process::exit(pcm_pmix::run());
}
