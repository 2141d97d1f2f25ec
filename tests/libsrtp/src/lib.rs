//! Bindings to libsrtp 2, loaded at run time, so that no build depends on it.
//!
//! The library is `libsrtp2.so.1` (Debian: `apt-get install libsrtp2-1`) or the file in the
//! variable `LIBSRTP`: another build, for example the one with OpenSSL in `_binding.abi3.so` of the
//! Python package `pylibsrtp` (which requires the library of Python in `LD_PRELOAD`).

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

/// The protection policy of a session.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The cipher.
    pub cipher: Cipher,
    /// The length of an RTP authentication tag in bytes: 4, 10 or 16. That of RTCP is 10 or 16.
    pub rtp_tag: usize,
    /// True if RTP is encrypted.
    pub encrypt_rtp: bool,
    /// True if RTCP is encrypted.
    pub encrypt_rtcp: bool,
    /// True if RTP is authenticated.
    pub authenticate_rtp: bool,
    /// The size of the replay window in packets.
    pub window: usize,
    /// The master keys.
    pub keys: Vec<Key>,
}

/// A master key with its salt.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key followed by the salt.
    pub bytes: Vec<u8>,
    /// The MKI, empty for a single key.
    pub mki: Vec<u8>,
}

/// A cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES in counter mode with this key length in bytes, and HMAC-SHA1.
    AesCm(usize),
    /// AES-GCM with this key length in bytes.
    AesGcm(usize),
}

/// An error status of libsrtp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub c_int);

impl Status {
    /// Authentication failed.
    pub const AUTHENTICATION: Self = Self(7);
    /// The packet was received before.
    pub const REPLAYED: Self = Self(9);
    /// The packet is older than the replay window.
    pub const TOO_OLD: Self = Self(10);
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CryptoPolicy {
    cipher_type: u32,
    cipher_key_len: c_int,
    auth_type: u32,
    auth_key_len: c_int,
    auth_tag_len: c_int,
    sec_serv: c_uint,
}

#[repr(C)]
struct RawMasterKey {
    key: *mut u8,
    mki_id: *mut u8,
    mki_size: c_uint,
}

#[repr(C)]
struct RawPolicy {
    ssrc_type: c_uint,
    ssrc_value: c_uint,
    rtp: CryptoPolicy,
    rtcp: CryptoPolicy,
    key: *mut u8,
    keys: *mut *mut RawMasterKey,
    num_master_keys: c_ulong,
    deprecated_ekt: *mut c_void,
    window_size: c_ulong,
    allow_repeat_tx: c_int,
    enc_xtn_hdr: *mut c_int,
    enc_xtn_hdr_count: c_int,
    next: *mut Self,
}

type Raw = *mut c_void;
type Work = unsafe extern "C" fn(Raw, *mut u8, *mut c_int, c_uint, c_uint) -> c_int;
type Check = unsafe extern "C" fn(Raw, *mut u8, *mut c_int, c_uint) -> c_int;

/// The imported functions.
struct Functions {
    create: unsafe extern "C" fn(*mut Raw, *const RawPolicy) -> c_int,
    dealloc: unsafe extern "C" fn(Raw) -> c_int,
    protect: Work,
    protect_rtcp: Work,
    unprotect: Check,
    unprotect_rtcp: Check,
    set_stream_roc: unsafe extern "C" fn(Raw, u32, u32) -> c_int,
    version: String,
    /// The library of the functions.
    _library: Library,
}

fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let path = std::env::var_os("LIBSRTP").unwrap_or_else(|| "libsrtp2.so.1".into());
        // SAFETY: loading libsrtp runs no code. Lazy binding, because a Python extension that
        // contains it refers to functions of Python, which are never called.
        let library = unsafe { Library::open(Some(&path), RTLD_LAZY | RTLD_LOCAL) };
        let library = library.unwrap_or_else(|error| {
            panic!(
                "no libsrtp ({error}): do `apt-get install libsrtp2-1`, or set LIBSRTP to a library"
            )
        });
        // SAFETY: the types are those of srtp.h, versions 2.0 to 2.8.
        unsafe {
            let init: unsafe extern "C" fn() -> c_int = get(&library, "srtp_init");
            assert_eq!(init(), 0, "srtp_init failed");
            let version: unsafe extern "C" fn() -> *const c_char =
                get(&library, "srtp_get_version_string");
            Functions {
                create: get(&library, "srtp_create"),
                dealloc: get(&library, "srtp_dealloc"),
                protect: get(&library, "srtp_protect_mki"),
                protect_rtcp: get(&library, "srtp_protect_rtcp_mki"),
                unprotect: get(&library, "srtp_unprotect_mki"),
                unprotect_rtcp: get(&library, "srtp_unprotect_rtcp_mki"),
                set_stream_roc: get(&library, "srtp_set_stream_roc"),
                version: CStr::from_ptr(version()).to_string_lossy().into_owned(),
                _library: library,
            }
        }
    })
}

