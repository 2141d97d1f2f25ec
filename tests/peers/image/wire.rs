//! Sending of raw Ethernet frames (packet(7)).

use super::lan::TAP;
use std::ffi::CString;
use std::io::{Error, Write};
use std::os::fd::FromRawFd;

/// The raw interface of this end of a [`Lan`](super::lan::Lan).
#[derive(Debug)]
pub struct Wire(std::fs::File);

impl Wire {
    /// Opens the interface of this thread's network.
    ///
    /// # Panics
    /// The interface does not exist, or the process is not root.
    pub(super) fn open() -> Self {
        let name = CString::new(TAP).expect("the name has no NUL byte");
        // SAFETY: the name is NUL-terminated.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0, "no interface {TAP}");
        // SAFETY: no memory is passed.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "no socket for frames: {}", Error::last_os_error());
        // SAFETY: the socket is owned and open.
        let file = unsafe { std::fs::File::from_raw_fd(socket) };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: index.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of_val(&address) as u32;
        // SAFETY: the length matches the address.
        let bound = unsafe { libc::bind(socket, (&raw const address).cast(), length) };
        assert_eq!(bound, 0, "{TAP}: {}", Error::last_os_error());
        Self(file)
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// The frame cannot be sent.
    pub fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).expect("the frame can be sent");
    }
}
