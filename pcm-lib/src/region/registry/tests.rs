//! Misuse is an error that names the region; a registration that failed leaves nothing behind.

use super::super::{ElementType, HookFailed, RegionError, digest};
use super::*;
use pcm_core::partition::{ArraySpec, AxisSpec, Split};
use pcm_core::redistribution::HaloFill;

fn registry(rank: u32, size: u32) -> Registry {
    Registry::new(Home {
        rank,
        size,
        ranks_here: 1,
        is_first: true,
    })
}

fn form(axes: impl Into<Vec<AxisSpec>>) -> ArrayForm {
    ArrayForm {
        element: ElementType::Double,
        spec: ArraySpec::new(8, axes),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    }
}

fn rows() -> ArrayForm {
    form([AxisSpec::block(10).with_halo(1), AxisSpec::whole(4)])
}

#[test]
fn an_array_is_allocated_for_the_part_of_this_rank_with_its_halo() {
    let mut registry = registry(2, 3);
    let id = registry.array("t", rows()).expect("valid");
    let array = registry.array_named("t").expect("it is one");
    assert_eq!(array.partition().owned_interval(2, 0), Some((7, 10)));
    assert_eq!(array.storage().length(), (3 + 2) * 4 * 8);
    assert_eq!(registry.storages().map(|(id, _)| id).collect::<Vec<_>>(), [id]);
}

#[test]
fn a_second_region_of_a_name_is_refused_whatever_its_kind() {
    let mut registry = registry(0, 1);
    registry.array("t", rows()).expect("valid");
    let refused = registry
        .value("t", Value::owned([0; 8]))
        .expect_err("the name is taken");
    assert!(matches!(&refused, RegionError::Twice { name, first: "an array" } if name == "t"));
    assert!(refused.to_string().contains("\"t\""));
}

#[test]
fn registering_ends_with_the_start_and_the_start_happens_once() {
    let mut registry = registry(0, 1);
    assert!(matches!(
        registry.check_started("pcm_iterate"),
        Err(RegionError::BeforeStart { call: "pcm_iterate" })
    ));
    registry.start().expect("the first time");
    assert!(matches!(
        registry.array("t", rows()),
        Err(RegionError::AfterStart { .. })
    ));
    assert!(matches!(registry.start(), Err(RegionError::StartTwice)));
}

#[test]
fn a_program_starts_on_a_possible_number_of_ranks_only() {
    let mut one = registry(0, 1);
    one.possible_ranks(|count| count.is_multiple_of(2)).expect("a rule");
    let refused = one.start().expect_err("one rank");
    assert!(
        refused.to_string().contains("cannot run on 1 ranks: start it on 2"),
        "{refused}"
    );
    let mut two = registry(0, 2);
    assert!(matches!(
        two.possible_ranks(|_| false),
        Err(RegionError::RankCounts { .. })
    ));
    two.possible_ranks(|count| count.is_multiple_of(2)).expect("a rule");
    two.start().expect("two ranks");
    assert!(matches!(
        two.possible_ranks(|_| true),
        Err(RegionError::AfterStart { .. })
    ));
}

#[test]
fn an_array_larger_than_memory_is_refused_and_leaves_nothing_behind() {
    let mut registry = registry(0, 1);
    let huge = form([AxisSpec::block(1 << 44)]);
    let refused = registry.array("t", huge).expect_err("128 TiB");
    assert!(matches!(refused, RegionError::Memory { .. }), "{refused}");
    registry.array("t", rows()).expect("the name is still free");
}

#[test]
fn an_array_that_cannot_be_divided_is_refused_with_the_reason() {
    let mut registry = registry(0, 3);
    let counts = AxisSpec::new(10, Split::Counts { counts: vec![5, 5] });
    let refused = registry
        .array("t", form([counts]))
        .expect_err("two parts for three ranks");
    assert!(refused.to_string().starts_with("region \"t\": "), "{refused}");
    assert!(registry.array("u", form([])).is_err());
    let both = ArrayForm {
        is_scratch: true,
        is_constant: true,
        ..rows()
    };
    assert!(matches!(registry.array("v", both), Err(RegionError::Options { .. })));
}

