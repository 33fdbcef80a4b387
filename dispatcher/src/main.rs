//! Entry of `pcmctl`.

fn main() {
    std::process::exit(dispatcher::cli::main());
}
