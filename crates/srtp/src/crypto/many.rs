//! HMACs of many messages at once.

use super::hmac::Code;
use super::messages::{LANES, Message};

/// The code of each message present, at its index.
pub(crate) fn codes(messages: &[Option<Message<'_>>; LANES]) -> [Code; LANES] {
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    if let Some(codes) = super::lanes::codes(messages) {
        return codes;
    }
    let code = |message: &Message<'_>| message.hmac.code(message.data, &message.more);
    messages.each_ref().map(|message| message.as_ref().map_or([0; 20], code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::HmacSha1;
    use core::array;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn codes_of_many_equal_single_codes(
            messages in proptest::array::uniform16(proptest::option::weighted(0.8, (
                any::<[u8; 20]>(),
                proptest::collection::vec(any::<u8>(), 0..300),
                any::<[u8; 4]>(),
            ))),
        ) {
            let keys = messages.each_ref().map(|one| {
                HmacSha1::new(one.as_ref().map_or(&[][..], |(key, ..)| key))
            });
            let messages = array::from_fn(|lane| {
                let (_, data, more) = messages[lane].as_ref()?;
                Some(Message { hmac: &keys[lane], data, more: *more })
            });
            for (message, code) in messages.iter().zip(codes(&messages)) {
                if let Some(Message { hmac, data, more }) = message {
                    prop_assert_eq!(hmac.code(data, more), code);
                }
            }
        }
    }
}
