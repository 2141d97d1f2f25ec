//! The control protocol of a relay: a request that is answered, and repeated.

use alloc::vec::Vec;
use core::time::Duration;
use ng::{Command, Duplicates, Request, Response};

pub(crate) fn answer() -> Option<()> {
    let datagram = b"1_1 d7:call-id1:a7:command5:offer8:from-tag1:f3:ICE6:remove3:sdp5:v=0\r\ne";
    let request = Request::parse(datagram).ok()?;
    let Command::Offer { sdp, .. } = request.command else { return None };
    let mut response = Vec::new();
    Response::Sdp(sdp).write(request.cookie, &mut response);
    let proxy = ([192, 0, 2, 1], 4000).into();
    let mut duplicates = Duplicates::new(Default::default());
    duplicates.store(Duration::ZERO, proxy, datagram, &response);
    let repeated = duplicates.response(Duration::from_secs(1), proxy, datagram)?;
    (repeated == response).then_some(())
}
