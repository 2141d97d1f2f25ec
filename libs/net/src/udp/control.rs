//! Control messages (ancillary data) of datagrams, received from and passed to the kernel.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Ends the association of `socket` with a peer, so that it receives from any address again.
///
/// # Errors
/// The system refuses it.
pub fn disconnect(socket: &UdpSocket) -> io::Result<()> {
    let family = libc::sa_family_t::try_from(libc::AF_UNSPEC).unwrap_or_default();
    let address = libc::sockaddr { sa_family: family, sa_data: [0; 14] };
    // SAFETY: the address lives until the call returns, and its length is that of its type.
    let result = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            &raw const address,
            size_of::<libc::sockaddr>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The size of the buffer for the control messages of a datagram (address, time, drop counter,
/// segment length), in words for alignment.
pub(super) const CONTROL_WORDS: usize = 16;

/// The control messages received with a datagram.
#[derive(Default)]
pub(super) struct ControlData {
    pub(super) local: Option<IpAddr>,
    pub(super) at: Option<Duration>,
    pub(super) dropped: u32,
    /// The length of each datagram, if several were received as one. The last may be shorter.
    pub(super) segment: Option<usize>,
}

pub(super) fn read_controls(header: &libc::msghdr) -> ControlData {
    let mut told = ControlData::default();
    // SAFETY: the kernel has filled the control buffer to which `header` points, and set its
    // length. The macros stay within it, and the type of the data is given by its level and type.
    // The data may be unaligned, so it is copied.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = data.cast::<libc::in_pktinfo>().read_unaligned();
                    told.local = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    told.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at: libc::timespec = data.cast::<libc::timespec>().read_unaligned();
                    told.at = Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    told.dropped = data.cast::<u32>().read_unaligned();
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let length = data.cast::<libc::c_int>().read_unaligned();
                    told.segment = usize::try_from(length).ok().filter(|&length| length > 0);
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    told
}

/// Sets the source address of `header` to `local`.
pub(super) fn write_local(header: &mut libc::msghdr, local: IpAddr) {
    match local {
        IpAddr::V4(ip) => {
            // SAFETY: the structure is plain data, valid when all its bytes are zero.
            let mut info: libc::in_pktinfo = unsafe { MaybeUninit::zeroed().assume_init() };
            info.ipi_spec_dst.s_addr = u32::from(ip).to_be();
            write_control(header, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        IpAddr::V6(ip) => {
            // SAFETY: as above.
            let mut info: libc::in6_pktinfo = unsafe { MaybeUninit::zeroed().assume_init() };
            info.ipi6_addr.s6_addr = ip.octets();
            write_control(header, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
}

/// Appends a control message to those of `header`, which has a buffer of CONTROL_WORDS words.
pub(super) fn write_control<T: Copy>(
    header: &mut libc::msghdr,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) {
    let used = header.msg_controllen;
    // SAFETY: the macros only compute.
    let (length, space) = unsafe {
        let size = size_of::<T>() as libc::c_uint;
        (libc::CMSG_LEN(size), libc::CMSG_SPACE(size) as usize)
    };
    assert!(
        used + space <= size_of::<[u64; CONTROL_WORDS]>(),
        "the buffer holds what is used here"
    );
    // SAFETY: the assertion guarantees room in the buffer. Each offset is a multiple of a word, as
    // the space of a control message is, so it is aligned for a cmsghdr. `value` is plain data.
    unsafe {
        let control = header.msg_control.cast::<u8>().add(used).cast::<libc::cmsghdr>();
        (*control).cmsg_level = level;
        (*control).cmsg_type = kind;
        (*control).cmsg_len = length as _;
        libc::CMSG_DATA(control).cast::<T>().write_unaligned(value);
    }
    header.msg_controllen = used + space;
}
