//! `include/pcm.h` is what the Rust source says. To write it anew: `PCM_HEADER=write cargo test -p pcm-lib --test
//! header`.

use std::{fs, path::Path};

#[test]
fn the_header_is_generated_from_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    let mut sources: Vec<_> = fs::read_dir(root.join("src/capi"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sources.sort();
    for source in sources.iter().filter(|path| !path.ends_with("mod.rs")) {
        builder = builder.with_src(source);
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let path = root.join("include/pcm.h");
    if std::env::var("PCM_HEADER").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == text,
        "include/pcm.h is not what the source says: run PCM_HEADER=write cargo test -p pcm-lib --test header"
    );
}
