//! The end of a cable, where any frame can be sent (packet(7)).

use super::lan::TAP;
use std::ffi::CString;
use std::io::{Error, Write};
use std::os::fd::FromRawFd;

/// This end of the cable of a [`Lan`](super::lan::Lan).
#[derive(Debug)]
pub struct Wire(std::fs::File);

impl Wire {
    /// The end in the network of this thread.
    ///
    /// # Panics
    /// When it is not there, or is not to be had without root.
    pub(super) fn open() -> Self {
        let name = CString::new(TAP).expect("a name without a zero");
        // SAFETY: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0, "no interface {TAP}");
        // SAFETY: no memory is touched.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "no socket for frames: {}", Error::last_os_error());
        // SAFETY: it is a socket that nobody else has.
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
        // SAFETY: the address is as long as it is said to be.
        let bound = unsafe { libc::bind(socket, (&raw const address).cast(), length) };
        assert_eq!(bound, 0, "{TAP}: {}", Error::last_os_error());
        Self(file)
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// When the system does not take it.
    pub fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).expect("a frame that the system takes");
    }
}
