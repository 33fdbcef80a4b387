//! The executable of a node's agent; its daemon starts it.

#[expect(clippy::disallowed_methods, reason = "the shell ends here")]
fn main() {
    std::process::exit(ios_agent::run::main(std::env::args().skip(1)));
}
