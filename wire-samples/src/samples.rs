//! One sample for each variant of each enum that a type can hold. The shortest way to a variant is taken; elsewhere in
//! the sample every enum has its first variant, every option a value, and every list one element.

use super::choice::{Choice, EnumKind};
use super::refusal::Refusal;
use super::run::{Invented, Last, Run};
use super::tagged::Tagged;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Tries for one sample; a tagged enum needs some for each of its fields.
const TRIES_MAX: usize = 2000;

/// A sample, and what it is for.
#[derive(Debug)]
pub struct Sample<T> {
    /// The variants that were taken in it, outermost first; the first ones elsewhere.
    pub path: Vec<Choice>,
    /// The variants of which it is the sample: the last of the path, and first ones that were met nowhere before.
    pub shown: Vec<Choice>,
    pub value: T,
}

/// What was sampled so far, and what was learned by it.
#[derive(Debug, Default)]
pub struct Samples {
    texts: Vec<&'static str>,
    tagged: BTreeMap<String, Tagged>,
    met: BTreeSet<EnumKind>,
    sampled: BTreeSet<Choice>,
}

impl Samples {
    /// With texts to try where a type refuses the name of its field.
    pub fn trying(texts: &[&'static str]) -> Self {
        Self {
            texts: texts.to_vec(),
            ..Self::default()
        }
    }

    /// Samples of a type. Enums that were met before, also in another type, are not gone through again.
    pub fn of<T: DeserializeOwned>(&mut self) -> Vec<Sample<T>> {
        let mut found = Vec::new();
        let mut paths = VecDeque::from([Vec::new()]);
        while let Some(path) = paths.pop_front() {
            let (value, met) = self.sample::<T>(&path);
            let mut shown: Vec<Choice> = path.last().cloned().into_iter().collect();
            for (choice, above) in met {
                if self.met.insert(choice.of.clone()) {
                    let others = choice.all().filter(|other| *other != choice);
                    paths.extend(others.map(|other| [above.clone(), vec![other]].concat()));
                    shown.push(choice);
                }
            }
            self.sampled.extend(shown.iter().cloned());
            found.push(Sample { path, shown, value });
        }
        found
    }

    /// How many variants were sampled.
    pub fn count(&self) -> usize {
        self.sampled.len()
    }

    /// The enums that were met.
    pub fn enums(&self) -> impl Iterator<Item = &EnumKind> {
        self.met.iter()
    }

    /// Variants of enums that were met of which there is no sample.
    pub fn missing(&self) -> Vec<Choice> {
        let all = self.met.iter().flat_map(EnumKind::choices);
        all.filter(|choice| !self.sampled.contains(choice)).collect()
    }

    fn sample<T: DeserializeOwned>(&mut self, path: &[Choice]) -> (T, Vec<(Choice, Vec<Choice>)>) {
        let mut refused = BTreeMap::new();
        for _ in 0..TRIES_MAX {
            let mut run = Run::new(path, &refused, &self.tagged, &self.texts);
            let name = String::new();
            let made = T::deserialize(Invented { run: &mut run, name });
            let (taken, last) = (run.taken, run.last.take());
            let met = run.met;
            match made {
                Ok(value) => {
                    assert_eq!(
                        taken,
                        path.len(),
                        "{} has no way to {path:?}",
                        std::any::type_name::<T>()
                    );
                    return (value, met);
                }
                Err(refusal) => assert!(
                    self.learn(last, &refusal, &mut refused),
                    "no sample of {} with {path:?}: {refusal}; give a text that its type accepts, or teach the \
                     generator",
                    std::any::type_name::<T>()
                ),
            }
        }
        panic!(
            "no sample of {} with {path:?} after {TRIES_MAX} tries",
            std::any::type_name::<T>()
        );
    }

    fn learn(&mut self, last: Option<Last>, refusal: &Refusal, refused: &mut BTreeMap<usize, usize>) -> bool {
        match last {
            Some(Last::Leaf(number)) => {
                let count = refused.entry(number).or_default();
                *count += 1;
                matches!(refusal, Refusal::Custom(_) | Refusal::Expected(_) | Refusal::Length(_))
                    && *count <= self.texts.len().max(2)
            }
            Some(Last::Tagged(name, variant)) => {
                self.tagged
                    .entry(name)
                    .or_default()
                    .learn(variant, refusal, &self.texts)
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Outer {
        Nothing,
        One(Inner),
        Fields {
            first: u32,
            second: u32,
            inner: Option<Inner>,
        },
        List(Vec<(Colour, String)>),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Inner {
        A,
        B(Colour),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Colour {
        Red,
        Blue,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Told {
        Plain,
        Detailed {
            name: Letter,
            pairs: Vec<(String, f64)>,
            so_many: Option<u32>,
        },
        Boxed(Box<Detail>),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Detail {
        is_so: bool,
        code: i32,
        last: Mood,
        more: More,
        after: u64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct More {
        depth: u8,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mood {
        Good,
        Bad,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "String")]
    struct Letter(char);

    impl TryFrom<String> for Letter {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            match text.chars().collect::<Vec<_>>()[..] {
                [letter] => Ok(Self(letter)),
                _ => Err(format!("{text} is no letter")),
            }
        }
    }

    #[test]
    fn each_variant_of_each_enum_has_a_sample_that_holds_it() {
        let mut samples = Samples::default();
        let found = samples.of::<Outer>();
        let shown = found.iter().map(|sample| {
            sample
                .shown
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        });
        let wanted = [
            "Outer::Nothing",
            "Outer::One Inner::A",
            "Outer::Fields",
            "Outer::List Colour::Red",
            "Inner::B",
            "Colour::Blue",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), wanted);
        assert!(samples.missing().is_empty() && samples.count() == 8);
        let list = Outer::List(vec![(Colour::Blue, "List01".to_owned())]);
        assert!(found.iter().any(|sample| sample.value == list), "{found:?}");
        assert!(
            found
                .iter()
                .any(|sample| sample.value == Outer::One(Inner::B(Colour::Red)))
        );
    }

    #[test]
    fn fields_of_a_sample_differ() {
        let found = Samples::default().of::<Outer>();
        assert!(found.iter().any(|sample| matches!(
            sample.value,
            Outer::Fields { first, second, inner: Some(_) } if first != second
        )));
    }

    #[test]
    fn a_tagged_enum_is_learned_from_what_it_refuses() {
        let mut samples = Samples::trying(&["n0", "x"]);
        let found = samples.of::<Told>();
        assert_eq!((samples.count(), found.len()), (3, 3));
        assert!(found.iter().any(|sample| sample.value == Told::Plain));
        assert!(found.iter().any(|sample| matches!(
            &sample.value,
            Told::Detailed { name: Letter('x'), pairs, so_many: None } if pairs.len() == 1
        )));
        assert!(
            found
                .iter()
                .any(|sample| matches!(&sample.value, Told::Boxed(detail) if detail.after > u64::MAX / 2))
        );
    }

    #[test]
    #[should_panic(expected = "teach the generator")]
    fn a_type_without_a_sample_is_named() {
        Samples::default().of::<Letter>();
    }
}
