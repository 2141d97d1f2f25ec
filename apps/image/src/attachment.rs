//! The attachment to the network: the link, the address, which is static or leased by DHCP, and
//! conflicts with other hosts over it.

use crate::log::Log;
use crate::net::{Address, Conflict, Network, Polled};
use sip::{Duration, Instant};
use smoltcp::wire::EthernetAddress;

/// Interval of the reminders that there is no link or no lease.
const REMINDER: Duration = Duration::from_secs(10);
/// Interval of checking the link.
const LOOK: Duration = Duration::from_millis(200);
/// Time for DHCP to confirm the address after a loss of the link.
const RECHECK: Duration = Duration::from_secs(60);
/// Time from a conflict to the next request, or to the next probe of a static address (RFC 2131
/// section 3.1: at least 10 s).
const PAUSE: Duration = Duration::from_secs(10);

/// The state of the attachment.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// The static address.
    fixed: Option<Address>,
    has_begun: bool,
    has_link: bool,
    next_look: Instant,
    /// The time of the next reminder.
    reminder: Instant,
    /// The time at which an address that DHCP has not confirmed is given up.
    recheck: Option<Instant>,
    /// The time of the next attempt after a conflict.
    again: Option<Instant>,
    /// The host that had our address first.
    rival: Option<EthernetAddress>,
}

impl Attachment {
    /// An attachment with the static address `fixed`, or by DHCP.
    pub(crate) fn new(fixed: Option<Address>, now: Instant) -> Self {
        Self {
            fixed,
            has_begun: false,
            has_link: false,
            next_look: now,
            reminder: now,
            recheck: None,
            again: None,
            rival: None,
        }
    }

    /// Returns true once there was a link.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns true if there was a link at the last check.
    pub(crate) fn has_link(&self) -> bool {
        self.has_link
    }

    /// The host that had our address first, until the address is tried or leased again.
    pub(crate) fn rival(&self) -> Option<EthernetAddress> {
        self.rival
    }

