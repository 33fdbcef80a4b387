//! Writes the sample checkpoint of the golden files: `cargo run --example sample_checkpoint -- DIR [lz4]`.

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().ok_or("give the directory to make")?;
    let compression = match arguments.next().as_deref() {
        Some("lz4") => pcm_checkpoint::Compression::Lz4,
        _ => pcm_checkpoint::Compression::None,
    };
    println!("{}", sample::write(target.as_ref(), compression)?.display());
    Ok(())
}
