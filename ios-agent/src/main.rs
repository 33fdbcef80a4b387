//! The executable of a node's agent; its daemon starts it.

fn main() {
    std::process::exit(ios_agent::run::main(std::env::args().skip(1)));
}