    /// Waits for the first link, and starts the DHCP client then. Returns the static address.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        network: &mut Network,
        log: &mut Log,
    ) -> Option<Address> {
        if network.nic().has_link() {
            (self.has_begun, self.has_link) = (true, true);
            self.reminder = now + REMINDER;
            if self.fixed.is_none() {
                log.say(format_args!("asking DHCP for an address"));
                network.use_dhcp();
            }
            return self.fixed.clone();
        }
        if now >= self.reminder {
            self.reminder = now + REMINDER;
            log.say(format_args!("no link: is the cable plugged in at both ends?"));
        }
        None
    }

    /// Handles the state of the network, `polled` at `now`. Returns the new address, or its loss.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        polled: Polled,
        network: &mut Network,
        log: &mut Log,
    ) -> Option<Option<Address>> {
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.look_at_link(now, network, log);
        }
        let mut change = None;
        if let Some(lease) = polled.lease
            && (lease.is_some() || self.recheck.is_none())
        {
            (self.recheck, self.rival) = (None, None);
            change = Some(lease);
        }
        if self.recheck.is_some_and(|time| time <= now) {
            self.recheck = None;
            log.say(format_args!("no DHCP server has confirmed the address"));
            change = Some(None);
        }
        if let Some(source) = polled.impossible {
            let count = network.counts().impossible;
            log.say(format_args!(
                "dropped a datagram from {source}, which no other host can have ({count} so far): \
                 the network has to translate it"
            ));
        }
        if let Some(conflict) = polled.conflict
            && self.is_given_up(conflict, now, network, log)
        {
            change = Some(None);
        }
        if self.again.is_some_and(|time| time <= now) {
            self.again = None;
            self.reminder = now + REMINDER;
            match &self.fixed {
                Some(address) => {
                    self.rival = None;
                    change = Some(Some(address.clone()));
                }
                None => network.restart_dhcp(now),
            }
        }
        if matches!(change, Some(None)) {
            self.reminder = now + REMINDER;
        }
        let is_missing = network.address().is_none() && self.again.is_none() && change.is_none();
        if is_missing && now >= self.reminder {
            self.reminder = now + REMINDER;
            log.say(format_args!("no lease: no DHCP server has answered"));
        }
        change
    }

    fn look_at_link(&mut self, now: Instant, network: &mut Network, log: &mut Log) {
        let has_link = network.nic().has_link();
        if core::mem::replace(&mut self.has_link, has_link) == has_link {
            return;
        }
        let what = if has_link { "the link is there again" } else { "the link is lost" };
        log.say(format_args!("{what}"));
        if has_link && self.fixed.is_none() && network.address().is_some() {
            // The link may be to another network now. Nothing is ended until that is known.
            network.restart_dhcp(now);
            self.recheck = Some(now + RECHECK);
        }
    }

    /// Handles an address conflict. Returns true if the address is given up, because the other host
    /// had it first. A leased one is declined (RFC 5227 section 2.1, RFC 2131 section 3.1).
    fn is_given_up(
        &mut self,
        Conflict { mac, is_lost }: Conflict,
        now: Instant,
        network: &mut Network,
        log: &mut Log,
    ) -> bool {
        let Some(ours) = network.address().map(|address| address.ours) else { return false };
        log.say(format_args!("address conflict: {ours} is in use by {mac}, too"));
        if is_lost {
            self.rival = Some(mac);
            self.again = Some(now + PAUSE);
            self.recheck = None;
            if self.fixed.is_none() {
                network.decline(now);
                log.say(format_args!("declined the address; asking DHCP again in 10 s"));
            }
        }
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::fake::{MAC, Wire, wired};
    use alloc::rc::Rc;
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use core::net::{Ipv4Addr, SocketAddrV4};
    use smoltcp::wire::{
        ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetFrame,
        EthernetProtocol,
    };

    const START: Instant = Instant::from_micros(1_800_000_000_000_000);
    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
    const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const RIVAL: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
    /// Headers of Ethernet, IP and UDP.
    const HEADERS: usize = 14 + 20 + 8;

    /// An attached network, and a DHCP server at its other end.
    struct Bench {
        attachment: Attachment,
        network: Network,
        log: Log,
        wire: Rc<RefCell<Wire>>,
        now: Instant,
        /// The DHCP server answers.
        serves: bool,
        /// The messages of the client.
        heard: Vec<DhcpMessageType>,
        declined: Option<(Option<Ipv4Addr>, Option<Ipv4Addr>)>,
    }

    impl Bench {
        fn new(fixed: Option<Address>) -> Self {
            let (card, wire) = wired();
            let mut bench = Self {
                attachment: Attachment::new(fixed, START),
                network: Network::new(card, 1, true, START),
                log: Log::default(),
                wire,
                now: START,
                serves: true,
                heard: Vec::new(),
                declined: None,
            };
            let Self { attachment, network, log, .. } = &mut bench;
            let address = attachment.begin(START, network, log);
            network.set_address(address);
            bench
        }

        /// Lets `seconds` pass, in steps of 50 ms.
        fn run(&mut self, seconds: u64) {
            let end = self.now + Duration::from_secs(seconds);
            while self.now < end {
                self.now += Duration::from_millis(50);
                while self.network.receive(self.now).is_some() {}
                let polled = self.network.poll(self.now);
                let (network, log) = (&mut self.network, &mut self.log);
                if let Some(address) = self.attachment.follow(self.now, polled, network, log) {
                    self.network.set_address(address);
                }
                let frames = core::mem::take(&mut self.wire.borrow_mut().from_card);
                frames.iter().for_each(|frame| self.hear(frame));
            }
        }

        /// The DHCP server hears `frame`.
        fn hear(&mut self, frame: &[u8]) {
            if frame[12..14] != [8, 0] || frame[36..38] != [0, 67] {
                return;
            }
            let packet = DhcpPacket::new_checked(&frame[HEADERS..]).expect("a DHCP packet");
            let asked = DhcpRepr::parse(&packet).expect("a DHCP message");
            self.heard.push(asked.message_type);
            let message_type = match asked.message_type {
                DhcpMessageType::Discover => DhcpMessageType::Offer,
                DhcpMessageType::Request => DhcpMessageType::Ack,
                DhcpMessageType::Decline => {
                    self.declined = Some((asked.requested_ip, asked.server_identifier));
                    return;
                }
                _ => return,
            };
            if !self.serves {
                return;
            }
            let answer = DhcpRepr {
                message_type,
                your_ip: OURS,
                server_ip: SERVER,
                subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
                server_identifier: Some(SERVER),
                requested_ip: None,
                client_identifier: None,
                parameter_request_list: None,
                max_size: None,
                lease_duration: Some(3600),
                ..asked
            };
            let mut bytes = alloc::vec![0; answer.buffer_len()];
            answer.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).expect("it has room");
            let mut frame = Vec::new();
            etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 254], MAC.0)
                .ipv4(SERVER.octets(), OURS.octets(), 64)
                .udp(67, 68)
                .write(&mut frame, &bytes)
                .expect("the vector takes the frame");
            self.wire.borrow_mut().to_card.push_back(frame);
        }

        fn ours(&self) -> Option<Ipv4Addr> {
            self.network.address().map(|address| address.ours.address())
        }

        fn said(&self, text: &str) -> bool {
            self.log.since(0).any(|line| line.contains(text))
        }
    }

    /// The answer of the rival to an ARP probe of our address.
    fn rival() -> Vec<u8> {
        let answer = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: RIVAL,
            source_protocol_addr: OURS,
            target_hardware_addr: MAC,
            target_protocol_addr: Ipv4Addr::UNSPECIFIED,
        };
        let mut frame = alloc::vec![0; 14 + answer.buffer_len()];
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
        ethernet.set_src_addr(RIVAL);
        ethernet.set_dst_addr(MAC);
        ethernet.set_ethertype(EthernetProtocol::Arp);
        answer.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
        frame
    }

    #[test]
    fn dhcp_confirms_the_address_after_a_link_comes_up() {
        let mut bench = Bench::new(None);
        bench.run(3);
        assert_eq!(bench.ours(), Some(OURS));
        assert_eq!(bench.network.lease(), Some((SERVER, 3600)));
        bench.heard.clear();
        bench.wire.borrow_mut().is_cut = true;
        bench.run(1);
        assert_eq!(bench.heard, [], "nothing is asked without a link");
        bench.wire.borrow_mut().is_cut = false;
        bench.run(3);
        assert_eq!(bench.heard, [DhcpMessageType::Discover, DhcpMessageType::Request]);
        bench.run(70);
        assert_eq!(bench.ours(), Some(OURS), "the server has confirmed it");
    }

    #[test]
    fn an_address_that_no_server_confirms_after_a_link_came_up_is_given_up() {
        let mut bench = Bench::new(None);
        bench.run(3);
        bench.serves = false;
        bench.wire.borrow_mut().is_cut = true;
        bench.run(1);
        bench.wire.borrow_mut().is_cut = false;
        bench.run(55);
        assert_eq!(bench.ours(), Some(OURS), "it stays in use meanwhile");
        bench.run(10);
        assert_eq!(bench.ours(), None);
        assert!(bench.said("no DHCP server has confirmed the address"));
    }

    #[test]
    fn a_leased_address_that_another_host_has_is_declined_and_requested_again() {
        let mut bench = Bench::new(None);
        bench.run(1);
        assert_eq!(bench.ours(), Some(OURS));
        bench.heard.clear();
        bench.wire.borrow_mut().to_card.push_back(rival());
        bench.run(1);
        assert_eq!(bench.ours(), None);
        assert_eq!(bench.declined, Some((Some(OURS), Some(SERVER))));
        assert_eq!(bench.attachment.rival(), Some(RIVAL));
        bench.run(8);
        assert_eq!(bench.heard, [DhcpMessageType::Decline], "the client waits for ten seconds");
        bench.run(4);
        assert!(!bench.said("no lease"));
        let (discover, request) = (DhcpMessageType::Discover, DhcpMessageType::Request);
        assert_eq!(bench.heard, [DhcpMessageType::Decline, discover, request]);
        assert_eq!((bench.ours(), bench.attachment.rival()), (Some(OURS), None));
    }

    #[test]
    fn a_static_address_that_another_host_has_is_tried_again() {
        let ours = "192.0.2.7/24".parse().expect("an address");
        let (gateway, dns) = (None, Vec::new());
        let fixed = Address { ours, gateway, dns, tftp: None, file: None, ntp: None };
        let mut bench = Bench::new(Some(fixed));
        bench.run(1);
        bench.wire.borrow_mut().to_card.push_back(rival());
        bench.run(1);
        assert_eq!((bench.ours(), bench.attachment.rival()), (None, Some(RIVAL)));
        assert!(bench.said("address conflict: 192.0.2.7/24 is in use by 02-00-00-00-00-09, too"));
        assert_eq!(bench.heard, [], "DHCP has no part in it");
        bench.run(10);
        assert_eq!((bench.ours(), bench.attachment.rival()), (Some(OURS), None));
    }

    fn datagram(source: Ipv4Addr) -> Vec<u8> {
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 254], MAC.0)
            .ipv4(source.octets(), OURS.octets(), 64)
            .udp(5060, 5060)
            .write(&mut frame, b"OPTIONS")
            .expect("the vector takes the frame");
        frame
    }

    #[test]
    fn datagrams_from_impossible_sources_are_dropped_and_reported_once_a_minute() {
        let mut bench = Bench::new(None);
        bench.run(3);
        bench.network.listen(5060);
        for source in [Ipv4Addr::LOCALHOST, OURS, Ipv4Addr::BROADCAST, SERVER] {
            bench.wire.borrow_mut().to_card.push_back(datagram(source));
        }
        bench.run(50);
        assert_eq!(bench.network.counts().impossible, 3, "the server can have its address");
        let reports = |bench: &Bench| {
            bench.log.since(0).filter(|line| line.contains("no other host can have")).count()
        };
        assert_eq!(reports(&bench), 1);
        bench.wire.borrow_mut().to_card.push_back(datagram(Ipv4Addr::LOCALHOST));
        bench.run(60);
        assert_eq!(reports(&bench), 2);
        assert!(bench.said("dropped a datagram from 127.0.0.1"));
    }

    #[test]
    fn a_datagram_to_an_address_that_no_other_host_can_have_is_not_sent() {
        let mut bench = Bench::new(None);
        bench.run(3);
        bench.network.listen(5060);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5060);
        bench.network.send(bench.now, 5060, to, b"BYE");
        let undelivered = bench.network.undelivered();
        let found = undelivered.iter().map(|undelivered| undelivered.ends.destination);
        assert_eq!(found.collect::<Vec<_>>(), [to], "the sender is told");
        let sent = core::mem::take(&mut bench.wire.borrow_mut().from_card);
        assert!(sent.iter().all(|frame| frame[30..34] != [127, 0, 0, 1]));
    }

    #[test]
    fn an_address_that_was_ours_first_is_kept() {
        let mut bench = Bench::new(None);
        bench.run(10);
        bench.wire.borrow_mut().to_card.push_back(rival());
        bench.run(1);
        assert_eq!((bench.ours(), bench.attachment.rival()), (Some(OURS), None));
        assert!(bench.said("address conflict"));
    }
}
