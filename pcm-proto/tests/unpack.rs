//! What `rmp_serde` writes is read as `rmp_serde` reads it.

use pcm_proto::unpack::{UnpackError, from_slice, from_slice_named};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Unit;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
enum Kind {
    Bare,
    One(Option<i64>),
    Two(u8, String),
    Named { list: Vec<Kind>, at: f64 },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Tagged {
    Small { a: u32, b: Option<String> },
    Empty,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct All {
    numbers: (u8, u16, u32, u64, i8, i16, i32, i64, f32),
    letter: char,
    is_so: bool,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
    map: BTreeMap<u32, Kind>,
    unit: Unit,
    nothing: (),
    sixteen: [u8; 16],
    tagged: Vec<Tagged>,
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Bare),
        any::<Option<i64>>().prop_map(Kind::One),
        (any::<u8>(), ".{0,40}").prop_map(|(number, text)| Kind::Two(number, text)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        (proptest::collection::vec(inner, 0..4), -1e9..1e9).prop_map(|(list, at)| Kind::Named { list, at })
    })
}

prop_compose! {
    fn all()(
        numbers in any::<(u8, u16, u32, u64, i8, i16, i32, i64)>(),
        letter in any::<char>(),
        is_so in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        map in proptest::collection::btree_map(any::<u32>(), kind(), 0..20),
        sixteen in any::<[u8; 16]>(),
        tagged in proptest::collection::vec(any::<Option<(u32, Option<u8>)>>(), 0..20),
    ) -> All {
        let (a, b, c, d, e, f, g, h) = numbers;
        let tagged = tagged.into_iter().map(|one| match one {
            Some((a, b)) => Tagged::Small { a, b: b.map(|b| "x".repeat(b.into())) },
            None => Tagged::Empty,
        });
        let tagged = tagged.collect();
        let numbers = (a, b, c, d, e, f, g, h, 0.5);
        All { numbers, letter, is_so, bytes, map, unit: Unit, nothing: (), sixteen, tagged }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(all in all()) {
        let packed = rmp_serde::to_vec(&all).unwrap();
        prop_assert_eq!(&from_slice::<All>(&packed).unwrap(), &all);
        prop_assert_eq!(&from_slice_named::<All>(&packed).unwrap(), &all);
        let named = rmp_serde::to_vec_named(&all).unwrap();
        prop_assert_eq!(&from_slice_named::<All>(&named).unwrap(), &all);
        prop_assert!(from_slice::<All>(&named).is_err());
    }

    #[test]
    fn what_is_cut_short_or_changed_is_taken_as_rmp_serde_takes_it(
        all in all(), cut in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let whole = rmp_serde::to_vec_named(&all).unwrap();
        prop_assert!(from_slice_named::<All>(&whole[..cut.index(whole.len())]).is_err());
        let mut changed = whole;
        let place = place.index(changed.len());
        changed[place] = byte;
        // The other one also takes bytes for a list of numbers.
        if let Ok(own) = from_slice_named::<All>(&changed) {
            prop_assert_eq!(own, rmp_serde::from_slice::<All>(&changed).unwrap());
        }
    }

    #[test]
    fn what_rmp_serde_reads_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(own) = from_slice_named::<Kind>(&bytes) {
            prop_assert_eq!(own, rmp_serde::from_slice::<Kind>(&bytes).unwrap());
        }
        let reference = rmp_serde::from_slice::<(Option<u16>, Option<String>)>(&bytes).ok();
        prop_assert_eq!(from_slice_named::<(Option<u16>, Option<String>)>(&bytes).ok(), reference);
    }
}

#[test]
fn a_length_is_not_believed_and_nesting_has_an_end() {
    assert!(matches!(
        from_slice::<Vec<u64>>(&[0xdd, 0xff, 0xff, 0xff, 0xff]),
        Err(UnpackError::Short)
    ));
    assert!(matches!(
        from_slice::<String>(&[0xdb, 0xff, 0xff, 0xff, 0xff, b'a']),
        Err(UnpackError::Short)
    ));
    let deep = |levels: usize| [vec![0x91; levels], vec![0]].concat();
    assert!(from_slice::<serde::de::IgnoredAny>(&deep(63)).is_ok());
    assert!(matches!(
        from_slice::<serde::de::IgnoredAny>(&deep(64)),
        Err(UnpackError::TooDeep)
    ));
    assert!(matches!(
        from_slice::<(u8,)>(&[0x92, 1, 2]),
        Err(UnpackError::TooLong { length: 2, taken: 1 })
    ));
}
