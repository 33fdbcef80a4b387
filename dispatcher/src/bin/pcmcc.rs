//! Entry of `pcmcc`, and of `pcmcxx` and `pcmfort`, which are other names of it.

fn main() {
    std::process::exit(dispatcher::compiler::main());
}
