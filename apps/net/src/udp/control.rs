//! Control messages: what the kernel tells beside a datagram, and is told.

use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Room for the control messages of a datagram (address, time, count of drops, length of a
/// segment), in words, so that it is aligned.
pub(super) const CONTROL_WORDS: usize = 16;

/// What the kernel tells beside a datagram.
#[derive(Default)]
pub(super) struct Told {
    pub(super) local: Option<IpAddr>,
    pub(super) at: Option<Duration>,
    pub(super) dropped: u32,
    /// The length of each of several datagrams that came as one; the last may be shorter.
    pub(super) segment: Option<usize>,
}

pub(super) fn read_controls(header: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the kernel has filled the control buffer that `header` points to and set its length;
    // the macros stay within it, and the data of each kind is what its level and type say. It need
    // not be aligned, so it is copied.
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

/// Makes `header` leave from `local`.
pub(super) fn write_local(header: &mut libc::msghdr, local: IpAddr) {
    match local {
        IpAddr::V4(ip) => {
            // SAFETY: it is plain data, valid when all its bytes are zero.
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

/// Appends a control message to those of `header`, whose buffer has CONTROL_WORDS words.
pub(super) fn write_control<T: Copy>(
    header: &mut libc::msghdr,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) {
    let used = header.msg_controllen;
    // SAFETY: it only computes.
    let (length, space) = unsafe {
        let size = size_of::<T>() as libc::c_uint;
        (libc::CMSG_LEN(size), libc::CMSG_SPACE(size) as usize)
    };
    assert!(
        used + space <= size_of::<[u64; CONTROL_WORDS]>(),
        "the buffer holds what is used here"
    );
    // SAFETY: the buffer has room, as was just seen, and is aligned for a cmsghdr at each multiple
    // of a word, of which the space of a control message is one; `value` is plain data.
    unsafe {
        let control = header.msg_control.cast::<u8>().add(used).cast::<libc::cmsghdr>();
        (*control).cmsg_level = level;
        (*control).cmsg_type = kind;
        (*control).cmsg_len = length as _;
        libc::CMSG_DATA(control).cast::<T>().write_unaligned(value);
    }
    header.msg_controllen = used + space;
}
