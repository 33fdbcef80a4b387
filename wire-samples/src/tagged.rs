//! Enums whose variant is told by a field (`#[serde(tag = "…")]`). Serde asks for any value there and looks at it
//! later, so what the enum wants is learned from what it refuses, one step at a time.

use super::leaf;
use super::refusal::Refusal;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::collections::BTreeMap;

/// What is known of one such enum.
#[derive(Debug, Default)]
pub(crate) struct Tagged {
    /// The field that tells the variant.
    pub(crate) key: Option<&'static str>,
    pub(crate) variants: Option<&'static [&'static str]>,
    /// The other fields, by variant.
    pub(crate) contents: BTreeMap<&'static str, Tree>,
}

/// A value of any type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// An empty one is also a value of which nothing is known: every type but a struct refuses it and says what it
    /// wants.
    Map(Vec<(String, Tree)>),
    Seq(Vec<Tree>),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    /// A text, and how many before it were refused.
    Text(String, usize),
    /// A variant that is none, to hear which there are.
    NoVariant,
}

const UNKNOWN: Tree = Tree::Map(Vec::new());

impl Tagged {
    /// Takes in what was refused of a sample of this variant; false where that teaches nothing.
    pub(crate) fn learn(&mut self, variant: Option<&'static str>, refusal: &Refusal, texts: &[&str]) -> bool {
        match (variant, refusal) {
            (None, Refusal::MissingField(key)) if self.key.is_none() => self.key = Some(key),
            (None, Refusal::UnknownVariant(variants)) => self.variants = Some(variants),
            (Some(variant), _) => {
                let content = self.contents.entry(variant).or_insert(UNKNOWN);
                return content.learn("", refusal, texts);
            }
            _ => return false,
        }
        true
    }
}

impl Tree {
    /// What was refused is what came last.
    fn learn(&mut self, name: &str, refusal: &Refusal, texts: &[&str]) -> bool {
        match (self, refusal) {
            (Self::Map(fields), Refusal::MissingField(missing)) => {
                let below = fields.last_mut();
                let taken = below.is_some_and(|(name, value)| value.learn(name, refusal, texts));
                // A struct that is complete gets fields of the one around it, which serde passes over, but once each.
                let is_new = name != *missing && fields.iter().all(|(name, _)| name != missing);
                if !taken && is_new {
                    fields.push(((*missing).to_owned(), UNKNOWN));
                }
                taken || is_new
            }
            (Self::Map(fields), _) if !fields.is_empty() => fields
                .last_mut()
                .is_some_and(|(name, value)| value.learn(name, refusal, texts)),
            (Self::Seq(items), Refusal::Length(_)) => {
                let inner = items.last_mut();
                if !inner.is_some_and(|item| item.learn(name, refusal, texts)) {
                    items.push(UNKNOWN);
                }
                true
            }
            (Self::Seq(items), _) => {
                let name = format!("{name}{}", items.len());
                items.last_mut().is_some_and(|item| item.learn(&name, refusal, texts))
            }
            (this @ Self::Map(_), Refusal::Expected(what)) => {
                let wanted = Self::wanted(name, what);
                wanted.map(|wanted| *this = wanted).is_some()
            }
            (this @ Self::NoVariant, Refusal::UnknownVariant(variants)) => {
                *this = Self::Text(variants[0].to_owned(), 0);
                true
            }
            (Self::Text(text, refused), Refusal::Custom(_)) => {
                *refused += 1;
                leaf::text(name, texts, *refused).map(|next| *text = next).is_some()
            }
            _ => false,
        }
    }

    /// The value for what serde calls so.
    fn wanted(name: &str, what: &str) -> Option<Self> {
        let bits = |name: &str| name[1..].replace("size", "64").parse().ok();
        Some(match what {
            "u8" | "u16" | "u32" | "u64" | "usize" => Self::Unsigned(leaf::unsigned(name, bits(what)?, 0)?),
            "i8" | "i16" | "i32" | "i64" | "isize" => Self::Signed(leaf::signed(name, bits(what)?, 0)?),
            "f32" | "f64" => Self::Float(leaf::float(name)),
            "a boolean" => Self::Bool(leaf::boolean(name)),
            "a string" | "path string" => Self::Text(name.to_owned(), 0),
            "a sequence" => Self::Seq(vec![UNKNOWN]),
            "map with a single key" | "string or map" => Self::NoVariant,
            _ if what.starts_with("a tuple of") || what.starts_with("an array of") => Self::Seq(vec![UNKNOWN]),
            _ => return None,
        })
    }

    /// Its fields; none where it has none.
    pub(crate) fn fields(&self) -> &[(String, Tree)] {
        match self {
            Self::Map(fields) => fields,
            _ => &[],
        }
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for &Tree {
    type Deserializer = Given;

    fn into_deserializer(self) -> Given {
        Given(self.clone())
    }
}

/// A tree that is read.
pub(crate) struct Given(Tree);

impl<'de> IntoDeserializer<'de, Refusal> for Given {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0 {
            Tree::Map(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Given(value)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
            Tree::Seq(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Given))),
            Tree::Unsigned(number) => visitor.visit_u64(number),
            Tree::Signed(number) => visitor.visit_i64(number),
            Tree::Float(number) => visitor.visit_f64(number),
            Tree::Bool(value) => visitor.visit_bool(value),
            Tree::Text(text, _) => visitor.visit_string(text),
            Tree::NoVariant => visitor.visit_string("?".to_owned()),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
