//! One pass over a type: a deserializer that invents what it is asked for, takes the variants it is told to take, and
//! notes which enums it met.

use super::choice::{Choice, EnumKind};
use super::leaf;
use super::refusal::Refusal;
use super::tagged::{Given, Tagged, Tree};
use serde::de::value::MapDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::collections::BTreeMap;

/// Enums within each other: real messages stay below ten, a type that contains itself would not end.
const DEPTH_MAX: usize = 32;

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// The leaf of this number.
    Leaf(usize),
    /// The enum of this name, with this variant if one was chosen.
    Tagged(String, Option<&'static str>),
}

/// The state of one pass.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Variants to take, outermost first; elsewhere the first is taken.
    pub(crate) path: &'a [Choice],
    /// How many of them were taken.
    pub(crate) taken: usize,
    above: Vec<Choice>,
    /// The variants taken, each with those it is below.
    pub(crate) met: Vec<(Choice, Vec<Choice>)>,
    leaves: usize,
    pub(crate) last: Option<Last>,
    /// How many values of a leaf were refused before, by its number.
    refused: &'a BTreeMap<usize, usize>,
    tagged: &'a BTreeMap<String, Tagged>,
    /// Texts that are tried where the name of a field is refused.
    texts: &'a [&'a str],
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        path: &'a [Choice],
        refused: &'a BTreeMap<usize, usize>,
        tagged: &'a BTreeMap<String, Tagged>,
        texts: &'a [&'a str],
    ) -> Self {
        Self {
            path,
            taken: 0,
            above: Vec::new(),
            met: Vec::new(),
            leaves: 0,
            last: None,
            refused,
            tagged,
            texts,
        }
    }

    /// How many values of the next leaf were refused before.
    fn leaf(&mut self) -> usize {
        let number = self.leaves;
        self.leaves += 1;
        self.last = Some(Last::Leaf(number));
        self.refused.get(&number).copied().unwrap_or(0)
    }

    fn choose(&mut self, of: EnumKind) -> Choice {
        assert!(self.above.len() < DEPTH_MAX, "enum {} contains itself", of.name);
        let wanted = self.path.get(self.taken).filter(|choice| choice.of == of);
        let choice = match wanted {
            Some(choice) => choice.clone(),
            None => Choice { of, index: 0 },
        };
        self.taken += usize::from(wanted.is_some());
        self.met.push((choice.clone(), self.above.clone()));
        choice
    }
}

/// A value of the pass, named after its field.
pub(crate) struct Invented<'r, 'a> {
    pub(crate) run: &'r mut Run<'a>,
    pub(crate) name: String,
}

impl<'r, 'a> Invented<'r, 'a> {
    /// A leaf; `make` gets its name and how many values were refused before.
    fn leaf<T>(&mut self, make: impl FnOnce(&str, &[&str], usize) -> Option<T>) -> Result<T, Refusal> {
        let refused = self.run.leaf();
        let made = make(&self.name, self.run.texts, refused);
        made.ok_or_else(|| Refusal::Custom(format!("{} takes none of the values that were tried", self.name)))
    }

    fn unsigned(&mut self, bits: u32) -> Result<u64, Refusal> {
        self.leaf(|name, _, refused| leaf::unsigned(name, bits, refused))
    }

    fn signed(&mut self, bits: u32) -> Result<i64, Refusal> {
        self.leaf(|name, _, refused| leaf::signed(name, bits, refused))
    }

    fn text(&mut self) -> Result<String, Refusal> {
        self.leaf(leaf::text)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Refusal> {
        self.leaf(|name, _, refused| leaf::bytes(name, refused))
    }

    /// So many values, named after this one.
    fn numbered(self, count: usize) -> Parts<'r, 'a> {
        let names = (0..count).map(|number| format!("{}{number}", self.name));
        Parts {
            left: names.collect::<Vec<_>>().into_iter(),
            run: self.run,
            name: String::new(),
        }
    }

    fn fields(self, fields: &[&str]) -> Parts<'r, 'a> {
        let names: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        Parts {
            left: names.into_iter(),
            run: self.run,
            name: String::new(),
        }
    }

    /// An enum whose variant is told by a field.
    fn tagged<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let wanted = (&visitor as &dyn Expected).to_string();
        let name = wanted.rsplit(' ').next().unwrap_or_default().to_owned();
        self.run.last = Some(Last::Tagged(name.clone(), None));
        let known = self.run.tagged.get(&name);
        let (Some(key), variants) = known.map_or((None, None), |known| (known.key, known.variants)) else {
            return visitor.visit_map(MapDeserializer::new(std::iter::empty::<(String, Given)>()));
        };
        let Some(variants) = variants else {
            return visitor.visit_map(MapDeserializer::new([(key, &Tree::NoVariant)].into_iter()));
        };
        let variant = self
            .run
            .choose(EnumKind {
                name: name.clone(),
                variants,
            })
            .variant();
        self.run.last = Some(Last::Tagged(name, Some(variant)));
        let contents = known.and_then(|known| known.contents.get(variant));
        let fields = contents.map(Tree::fields).unwrap_or_default();
        let tag = Tree::Text(variant.to_owned(), 0);
        let all = [(key, &tag)]
            .into_iter()
            .chain(fields.iter().map(|(name, value)| (name.as_str(), value)));
        visitor.visit_map(MapDeserializer::new(all))
    }
}

