//! Test vectors of the RFCs, in hexadecimal digits.

use crate::suite::Suite;
use std::vec::Vec;

/// Decodes hexadecimal digits.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| {
        u8::from_str_radix(&digits[at..at + 2], 16).expect("the digits are hexadecimal")
    };
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The key stream of AES in counter mode, from the block `first` on.
pub(crate) struct KeyStream {
    pub(crate) key: &'static str,
    pub(crate) first: &'static str,
    pub(crate) stream: &'static str,
}

/// RFC 3711 appendix B.2, RFC 6188 sections 7.3 and 7.1.
pub(crate) const KEY_STREAMS: [KeyStream; 4] = [
    KeyStream {
        key: "2b7e151628aed2a6abf7158809cf4f3c",
        first: "f0f1f2f3f4f5f6f7f8f9fafbfcfd0000",
        stream: "e03ead0935c95e80e166b16dd92b4eb4d23513162b02d0f72a43a2fe4a5f97ab41e95b3bb0a2e8dd\
            477901e4fca894c0",
    },
    KeyStream {
        key: "2b7e151628aed2a6abf7158809cf4f3c",
        first: "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        stream: "ec8cdf7398607cb0f2d21675ea9ea1e4362b7c3c6773516318a077d7fc5073ae6a2cc3787889374f\
            beb4c81b17ba6c44",
    },
    KeyStream {
        key: "eab234764e517b2d3d160d587d8c86219740f65f99b6bcf7",
        first: "f0f1f2f3f4f5f6f7f8f9fafbfcfd0000",
        stream: "35096cba4610028dc1b57503804ce37c5de986291dcce161d5165ec4568f5c9a",
    },
    KeyStream {
        key: "57f82fe3613fd170a85ec93c40b1f0922ec4cb0dc025b58272147cc438944a98",
        first: "f0f1f2f3f4f5f6f7f8f9fafbfcfd0000",
        stream: "92bdd28a93c3f52511c677d08b5515a49da71b2378a854f67050756ded165bac63c4868b7096d884\
            21b563b8c94c9a31",
    },
];

/// A message encrypted by AES in f8 mode.
pub(crate) struct F8Vector {
    pub(crate) key: &'static str,
    pub(crate) salt: &'static str,
    pub(crate) iv: &'static str,
    pub(crate) plain: &'static str,
    pub(crate) cipher: &'static str,
}

/// RFC 3711 appendix B.1.
pub(crate) const F8: F8Vector = F8Vector {
    key: "234829008467be186c3de14aae72d62c",
    salt: "32f2870d",
    iv: "006e5cba50681de55c621599d462564a",
    plain: "70736575646f72616e646f6d6e65737320697320746865206e6578742062657374207468696e67",
    cipher: "019ce7a26e7854014a6366aa95d4eefd1ad4172a14f9faf455b7f1d4b62bd08f562c0eef7c4802",
};

/// The session keys of a master key and salt.
pub(crate) struct Derived {
    pub(crate) master: &'static str,
    pub(crate) encryption: &'static str,
    pub(crate) salt: &'static str,
    /// A prefix of any length.
    pub(crate) authentication: &'static str,
}

/// RFC 3711 appendix B.3, RFC 6188 sections 7.2 and 7.4.
pub(crate) const DERIVED: [Derived; 3] = [
    Derived {
        master: "e1f97a0d3e018be0d64fa32c06de41390ec675ad498afeebb6960b3aabe6",
        encryption: "c61e7a93744f39ee10734afe3ff7a087",
        salt: "30cbbc08863d8c85d49db34a9ae1",
        authentication: "cebe321f6ff7716b6fd4ab49af256a156d38baa48f0a0acf3c34e2359e6cdbcee049646c43d9327a\
            d175578ef72270986371c10c9a369ac2f94a8c5fbcdddc256d6e919a48b610ef17c2041e47403576\
            6b68642c59bbfc2f34db60dbdfb2",
    },
    Derived {
        master: "f0f04914b513f2763a1b1fa130f10e2998f6f6e43e4309d1e622a0e332b9f1b63b04803de51ee7c9\
            6423ab5b78d2",
        encryption: "5ba1064e30ec51613cad926c5a28ef731ec7fb397f70a960653caf06554cd8c4",
        salt: "fa31791685ca444a9e07c6c64e93",
        authentication: "fd9c32d39ed5fbb5a9dc96b30818454d1313dc05",
    },
    Derived {
        master: "73edc66c4fa15776fb57f9505c17136550ffda71f3e8e5f1c8522f3acd4ce86d5add78edbb11",
        encryption: "31874736a8f1143870c26e4857d8a5b2c4a354407faadabb",
        salt: "2372b82d639b6d8503a47adc0a6c",
        authentication: "355b10973cd95b9eacf4061c7e1a7151e7cfbfcb",
    },
];

