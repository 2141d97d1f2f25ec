//! The packets and the sound of a call.

use crate::call::{Call, Gate};
use alloc::vec::Vec;
use core::net::SocketAddr;
use media::srtp::{MasterKey, Suite};
use media::{Channel, Received, Session, SessionError};
use sip::Instant;
use sip_ua::Agent;

/// Sends a datagram of media: the socket, the destination, the contents.
pub type SendPacket<'a> = &'a mut dyn FnMut(Channel, SocketAddr, &[u8]);

impl Call {
    /// Processes a datagram that arrived at `now` on the socket of `channel`. It is decrypted in
    /// place. Only the current branch of a forked call is played.
    pub fn receive(
        &mut self,
        channel: Channel,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Received {
        let mut others = self.others.iter_mut().filter_map(|(_, media)| media.session.as_mut());
        let other = others.find(|session| session.stream().remote == Some(from));
        let is_current = self.media.session.as_ref();
        let is_current = is_current.is_some_and(|session| session.stream().remote == Some(from));
        if let Some(other) = other.filter(|_| !is_current) {
            let _ = other.receive_on(channel, now.since_epoch(), from, datagram);
            return Received::Nothing;
        }
        let session = self.media.session.as_mut();
        session.map_or(Received::Nothing, |session| {
            session.receive_on(channel, now.since_epoch(), from, datagram)
        })
    }

    /// Returns true if the owner's sound is sent, or silence in its place.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.gate == Gate::Open && self.is_confirmed
    }

    /// Returns true if packets may be sent: the other end has the local description. It is current
    /// after [`Call::send`].
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.gate != Gate::Closed && self.is_confirmed
    }

    /// Sets the keys that a handshake has yielded for the media.
    ///
    /// # Errors
    /// [`SessionError::Keys`] if they are unusable.
    pub fn set_keys(
        &mut self,
        suite: Suite,
        local: MasterKey,
        remote: MasterKey,
    ) -> Result<(), SessionError> {
        let session = self.media.session.as_mut();
        session.map_or(Ok(()), |session| session.set_keys(suite, local, remote))
    }

    /// Sends 20 ms of the owner's `sound`, and a report that is due. Missing samples are silence.
    /// Silence replaces the sound while the call is muted, held, or not answered.
    pub fn send(
        &mut self,
        agent: &Agent,
        now: Instant,
        sound: &mut Vec<i16>,
        transmit: SendPacket<'_>,
    ) {
        self.is_confirmed |= self.id.is_some_and(|id| agent.is_confirmed(id));
        if !self.may_send() {
            return;
        }
        // A held party must not overhear this end.
        let is_silent = self.mutes || self.media.negotiator.holds() || self.gate != Gate::Open;
        if is_silent {
            sound.clear();
        }
        let packet = &mut self.packet;
        if let Some(session) = &mut self.media.session {
            send_frame(session, now, sound, packet, transmit);
        }
        // Other branches get silence, so that their timestamps keep up with the time.
        for session in self.others.iter_mut().filter_map(|(_, media)| media.session.as_mut()) {
            sound.clear();
            send_frame(session, now, sound, packet, transmit);
        }
    }

    /// Appends 20 ms of received sound to `out`.
    pub fn play(&mut self, now: Instant, out: &mut Vec<i16>) {
        for session in self.others.iter_mut().filter_map(|(_, media)| media.session.as_mut()) {
            let start = out.len();
            session.play(now.since_epoch(), out);
            out.truncate(start);
        }
        if let Some(session) = &mut self.media.session {
            session.play(now.since_epoch(), out);
        }
    }

    /// Sends the RTCP BYE at the end of the call.
    pub fn say_bye(&mut self, now: Instant, transmit: SendPacket<'_>) {
        let packet = &mut self.packet;
        if let Some(session) = &mut self.media.session
            && let Ok(Some((channel, to))) = session.bye(now.since_epoch(), packet)
        {
            transmit(channel, to, packet);
        }
    }
}

/// Sends 20 ms of sound, filled up with silence, and a report that is due. The statistics of the
/// session count packets that cannot be sent.
fn send_frame(
    session: &mut Session,
    now: Instant,
    sound: &mut Vec<i16>,
    packet: &mut Vec<u8>,
    transmit: SendPacket<'_>,
) {
    sound.resize(session.frame_samples(), 0);
    let mut to = session.send(sound, packet).unwrap_or_default();
    let also = session.also(now.since_epoch());
    while let Some(there) = to {
        transmit(Channel::Rtp, there, packet);
        if let Some(also) = also {
            transmit(Channel::Rtp, also, packet);
        }
        to = session.rest(packet).unwrap_or_default();
    }
    if let Ok(Some((channel, to))) = session.poll(now.since_epoch(), packet) {
        transmit(channel, to, packet);
    }
}
