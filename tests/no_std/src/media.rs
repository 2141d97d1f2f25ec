//! Media: key negotiation, SRTP, reception and playout.

use ::media::{MediaConfig, Negotiator, ReportSeed, Seed};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use ice::{CheckOutcome, Credentials, LiteAgent};
use rtp::jitter_buffer::{Config, InsertResult, JitterBuffer, Playout};
use rtp::packet::HeaderFields;
use rtp::quality::{CodecQuality, mean_opinion_score, rating};
use rtp::{Packet, ReceptionStats};
use sdp::negotiation::{SrtpPreferences, accept, answer, usable_crypto_attributes};
use sdp::{CryptoAttribute, SessionDescription};
use srtp::{MasterKey, Policy, Receiver, Sender, Suite};
use stun::{BindingResponse, Class, Client, Event, TransactionId, Writer, attribute_type};
use zrtp::{Association, Cache, Zid};

/// An RTP packet with 20 ms of G.711 and spare room in the buffer.
fn packet(number: u16) -> Option<(Vec<u8>, usize)> {
    let mut buffer = alloc::vec![0; 300];
    let timestamp = 160 * u32::from(number);
    let fields =
        HeaderFields { sequence_number: number, timestamp, ssrc: 1, ..HeaderFields::default() };
    let length = fields.write(&[0x5a; 160], &mut buffer).ok()?;
    Some((buffer, length))
}

pub(crate) fn negotiate() -> Option<()> {
    let ours = CryptoAttribute::new(1, Policy::new(Suite::AesCm128HmacSha1_80), &[7; 30]).ok()?;
    let attribute = ours.to_string();
    let text = [b"v=0\r\nm=audio 4000 RTP/SAVP 0\r\na=crypto:", attribute.as_bytes()].concat();
    let session = SessionDescription::parse(&text).ok()?;
    let offer = usable_crypto_attributes(session.media.first()?);
    let theirs = answer(&offer, &SrtpPreferences::secure(), |key| key.fill(8)).ok()?;
    let agreed = accept(&[ours], core::slice::from_ref(&theirs.send)).ok()?;
    (agreed.receive.to_string() == theirs.send.to_string()).then_some(())
}

pub(crate) fn receive() -> Option<()> {
    let mut jitter_buffer = JitterBuffer::new(Config::new(8000));
    let mut reception = None;
    for number in [0, 1, 2, 4] {
        let (buffer, length) = packet(number)?;
        let packet = Packet::parse(&buffer[..length]).ok()?;
        let now = Duration::from_millis(20 * u64::from(number));
        let reception = reception.get_or_insert_with(|| ReceptionStats::new(&packet.header, 8000));
        reception.receive(&packet.header, now);
        let inserted = jitter_buffer.insert(packet.header.timestamp(), now, number);
        (inserted == InsertResult::Buffered).then_some(())?;
    }
    let lost = reception?.lost();
    let played = jitter_buffer.play(Duration::from_millis(200));
    let loss = lost as f64 / 5.0;
    let score =
        mean_opinion_score(rating(CodecQuality::G711, Duration::from_millis(200), loss, 1.0));
    (lost == 1 && matches!(played, Playout::Frame(_)) && score < 4.0).then_some(())
}

pub(crate) fn protect() -> Option<()> {
    Suite::ALL.into_iter().try_for_each(|suite| {
        let policy = Policy::new(suite);
        let bytes = alloc::vec![7; suite.key_length() + suite.salt_length()];
        let key = MasterKey::new(suite, &bytes).ok()?;
        let mut sender = Sender::new(&policy, alloc::vec![key.clone()]).ok()?;
        let mut receiver = Receiver::new(&policy, alloc::vec![key]).ok()?;
        let (mut buffer, length) = packet(1)?;
        let plain = buffer[..length].to_vec();
        let length = sender.protect(&mut buffer, length).ok()?;
        let mut forged = buffer[..length].to_vec();
        *forged.last_mut()? ^= 1;
        receiver.unprotect(&mut forged).is_err().then_some(())?;
        let is_hidden = !buffer.starts_with(&plain);
        (is_hidden && receiver.unprotect(&mut buffer[..length]).ok()? == plain).then_some(())
    })
}

