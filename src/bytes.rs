//! Bytes that need not be text, in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// As text where they are UTF-8, else in base64.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
enum Encoded<T> {
    Text(T),
    Base64(T),
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Encoded::Text(text).serialize(serializer),
            Err(_) => Encoded::Base64(&*STANDARD.encode(&self.0)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        match Encoded::<String>::deserialize(deserializer)? {
            Encoded::Text(text) => Ok(Bytes(text.into_bytes())),
            Encoded::Base64(text) => STANDARD.decode(text).map(Bytes).map_err(D::Error::custom),
        }
    }
}
