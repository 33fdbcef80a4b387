//! Reads values out of MessagePack, as `rmp_serde` writes it. What is read is decided in one function that knows no
//! type: what each type adds is small, and there are hundreds. Never believes a length before that much is there.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use std::fmt;

/// Nesting of a value; real ones stay below ten, and the stack used grows with it.
const DEPTH_MAX: u16 = 64;

const NIL: u8 = 0xc0;

/// Why bytes are not the value that was expected.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("it ends inside a value")]
    Short,
    #[error("nothing that is sent begins with the byte {0:#04x}")]
    UnknownMark(u8),
    #[error("a list or map of {length} where {taken} were expected")]
    TooLong { length: u32, taken: u32 },
    #[error("a map of {0} entries where one variant was expected")]
    NotOneVariant(u32),
    #[error("values are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("{0}")]
    Unexpected(String),
}

impl serde::de::Error for UnpackError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Unexpected(message.to_string())
    }
}

/// Reads a value whose structs are lists.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, UnpackError> {
    first(bytes).map(|(value, _)| value)
}

/// As [`from_slice`], with the bytes after the value.
pub fn first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), UnpackError> {
    let mut unpacker = Unpacker::<false>::new(bytes);
    let value = T::deserialize(&mut unpacker)?;
    Ok((value, unpacker.rest))
}

/// Reads a value whose structs may be maps by name too, which a newer program may have given more fields.
pub fn from_slice_named<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, UnpackError> {
    T::deserialize(&mut Unpacker::<true>::new(bytes))
}

/// One value, or how many follow that belong to it.
#[derive(Clone, Copy, Debug)]
enum Token<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    List(u32),
    Map(u32),
}

impl Token<'_> {
    #[cold]
    fn refused(self) -> UnpackError {
        let found = match self {
            Self::Nil => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(value),
            Self::Unsigned(value) => Unexpected::Unsigned(value),
            Self::Signed(value) => Unexpected::Signed(value),
            Self::Float(value) => Unexpected::Float(value),
            Self::Text(text) => Unexpected::Str(text),
            Self::Bytes(bytes) => Unexpected::Bytes(bytes),
            Self::List(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
        };
        UnpackError::invalid_type(found, &"a value of another kind")
    }
}

/// See the file head. `NAMED` says whether a struct may be a map.
struct Unpacker<'de, const NAMED: bool> {
    rest: &'de [u8],
    depth: u16,
}

impl<'de, const NAMED: bool> Unpacker<'de, NAMED> {
    fn new(rest: &'de [u8]) -> Self {
        Self { rest, depth: 0 }
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8], UnpackError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(UnpackError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], UnpackError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(UnpackError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn length(&mut self, bytes: u8) -> Result<u32, UnpackError> {
        Ok(match bytes {
            1 => u8::from_be_bytes(self.number()?).into(),
            2 => u16::from_be_bytes(self.number()?).into(),
            _ => u32::from_be_bytes(self.number()?),
        })
    }

    fn text(&mut self, length: u32) -> Result<Token<'de>, UnpackError> {
        let bytes = self.take(length as usize)?;
        // What is no UTF-8 can be bytes of a type that takes both.
        Ok(std::str::from_utf8(bytes).map_or(Token::Bytes(bytes), Token::Text))
    }

    #[inline(never)]
    fn token(&mut self) -> Result<Token<'de>, UnpackError> {
        let [mark] = self.number()?;
        Ok(match mark {
            0x00..=0x7f => Token::Unsigned(mark.into()),
            0x80..=0x8f => Token::Map((mark & 0x0f).into()),
            0x90..=0x9f => Token::List((mark & 0x0f).into()),
            0xa0..=0xbf => return self.text((mark & 0x1f).into()),
            NIL => Token::Nil,
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (mark - 0xc4))?;
                Token::Bytes(self.take(length as usize)?)
            }
            0xca => Token::Float(f32::from_be_bytes(self.number()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.number()?)),
            0xcc => Token::Unsigned(u8::from_be_bytes(self.number()?).into()),
            0xcd => Token::Unsigned(u16::from_be_bytes(self.number()?).into()),
            0xce => Token::Unsigned(u32::from_be_bytes(self.number()?).into()),
            0xcf => Token::Unsigned(u64::from_be_bytes(self.number()?)),
            0xd0 => Token::Signed(i8::from_be_bytes(self.number()?).into()),
            0xd1 => Token::Signed(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Token::Signed(i32::from_be_bytes(self.number()?).into()),
            0xd3 => Token::Signed(i64::from_be_bytes(self.number()?)),
            0xd9..=0xdb => {
                let length = self.length(1 << (mark - 0xd9))?;
                return self.text(length);
            }
            0xdc | 0xdd => Token::List(self.length(if mark == 0xdc { 2 } else { 4 })?),
            0xde | 0xdf => Token::Map(self.length(if mark == 0xde { 2 } else { 4 })?),
            0xe0..=0xff => Token::Signed(mark.cast_signed().into()),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(UnpackError::UnknownMark(mark)),
        })
    }

    fn go_in(&mut self) -> Result<(), UnpackError> {
        self.depth += 1;
        if self.depth == DEPTH_MAX {
            return Err(UnpackError::TooDeep);
        }
        Ok(())
    }

    fn list<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, UnpackError> {
        self.go_in()?;
        let mut items = Items {
            unpacker: self,
            left: length,
        };
        let value = visitor.visit_seq(&mut items)?;
        let left = items.left;
        self.come_out(length, left)?;
        Ok(value)
    }

    fn map<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, UnpackError> {
        self.go_in()?;
        let mut items = Items {
            unpacker: self,
            left: length,
        };
        let value = visitor.visit_map(&mut items)?;
        let left = items.left;
        self.come_out(length, left)?;
        Ok(value)
    }

    fn come_out(&mut self, length: u32, left: u32) -> Result<(), UnpackError> {
        self.depth -= 1;
        match left {
            0 => Ok(()),
            _ => Err(UnpackError::TooLong {
                length,
                taken: length - left,
            }),
        }
    }

    fn numeric<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            other => Err(other.refused()),
        }
    }

    fn stringlike<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            other => Err(other.refused()),
        }
    }

    fn listed<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::List(length) => self.list(length, visitor),
            other => Err(other.refused()),
        }
    }
}

