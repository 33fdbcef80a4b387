//! The reader in Python reads the golden files and gets what the Rust one gets.

mod sample;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn python(arguments: &[&Path]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/pcm_checkpoint.py");
    let mut command = Command::new("python3");
    command.arg(script).args(arguments);
    command.output().expect("python3 is there")
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn python_reads_every_kind_of_region_of_the_golden_files() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("out");
    for name in ["v1", "v1-lz4"] {
        let export = |region: &str| {
            let said = python(&["export".as_ref(), &golden(name), region.as_ref(), &file]);
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            fs::read(&file).unwrap()
        };
        let grid: Vec<u8> = (0..7)
            .flat_map(|i| (0..5).flat_map(move |j| sample::grid_bytes(&[i, j])))
            .collect();
        let exported = export("temperature / K");
        assert_eq!(exported[128..], grid);
        assert!(
            exported
                .starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (7, 5), }")
        );
        let dealt: Vec<u8> = (0..23).flat_map(|i| sample::dealt_bytes(&[i])).collect();
        assert_eq!(export("dealt")[128..], dealt);
        assert_eq!(export("iteration"), 42_u64.to_le_bytes());
        assert_eq!(export("mesh"), [0xa1, 0xa2, 0xa2]);
    }
}

#[test]
fn python_notices_one_flipped_bit() {
    let out = tempfile::tempdir().unwrap();
    let written = sample::write(&out.path().join("c"), pcm_checkpoint::Compression::None).unwrap();
    assert!(python(&["verify".as_ref(), &written]).status.success());
    let part = written.join(pcm_checkpoint::part_file(
        1,
        "dealt",
        2,
        true,
        pcm_checkpoint::Compression::None,
    ));
    let mut bytes = fs::read(&part).unwrap();
    bytes[130] ^= 4;
    fs::write(&part, bytes).unwrap();
    let said = python(&["verify".as_ref(), &written]);
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("another checksum"));
}
