//! Request methods.

use core::fmt;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// A request method. Methods are case-sensitive (RFC 3261 section 7.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method<'a> {
            $($(#[$doc])* $name,)*
            /// An unknown method.
            Other(&'a [u8]),
        }

        impl<'a> Method<'a> {
            /// The method with this name.
            #[must_use]
            pub fn new(bytes: &'a [u8]) -> Self {
                $(if bytes == $text { return Self::$name; })*
                Self::Other(bytes)
            }

            /// The name of the method.
            #[must_use]
            pub const fn as_bytes(self) -> &'a [u8] {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(bytes) => bytes,
                }
            }
        }
    };
}

methods! {
    /// RFC 3261.
    Invite = b"INVITE",
    /// RFC 3261.
    Ack = b"ACK",
    /// RFC 3261.
    Bye = b"BYE",
    /// RFC 3261.
    Cancel = b"CANCEL",
    /// RFC 3261.
    Register = b"REGISTER",
    /// RFC 3261.
    Options = b"OPTIONS",
    /// RFC 3262.
    Prack = b"PRACK",
    /// RFC 3311.
    Update = b"UPDATE",
    /// RFC 6086.
    Info = b"INFO",
    /// RFC 3428.
    Message = b"MESSAGE",
    /// RFC 6665.
    Subscribe = b"SUBSCRIBE",
    /// RFC 6665.
    Notify = b"NOTIFY",
    /// RFC 3903.
    Publish = b"PUBLISH",
    /// RFC 3515.
    Refer = b"REFER",
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}