macro_rules! read_as {
    ($method:ident: $($name:ident)*) => {
        $(
            fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
                self.$method(visitor)
            }
        )*
    };
}

impl<'de, const NAMED: bool> Deserializer<'de> for &mut Unpacker<'de, NAMED> {
    type Error = UnpackError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::List(length) => self.list(length, visitor),
            Token::Map(length) => self.map(length, visitor),
        }
    }

    read_as!(numeric: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16
        deserialize_i32 deserialize_i64 deserialize_f32 deserialize_f64);
    read_as!(stringlike: deserialize_char deserialize_str deserialize_string);
    read_as!(listed: deserialize_seq);

    serde::forward_to_deserialize_any! { bytes byte_buf ignored_any }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            other => Err(other.refused()),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            other => Err(other.refused()),
        }
    }

    /// An empty list too: so it is written.
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Nil | Token::List(0) => visitor.visit_unit(),
            other => Err(other.refused()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.rest.split_first() {
            Some((&NIL, rest)) => {
                self.rest = rest;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, UnpackError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, UnpackError> {
        self.listed(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, UnpackError> {
        self.listed(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Map(length) => self.map(length, visitor),
            other => Err(other.refused()),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::List(length) => self.list(length, visitor),
            Token::Map(length) if NAMED => self.map(length, visitor),
            other => Err(other.refused()),
        }
    }

    /// A map of one entry, from the variant to what it holds; a variant that holds nothing by itself.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnpackError> {
        let begun = self.rest;
        match self.token()? {
            Token::Map(1) => visitor.visit_enum(Variant {
                unpacker: self,
                holds: true,
            }),
            Token::Map(length) => Err(UnpackError::NotOneVariant(length)),
            _ => {
                self.rest = begun;
                visitor.visit_enum(Variant {
                    unpacker: self,
                    holds: false,
                })
            }
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnpackError> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            other => Err(other.refused()),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// What is left of a list or map.
struct Items<'a, 'de, const NAMED: bool> {
    unpacker: &'a mut Unpacker<'de, NAMED>,
    left: u32,
}

impl<'de, const NAMED: bool> SeqAccess<'de> for Items<'_, 'de, NAMED> {
    type Error = UnpackError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, UnpackError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.unpacker).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        usize::try_from(self.left).ok()
    }
}

impl<'de, const NAMED: bool> MapAccess<'de> for Items<'_, 'de, NAMED> {
    type Error = UnpackError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, UnpackError> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, UnpackError> {
        seed.deserialize(&mut *self.unpacker)
    }

    fn size_hint(&self) -> Option<usize> {
        usize::try_from(self.left).ok()
    }
}

/// A variant, and whether what it holds follows.
struct Variant<'a, 'de, const NAMED: bool> {
    unpacker: &'a mut Unpacker<'de, NAMED>,
    holds: bool,
}

impl<const NAMED: bool> Variant<'_, '_, NAMED> {
    fn must_hold(&self) -> Result<(), UnpackError> {
        if self.holds {
            return Ok(());
        }
        Err(UnpackError::invalid_type(
            Unexpected::UnitVariant,
            &"a variant with something in it",
        ))
    }
}

impl<'de, const NAMED: bool> EnumAccess<'de> for Variant<'_, 'de, NAMED> {
    type Error = UnpackError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), UnpackError> {
        let variant = seed.deserialize(&mut *self.unpacker)?;
        Ok((variant, self))
    }
}

impl<'de, const NAMED: bool> VariantAccess<'de> for Variant<'_, 'de, NAMED> {
    type Error = UnpackError;

    fn unit_variant(self) -> Result<(), UnpackError> {
        if !self.holds {
            return Ok(());
        }
        match self.unpacker.token()? {
            Token::Nil => Ok(()),
            other => Err(other.refused()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, UnpackError> {
        self.must_hold()?;
        seed.deserialize(self.unpacker)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, UnpackError> {
        self.must_hold()?;
        self.unpacker.listed(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnpackError> {
        self.must_hold()?;
        self.unpacker.deserialize_struct("", fields, visitor)
    }
}
