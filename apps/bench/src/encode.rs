//! The JSON form of values of other crates.

/// Durations in microseconds.
pub(crate) mod micros {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use sip::Duration;

    pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(span.as_micros())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// Transports by their names.
pub(crate) mod transport {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use sip::Transport;

    pub(crate) fn serialize<S: Serializer>(
        transport: &Transport,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(transport.uri_name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transport, D::Error> {
        let name = String::deserialize(from)?;
        Transport::parse(name.as_bytes())
            .ok_or_else(|| D::Error::custom(format!("{name} is no transport")))
    }
}

/// Values that are written and read as text.
pub(crate) mod text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