/// RFC 2202 section 3, with keys of at most one block: key, data, code.
pub(crate) const HMAC_SHA1: [[&str; 3]; 5] = [
    [
        "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
        "4869205468657265",
        "b617318655057264e28bc0b6fb378c8ef146be00",
    ],
    [
        "4a656665",
        "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    ],
    [
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd\
            dddddddddddddddddddd",
        "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
    ],
    [
        "0102030405060708090a0b0c0d0e0f10111213141516171819",
        "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd\
            cdcdcdcdcdcdcdcdcdcd",
        "4c9007f4026250c6bc8414f9bf50c86c2d7235da",
    ],
    [
        "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
        "546573742057697468205472756e636174696f6e",
        "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04",
    ],
];

/// Packets protected by AES-GCM.
pub(crate) struct GcmPackets {
    pub(crate) key: &'static str,
    pub(crate) rtp: &'static str,
    /// The encrypted packet.
    pub(crate) srtp: &'static str,
    /// The RTCP packet with the index [`GCM_RTCP_INDEX`].
    pub(crate) rtcp: &'static str,
    pub(crate) encrypted_rtcp: &'static str,
    /// The authenticated but unencrypted packet.
    pub(crate) tagged_rtcp: &'static str,
}

pub(crate) const GCM_SALT: &str = "517569642070726f2071756f";
pub(crate) const GCM_RTCP_INDEX: u32 = 0x5d4;

/// RFC 7714 sections 16 and 17.
pub(crate) const GCM: [GcmPackets; 2] = [
    GcmPackets {
        key: "000102030405060708090a0b0c0d0e0f",
        rtp: "8040f17b8041f8d35501a0b247616c6c696120657374206f6d6e69732064697669736120696e2070\
            61727465732074726573",
        srtp: "8040f17b8041f8d35501a0b2f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a\
            51c7d19b36de3adf8833899d7f27beb16a9152cf765ee4390cce",
        rtcp: "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeef\
            deadbeefdeadbeefdeadbeef",
        encrypted_rtcp: "81c8000d4d61727363e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda\
            4ce09b4686303ded0bb9275bc84aa45896cf4d2fc5abf87245d9eade800005d4",
        tagged_rtcp: "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeef\
            deadbeefdeadbeefdeadbeef841dd9683dd78ec92ae58790125f62b3000005d4",
    },
    GcmPackets {
        key: "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        rtp: "8040f17b8041f8d35501a0b247616c6c696120657374206f6d6e69732064697669736120696e2070\
            61727465732074726573",
        srtp: "8040f17b8041f8d35501a0b232b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a02\
            76ffae0f1ba63799b87b7aa3db36dfffd6b0f9bb7878d7a76c13",
        rtcp: "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeef\
            deadbeefdeadbeefdeadbeef",
        encrypted_rtcp: "81c8000d4d617273d50ae4d1f5ce5d304ba297e47d470c282c3ece5dbffe0a50a2eaa5c1110555be\
            8415f658c61de0476f1b6fad1d1eb30c4446839f57ff6f6cb26ac3be800005d4",
        tagged_rtcp: "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeef\
            deadbeefdeadbeefdeadbeef91db4afbfeee5a978fab4393ed2615fe000005d4",
    },
];

/// Packets of libsrtp with the master keys of RFC 3711 and RFC 6188: suite, key and salt, RTP
/// packet, SRTP packet.
pub(crate) const PACKETS: [(Suite, &str, &str, &str); 3] = [
    (
        Suite::AesCm128HmacSha1_80,
        "e1f97a0d3e018be0d64fa32c06de41390ec675ad498afeebb6960b3aabe6",
        "800f1234decafbadcafebabeabababababababababababababababab",
        "800f1234decafbadcafebabe4e55dc4ce79978d88ca4d215949d2402b78d6acc99ea179b8dbb",
    ),
    (
        Suite::AesCm192HmacSha1_80,
        "73edc66c4fa15776fb57f9505c17136550ffda71f3e8e5f1c8522f3acd4ce86d5add78edbb11",
        "800f0000decafbad00000000abababababababababababababababab",
        "800f0000decafbad00000000d98865552f2762c3ef37f837acfdb7122d6bc4dc84c76f74aea5",
    ),
    (
        Suite::AesCm256HmacSha1_80,
        "f0f04914b513f2763a1b1fa130f10e2998f6f6e43e4309d1e622a0e332b9f1b63b04803de51ee7c9\
            6423ab5b78d2",
        "800f1234decafbadcafebabeabababababababababababababababab",
        "800f1234decafbadcafebabef1d9de17ff251ff1aa007774b0b4b40da08d9d9a5b3a55d8873b",
    ),
];
