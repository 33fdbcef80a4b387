//! The executable of a node's agent; its daemon starts it.

#[expect(clippy::disallowed_methods, reason = "the shell ends here")]
fn main() {
    let code = ios_agent::run::main(std::env::args().skip(1));
    node_log::finish();
    std::process::exit(code);
}