#[test]
fn names_that_cannot_stand_in_a_message_are_refused() {
    let mut registry = registry(0, 1);
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(registry.array(name, rows()), Err(RegionError::Name { .. })));
    }
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let mut registry = registry(0, 1);
    assert!(
        registry
            .find("t")
            .expect_err("nothing is")
            .to_string()
            .contains("nothing is registered")
    );
    registry.value("it", Value::owned([0; 8])).expect("valid");
    let text = registry.array_named("t").expect_err("no such").to_string();
    assert!(text.contains("\"it\""), "{text}");
    let text = registry.array_named("it").expect_err("a value").to_string();
    assert!(text.contains("is a value"), "{text}");
}

#[test]
#[allow(unsafe_code, reason = "registers memory of the test")]
fn memory_is_registered_once() {
    let mut registry = registry(0, 1);
    let mut memory = [0_u64; 2];
    let first = std::ptr::NonNull::from(&mut memory).cast::<u8>();
    // SAFETY: the memory outlives the registry.
    let value = |at, length| unsafe { Value::borrowed(first.add(at), length) };
    registry.value("a", value(0, 8)).expect("valid");
    registry.value("b", value(8, 8)).expect("it lies beside");
    let refused = registry.value("c", value(4, 8)).expect_err("it lies in both");
    assert!(matches!(refused, RegionError::Overlaps { other, .. } if other == "a"));
    assert!(matches!(
        registry.value("d", value(0, 0)),
        Err(RegionError::Empty { .. })
    ));
}

#[test]
fn only_arrays_that_are_alike_change_places() {
    let mut registry = registry(0, 2);
    registry.array("t", rows()).expect("valid");
    let scratch = ArrayForm {
        is_scratch: true,
        ..rows()
    };
    registry.array("next", scratch).expect("valid");
    registry.array("other", form([AxisSpec::block(10)])).expect("valid");
    registry.value("it", Value::owned([0; 8])).expect("valid");
    let at = |registry: &Registry, name| registry.array_named(name).expect("it is one").storage().pointer();
    let before = [at(&registry, "t"), at(&registry, "next")];
    registry.swap("t", "next").expect("they are alike");
    assert_eq!([at(&registry, "next"), at(&registry, "t")], before);
    assert!(matches!(
        registry.swap("t", "other"),
        Err(RegionError::SwapDiffers { .. })
    ));
    assert!(matches!(registry.swap("t", "it"), Err(RegionError::Kind { .. })));
    registry.swap("t", "t").expect("nothing to do");
}

#[test]
fn digests_are_equal_just_when_the_registrations_are() {
    let digest_of = |change: &dyn Fn(&mut Registry)| {
        let mut registry = registry(0, 2);
        change(&mut registry);
        digest(&registry.descriptions())
    };
    let plain = digest_of(&|r| _ = r.array("t", rows()));
    let changes: [&dyn Fn(&mut Registry); 6] = [
        &|r| _ = r.array("u", rows()),
        &|r| _ = r.array("t", form([AxisSpec::block(10).with_halo(1), AxisSpec::whole(5)])),
        &|r| _ = r.array("t", form([AxisSpec::cyclic(10, 1), AxisSpec::whole(4)])),
        &|r| {
            _ = r.array(
                "t",
                ArrayForm {
                    is_scratch: true,
                    ..rows()
                },
            )
        },
        &|r| _ = r.value("t", Value::owned([0; 8])),
        &|r| {
            _ = r.array("t", rows());
            _ = r.value("it", Value::owned([0; 8]));
        },
    ];
    for (n, change) in changes.iter().enumerate() {
        assert_ne!(digest_of(*change), plain, "change {n}");
    }
    let weights = |weights: Vec<f64>| {
        let axis = AxisSpec::new(10, Split::Weighted { weights });
        digest_of(&|r| _ = r.array("t", form([axis.clone()])))
    };
    assert_eq!(weights(vec![1.0, 2.0]), weights(vec![3.0, 1.0]));
}

#[test]
fn hooks_are_part_of_what_must_agree() {
    let texts = |hooks: PerRankHooks| {
        let mut registry = registry(0, 2);
        registry.per_rank("sum", Value::owned([0; 8]), hooks).expect("valid");
        registry.descriptions()[0].text.clone()
    };
    let merging = PerRankHooks {
        merge: Some(Box::new(|_, _| Err(HookFailed::with_code(1)))),
        split: None,
    };
    assert_ne!(texts(PerRankHooks::default()), texts(merging));
}