pub(crate) fn ask() -> Option<()> {
    let (server, nat) = (([192, 0, 2, 1], 3478).into(), ([198, 51, 100, 7], 40_000).into());
    let mut client = Client::new(TransactionId([7; 12]), server, Duration::ZERO);
    let (mut request, mut response) = (Vec::new(), Vec::new());
    let is_sent = client.poll(Duration::ZERO, &mut request) == Event::Send(server);
    let is_answered = is_sent && stun::respond_to_binding(nat, &request, &mut response);
    (is_answered && client.receive(server, &response) == Some(BindingResponse::Mapped(nat)))
        .then_some(())
}

pub(crate) fn check() -> Option<()> {
    let mut agent = LiteAgent::new(Credentials::new(&[7; 32]));
    let name = alloc::format!("{}:peer", agent.local().ufrag);
    let (mut check, mut response) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(Class::Request, stun::BINDING, TransactionId([7; 12]), &mut check);
    writer.attribute(attribute_type::USERNAME, name.as_bytes()).ok()?;
    writer.attribute(attribute_type::PRIORITY, &[0, 0, 0, 1]).ok()?;
    writer.integrity(agent.local().password.as_bytes()).ok()?;
    writer.fingerprint().ok()?;
    let from = ([198, 51, 100, 7], 40_000).into();
    let outcome = agent.receive(Duration::ZERO, from, &check, &mut response);
    (outcome == CheckOutcome::Success { is_new_selection: false }).then_some(())
}

pub(crate) fn agree() -> Option<()> {
    let config = |end: u8| zrtp::Config::new(Zid([end; 12]), [end; 32], u32::from(end));
    let mut ends = [1, 2].map(|end| Association::new(config(end), Duration::ZERO));
    let mut strings = [None, None];
    for sender in [0, 1].into_iter().cycle().take(20) {
        while let Some(packet) = ends[sender].poll_transmit() {
            ends[1 - sender].handle(Duration::ZERO, &packet, &Cache::default());
        }
        while let Some(event) = ends[sender].poll_event() {
            if let zrtp::Event::Keyed(keyed) = event {
                strings[sender] = Some(keyed.sas.to_string());
            }
        }
    }
    (strings[0].is_some() && strings[0] == strings[1]).then_some(())
}

pub(crate) fn call() -> Option<()> {
    let (here, there) = (([192, 0, 2, 1], 4000).into(), ([192, 0, 2, 2], 5000).into());
    let mut ends = [here, there].map(|local| Negotiator::new(MediaConfig::default(), local, 1));
    let mut number = 0_u8;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    };
    let offer = ends[0].offer(&mut random);
    let (answer, theirs) = ends[1].answer(&offer, &mut random).ok()?;
    let ours = ends[0].accept(&answer).ok()?;
    let seed = |ssrc| Seed { ssrc, sequence_number: 1, timestamp: 1 };
    let mut one = ::media::Session::new(ours, seed(1)).ok()?;
    let mut other = ::media::Session::new(theirs, seed(2)).ok()?;
    let random = [1; 24];
    let reports = ReportSeed { random, time_of_day: Duration::ZERO, extended: true };
    one.start_reports(Duration::ZERO, reports);
    let mut out = Vec::new();
    for frame in 1..200 {
        let now = Duration::from_millis(20) * frame;
        (one.send(&alloc::vec![0; one.frame_samples()], &mut out).ok()? == Some(there))
            .then_some(())?;
        other.receive(now, here, &mut out);
        if one.poll(now, &mut out).ok()?.is_some() {
            other.receive(now, here, &mut out);
        }
    }
    let statistics = other.statistics();
    (statistics.received == 198 && statistics.reports_received == 1).then_some(())
}
