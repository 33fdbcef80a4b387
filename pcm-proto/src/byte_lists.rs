//! How lists of byte strings (arguments, environments) travel: each string as one piece, where serde by itself would
//! send every byte as a number of its own.

/// For `Vec<Vec<u8>>`: `#[serde(with = "crate::byte_lists::strings")]`.
pub mod strings {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_bytes::{ByteBuf, Bytes};

    /// Writes the list.
    pub fn serialize<S: Serializer>(list: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|string| Bytes::new(string)))
    }

    /// Reads the list.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let list = Vec::<ByteBuf>::deserialize(deserializer)?;
        Ok(list.into_iter().map(ByteBuf::into_vec).collect())
    }
}

/// For `Vec<(Vec<u8>, Vec<u8>)>`: `#[serde(with = "crate::byte_lists::pairs")]`.
pub mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_bytes::{ByteBuf, Bytes};

    type Pair = (Vec<u8>, Vec<u8>);

    /// Writes the list.
    pub fn serialize<S: Serializer>(list: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|(name, value)| (Bytes::new(name), Bytes::new(value))))
    }

    /// Reads the list.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pair>, D::Error> {
        let list = Vec::<(ByteBuf, ByteBuf)>::deserialize(deserializer)?;
        Ok(list
            .into_iter()
            .map(|(name, value)| (name.into_vec(), value.into_vec()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Lists {
        #[serde(with = "super::strings")]
        args: Vec<Vec<u8>>,
        #[serde(with = "super::pairs")]
        env: Vec<(Vec<u8>, Vec<u8>)>,
    }

    #[test]
    fn any_bytes_come_back_and_take_about_one_byte_each() {
        let any: Vec<u8> = (0..=255).collect();
        let lists = Lists {
            args: vec![any.clone(), vec![]],
            env: vec![(b"NAME".to_vec(), any)],
        };
        let bytes = rmp_serde::to_vec(&lists).unwrap();
        assert_eq!(rmp_serde::from_slice::<Lists>(&bytes).unwrap(), lists);
        assert!(bytes.len() < 540, "{}", bytes.len());
    }
}
