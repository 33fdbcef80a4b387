//! The end of `include/pcm.f90` is the same for each type and rank, as the pieces in `fortran/` say. To write it again:
//! `PCM_MODULE=write cargo test -p pcm-lib --test fortran_module`.

use std::{fs, path::Path};

const MARK: &str = "  ! ---- the same for each type and rank ";

/// In the names of procedures, in declarations, in pcm.h.
const TYPES: [[&str; 3]; 6] = [
    ["int32", "integer(int32)", "PCM_INT32"],
    ["int64", "integer(int64)", "PCM_INT64"],
    ["real32", "real(real32)", "PCM_FLOAT"],
    ["real64", "real(real64)", "PCM_DOUBLE"],
    ["complex32", "complex(real32)", "PCM_COMPLEX_FLOAT"],
    ["complex64", "complex(real64)", "PCM_COMPLEX_DOUBLE"],
];

fn of_all(of_type: &str, of_rank: &str) -> String {
    let mut text = String::new();
    for [name, declared, element] in TYPES {
        let of = |piece: &str| {
            let piece = piece.replace("{name}", name).replace("{type}", declared);
            piece.replace("{element}", element)
        };
        text += &of(of_type);
        for rank in 1..=3 {
            let bounds: Vec<String> = (1..=rank).map(|dimension| format!("at%first({dimension}):")).collect();
            let piece = of(of_rank).replace("{rank}", &rank.to_string());
            text += &piece
                .replace("{colons}", &vec![":"; rank].join(", "))
                .replace("{bounds}", &bounds.join(", "));
        }
    }
    text
}

#[test]
fn the_end_of_the_module_is_the_same_for_each_type_and_rank() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let piece = |name: &str| fs::read_to_string(root.join("fortran").join(name)).expect("a piece");
    let path = root.join("include/pcm.f90");
    let checked_in = fs::read_to_string(&path).expect("the module");
    let (own, end) = checked_in.split_once(MARK).expect("a mark before the end");
    let rule = end.lines().next().unwrap_or_default();
    let procedures = of_all(&piece("of_each_type.f90"), &piece("of_each_rank.f90"));
    let text = format!("{own}{MARK}{rule}\n{procedures}end module\n");
    if std::env::var("PCM_MODULE").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).expect("the module is ours");
    }
    let checked_in = fs::read_to_string(&path).expect("the module");
    assert!(
        checked_in == text,
        "include/pcm.f90 is not what fortran/ says: run PCM_MODULE=write cargo test -p pcm-lib --test fortran_module"
    );
}
