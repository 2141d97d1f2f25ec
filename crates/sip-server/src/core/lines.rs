//! Serialization of header field lines and their parts.

use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::{write_decimal, write_ip};

/// Appends `address:port`, IPv6 in brackets.
pub(crate) fn write_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(v4) => write_ip((*v4.ip()).into(), out),
        SocketAddr::V6(v6) => {
            out.push(b'[');
            write_ip((*v6.ip()).into(), out);
            out.push(b']');
        }
    }
    out.push(b':');
    write_decimal(out, address.port().into());
}

/// Appends the header field line `name: value`.
pub(crate) fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header field line `name: value` of a number.
pub(crate) fn write_number_line(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    write_decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a Contact header field without the line end, so that parameters may follow.
pub(crate) fn write_contact(out: &mut Vec<u8>, uri: &[u8], q: u16) {
    out.extend_from_slice(b"Contact: <");
    out.extend_from_slice(uri);
    out.push(b'>');
    if q == 1000 {
        return;
    }
    let thousandths = alloc::format!("{q:03}");
    let digits = thousandths.trim_end_matches('0');
    out.extend_from_slice(b";q=0.");
    out.extend_from_slice(if digits.is_empty() { "0" } else { digits }.as_bytes());
}
