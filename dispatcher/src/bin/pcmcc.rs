//! Entry of `pcmcc`.

fn main() {
    std::process::exit(dispatcher::compiler::main());
}