impl<'de> Deserializer<'de> for Invented<'_, '_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.tagged(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        let value = self.leaf(|name, _, _| Some(leaf::boolean(name)))?;
        visitor.visit_bool(value)
    }

    fn deserialize_i8<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_i64(self.signed(8)?)
    }

    fn deserialize_i16<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_i64(self.signed(16)?)
    }

    fn deserialize_i32<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_i64(self.signed(32)?)
    }

    fn deserialize_i64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_i64(self.signed(64)?)
    }

    fn deserialize_u8<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u64(self.unsigned(8)?)
    }

    fn deserialize_u16<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u64(self.unsigned(16)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u64(self.unsigned(32)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_u64(self.unsigned(64)?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        let value = self.leaf(|name, _, _| Some(leaf::float(name)))?;
        visitor.visit_f64(value)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_char('c')
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_byte_buf(self.bytes()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_seq(self.numbered(1))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_seq(self.numbered(length))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_seq(self.numbered(length))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let name = Some(self.name);
        visitor.visit_map(Entry { run: self.run, name })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_map(self.fields(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let name = name.to_owned();
        let choice = self.run.choose(EnumKind { name, variants });
        visitor.visit_enum(Chosen { run: self.run, choice })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_string(self.name)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_unit()
    }
}

/// The elements of a list, or the fields of a struct.
struct Parts<'r, 'a> {
    run: &'r mut Run<'a>,
    left: std::vec::IntoIter<String>,
    /// The field whose value comes next.
    name: String,
}

impl<'de> SeqAccess<'de> for Parts<'_, '_> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        let next = self.left.next();
        let next = next.map(|name| seed.deserialize(Invented { run: self.run, name }));
        next.transpose()
    }
}

impl<'de> MapAccess<'de> for Parts<'_, '_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let Some(name) = self.left.next() else {
            return Ok(None);
        };
        self.name.clone_from(&name);
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let name = std::mem::take(&mut self.name);
        seed.deserialize(Invented { run: self.run, name })
    }
}

/// The one entry of a map.
struct Entry<'r, 'a> {
    run: &'r mut Run<'a>,
    /// Its name, until the key was read.
    name: Option<String>,
}

impl<'de> MapAccess<'de> for Entry<'_, '_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let key = self.name.take().map(|name| {
            seed.deserialize(Invented {
                run: self.run,
                name: format!("{name}-key"),
            })
        });
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        seed.deserialize(Invented {
            run: self.run,
            name: "value".to_owned(),
        })
    }
}

/// A variant with what it carries.
struct Chosen<'r, 'a> {
    run: &'r mut Run<'a>,
    choice: Choice,
}

impl<'r, 'a> Chosen<'r, 'a> {
    /// Does `within` to what the variant carries; what is met there is below it.
    fn below<T>(self, within: impl FnOnce(Invented<'_, 'a>) -> T) -> T {
        let name = self.choice.variant().to_owned();
        self.run.above.push(self.choice);
        let value = within(Invented { run: self.run, name });
        self.run.above.pop();
        value
    }
}

impl<'de> EnumAccess<'de> for Chosen<'_, '_> {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refusal> {
        let variant = seed.deserialize(self.choice.variant().into_deserializer())?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_, '_> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refusal> {
        self.below(|invented| seed.deserialize(invented))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.below(|invented| visitor.visit_seq(invented.numbered(length)))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refusal> {
        self.below(|invented| visitor.visit_map(invented.fields(fields)))
    }
}