/// Looks up a function of the library.
///
/// # Safety
/// `T` is the type of the function.
unsafe fn get<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: guaranteed by the caller.
    let found: Result<libloading::os::unix::Symbol<T>, _> = unsafe { library.get(name.as_bytes()) };
    *found.unwrap_or_else(|error| panic!("this libsrtp has no {name}: {error}"))
}

/// The version string of the library.
#[must_use]
pub fn version() -> &'static str {
    &functions().version
}

/// Returns true if this version derives keys of AES-192 as in RFC 6188. Versions before 2.8 use
/// AES-256 with a key padded with salt and zeros (libsrtp issue 763).
#[must_use]
pub fn derives_aes_192_keys() -> bool {
    let number = version().rsplit(' ').next().unwrap_or("");
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(2), Some(8))
}

/// The direction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The session protects packets.
    Send,
    /// The session unprotects packets.
    Receive,
}

/// A session with any number of sources.
pub struct Session {
    raw: Raw,
    has_mki: bool,
}

// SAFETY: a session is not bound to a thread, and all calls take `&mut self`.
unsafe impl Send for Session {}

impl Session {
    /// Creates a session.
    ///
    /// # Panics
    /// libsrtp rejects the policy, or is not installed.
    #[must_use]
    pub fn new(policy: &Policy, direction: Direction) -> Self {
        let (cipher_type, key, salt, auth_type, auth_key, rtcp_tag) = match policy.cipher {
            Cipher::AesCm(key) => ([1, 4, 5][(key - 16) / 8], key, 14, 3, 20, 10),
            Cipher::AesGcm(key) => ([6, 0, 7][(key - 16) / 8], key, 12, 0, 0, 16),
        };
        let crypto = |tag: usize, encrypt: bool, authenticate: bool| CryptoPolicy {
            cipher_type: if encrypt || auth_type == 0 { cipher_type } else { 0 },
            cipher_key_len: c_int::try_from(key + salt).expect("the key length fits"),
            auth_type: if authenticate { auth_type } else { 0 },
            auth_key_len: if authenticate { auth_key } else { 0 },
            auth_tag_len: if authenticate {
                c_int::try_from(tag).expect("the tag length fits")
            } else {
                0
            },
            sec_serv: u32::from(encrypt) | u32::from(authenticate) << 1,
        };
        let mut keys = policy.keys.clone();
        let mut masters: Vec<RawMasterKey> = keys
            .iter_mut()
            .map(|key| RawMasterKey {
                key: key.bytes.as_mut_ptr(),
                mki_size: c_uint::try_from(key.mki.len()).expect("the MKI length fits"),
                mki_id: key.mki.as_mut_ptr(),
            })
            .collect();
        let mut pointers: Vec<*mut RawMasterKey> = masters.iter_mut().map(ptr::from_mut).collect();
        let raw_policy = RawPolicy {
            ssrc_type: if direction == Direction::Send { 3 } else { 2 },
            ssrc_value: 0,
            rtp: crypto(policy.rtp_tag, policy.encrypt_rtp, policy.authenticate_rtp),
            rtcp: crypto(rtcp_tag, policy.encrypt_rtcp, true),
            key: ptr::null_mut(),
            keys: pointers.as_mut_ptr(),
            num_master_keys: pointers.len() as c_ulong,
            deprecated_ekt: ptr::null_mut(),
            window_size: policy.window as c_ulong,
            allow_repeat_tx: 0,
            enc_xtn_hdr: ptr::null_mut(),
            enc_xtn_hdr_count: 0,
            next: ptr::null_mut(),
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the data of the policy lives until the end of this function, and libsrtp copies
        // what it keeps.
        let status = unsafe { (functions().create)(&raw mut raw, &raw const raw_policy) };
        assert_eq!(status, 0, "srtp_create of {policy:?}");
        Self { raw, has_mki: policy.keys.iter().any(|key| !key.mki.is_empty()) }
    }

    /// Protects the RTP packet in the first `length` bytes with the key of this index.
    ///
    /// # Errors
    /// An error status of libsrtp.
    pub fn protect(&mut self, buffer: &mut [u8], length: usize, key: u32) -> Result<usize, Status> {
        self.work(functions().protect, buffer, length, key)
    }

    /// Protects an RTCP packet in the same way.
    ///
    /// # Errors
    /// An error status of libsrtp.
    pub fn protect_rtcp(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        key: u32,
    ) -> Result<usize, Status> {
        self.work(functions().protect_rtcp, buffer, length, key)
    }

    fn work(
        &mut self,
        work: Work,
        buffer: &mut [u8],
        length: usize,
        key: u32,
    ) -> Result<usize, Status> {
        // SRTP_MAX_TRAILER_LEN and the longest MKI.
        assert!(
            buffer.len() >= length + 16 + 4 + 128,
            "the buffer has no room for the trailer of libsrtp"
        );
        let mut octets = c_int::try_from(length).expect("the packet length fits");
        // SAFETY: the session is valid, and the buffer has the room that libsrtp requires.
        let status = unsafe {
            work(self.raw, buffer.as_mut_ptr(), &raw mut octets, self.has_mki.into(), key)
        };
        done(status, octets)
    }

    /// Checks and decrypts an RTP packet, and returns its length.
    ///
    /// # Errors
    /// An error status of libsrtp.
    pub fn unprotect(&mut self, packet: &mut [u8]) -> Result<usize, Status> {
        self.check(functions().unprotect, packet)
    }

    /// Checks and decrypts an RTCP packet, and returns its length.
    ///
    /// # Errors
    /// An error status of libsrtp.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, Status> {
        self.check(functions().unprotect_rtcp, packet)
    }

    fn check(&mut self, check: Check, packet: &mut [u8]) -> Result<usize, Status> {
        let mut octets = c_int::try_from(packet.len()).expect("the packet length fits");
        // SAFETY: the session is valid, and libsrtp only shortens the packet.
        let status =
            unsafe { check(self.raw, packet.as_mut_ptr(), &raw mut octets, self.has_mki.into()) };
        done(status, octets)
    }

    /// Sets the rollover counter of a source that has sent a packet.
    ///
    /// # Errors
    /// An error status of libsrtp.
    pub fn set_rollover(&mut self, ssrc: u32, rollover: u32) -> Result<(), Status> {
        // SAFETY: the session is valid. libsrtp takes the SSRC in host byte order.
        done(unsafe { (functions().set_stream_roc)(self.raw, ssrc, rollover) }, 0).map(drop)
    }
}

fn done(status: c_int, octets: c_int) -> Result<usize, Status> {
    if status == 0 {
        Ok(usize::try_from(octets).expect("the length is not negative"))
    } else {
        Err(Status(status))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session is valid, and is not used afterwards.
        unsafe { (functions().dealloc)(self.raw) };
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("raw", &self.raw).finish_non_exhaustive()
    }
}
