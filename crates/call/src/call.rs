//! A call: its offers and answers, and the commands of the owner.

use crate::stream::{DialogMedia, SessionSetup};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use media::{Clock, MediaConfig, Negotiator, Random, Refusal, Session};
use sip::Instant;
use sip_ua::{AccountId, Agent, CallError, CallId};

/// The properties of a new call.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The codecs and the policy for encryption.
    pub media_config: MediaConfig,
    /// The local address of RTP. RTCP that does not share it arrives at the next port.
    pub local: SocketAddr,
    /// The address of RTP outside of a NAT, if known.
    pub public: Option<SocketAddr>,
    /// True if the owner's sound is sent before the call is answered. Otherwise a caller sends
    /// silence, and a callee sends nothing.
    pub early: bool,
    /// True if silence is suppressed when the other end can generate comfort noise.
    pub suppresses_silence: bool,
    /// The clock for the durations of SRTP operations, if they are measured.
    pub stopwatch: Option<Clock>,
}

impl Setup {
    /// Returns the properties of a call with this `media_config` that receives at `local`.
    #[must_use]
    pub const fn new(media_config: MediaConfig, local: SocketAddr) -> Self {
        Self {
            media_config,
            local,
            public: None,
            early: false,
            suppresses_silence: false,
            stopwatch: None,
        }
    }
}

/// The outgoing media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing is sent: the other end does not have the local session description yet.
    Closed,
    /// Silence is sent: the call is not answered yet.
    Silent,
    /// The owner's sound is sent.
    Open,
}

/// A call.
pub struct Call {
    pub(crate) id: Option<CallId>,
    early: bool,
    pub(crate) setup: SessionSetup,
    /// The media of the dialog that is played: the established dialog, or the branch with the last
    /// session description.
    pub(crate) media: DialogMedia,
    /// The number of its branch, once known.
    pub(crate) branch: Option<u32>,
    /// The media of other branches of a forked call. The engine bounds their number.
    pub(crate) others: Vec<(u32, DialogMedia)>,
    /// The state after the first offer, from which the media of each branch starts.
    offered: Option<Negotiator>,
    /// The session description for the answer to the caller.
    answer: Vec<u8>,
    pub(crate) gate: Gate,
    /// True once the other end is known to have the local answer. Until then nothing is sent to
    /// the address that it names, which may belong to a third party.
    pub(crate) is_confirmed: bool,
    pub(crate) mutes: bool,
    /// True if the local end holds.
    pub(crate) holds: bool,
    /// The requested state, while its offer is pending.
    pub(crate) wants_hold: Option<bool>,
    /// True if the other end holds.
    pub(crate) is_held: bool,
    pub(crate) packet: Vec<u8>,
}

impl core::fmt::Debug for Call {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// Returns a call that is not placed and does not ring yet.
    #[must_use]
    pub fn new(setup: Setup, random: Random<'_>) -> Self {
        let Setup { media_config, local, public, early, suppresses_silence, stopwatch } = setup;
        let mut bytes = [0; 8];
        random(&mut bytes);
        // The identifier fits in 31 bits: some peers read it as a signed number of 32 bits.
        let mut negotiator = Negotiator::new(media_config, local, u64::from_le_bytes(bytes) >> 33);
        negotiator.publish(public, None);
        Self {
            id: None,
            early,
            setup: SessionSetup { suppresses_silence, stopwatch, host: None },
            media: DialogMedia::new(negotiator),
            branch: None,
            others: Vec::new(),
            offered: None,
            answer: Vec::new(),
            gate: if early { Gate::Open } else { Gate::Silent },
            is_confirmed: true,
            mutes: false,
            holds: false,
            wants_hold: None,
            is_held: false,
            packet: Vec::new(),
        }
    }

    /// Returns the identifier of the call in the agent, once it is placed or rings.
    #[must_use]
    pub const fn id(&self) -> Option<CallId> {
        self.id
    }

    /// Returns the media session that is played, once it is negotiated.
    #[must_use]
    pub const fn session(&self) -> Option<&Session> {
        self.media.session.as_ref()
    }

    /// Returns true if the local end holds the other end.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// Returns true if a hold or its end waits for the answer of the other end.
    #[must_use]
    pub const fn is_changing_hold(&self) -> bool {
        self.wants_hold.is_some()
    }

    /// Returns true if the other end holds.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.is_held
    }

    /// Returns true if silence is sent in place of the owner's sound.
    #[must_use]
    pub const fn is_muted(&self) -> bool {
        self.mutes
    }

    /// Sends silence in place of the owner's sound, or ends that.
    pub const fn mute(&mut self, mutes: bool) {
        self.mutes = mutes;
    }

    /// Requires SRTP from the next offer or answer on.
    pub const fn require_security(&mut self) {
        self.media.negotiator.require_security();
    }

    /// Sets the address of RTP outside of a NAT for the next offer or answer.
    pub const fn publish(&mut self, public: Option<SocketAddr>) {
        self.media.negotiator.publish(public, None);
    }

    /// Sets the lines of ICE in the next offers, and in answers to offers with ICE.
    pub fn set_ice(&mut self, lines: Option<String>) {
        self.media.negotiator.set_ice(lines);
    }

    /// Sets the host that a loopback address in the next descriptions of the other end means: the
    /// source of the signalling, for an owner that reaches its own host only through a network.
    pub const fn set_host(&mut self, host: Option<IpAddr>) {
        self.setup.host = host;
    }

    /// Calls `uri`, as `account` or directly.
    ///
    /// # Errors
    /// [`CallError::Uri`] if it is not a SIP URI, or the account does not exist.
    pub fn place(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        random: Random<'_>,
    ) -> Result<CallId, CallError> {
        let offer = self.first_offer(random);
        let id = agent.call(now, account, uri, offer)?;
        Ok(*self.id.insert(id))
    }

    /// Calls the target that the other end of `call` has requested.
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn follow(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        call: CallId,
        random: Random<'_>,
    ) -> Result<CallId, CallError> {
        let offer = self.first_offer(random);
        let id = agent.follow(now, call, offer)?;
        Ok(*self.id.insert(id))
    }

    fn first_offer(&mut self, random: Random<'_>) -> Vec<u8> {
        let offer = self.media.negotiator.offer(random);
        self.offered = Some(self.media.negotiator.clone());
        offer
    }

    /// Makes the incoming call `id` ring, with its `offer`, or with a local offer if it has none.
    ///
    /// # Errors
    /// [`Refusal`] of the offer. The call is then rejected with 488.
    pub fn ring(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        id: CallId,
        offer: Option<&[u8]>,
        random: Random<'_>,
    ) -> Result<(), Refusal> {
        self.id = Some(id);
        let session = match offer {
            Some(offer) => self.media.answer(self.setup, now.since_epoch(), offer, random),
            None => Ok(self.media.negotiator.offer(random)),
        };
        // An error of these commands means that the caller has hung up, which is an event.
        match session {
            Ok(session) => {
                if !self.early {
                    self.gate = Gate::Closed;
                }
                let _ = agent.ring(now, id, if self.early { &session } else { b"" });
                self.answer = session;
                Ok(())
            }
            Err(refusal) => {
                let _ = agent.decline(now, id, 488);
                Err(refusal)
            }
        }
    }

    /// Answers the incoming call.
    ///
    /// # Errors
    /// [`CallError`] if it does not ring any more.
    pub fn answer(&mut self, agent: &mut Agent, now: Instant) -> Result<(), CallError> {
        let id = self.id.ok_or(CallError::Unknown)?;
        agent.answer(now, id, &self.answer)?;
        self.gate = Gate::Open;
        self.is_confirmed = false;
        Ok(())
    }

    /// Holds the other end, or resumes the call. [`Change::Held`](crate::Change::Held) reports the
    /// success.
    ///
    /// # Errors
    /// [`CallError`] if the call is not established, or a change of its session is pending.
    pub fn hold(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        holds: bool,
        random: Random<'_>,
    ) -> Result<(), CallError> {
        let id = self.id.ok_or(CallError::Unknown)?;
        if self.holds == holds {
            return Ok(());
        }
        if self.wants_hold.is_some() {
            return Err(CallError::OfferPending);
        }
        self.media.negotiator.hold(holds);
        let offer = self.media.negotiator.offer(random);
        let offered = agent.offer(now, id, offer);
        match offered {
            Ok(()) => self.wants_hold = Some(holds),
            Err(_) => self.media.negotiator.hold(self.holds),
        }
        offered
    }

    /// Sends a key as telephone event, or by INFO to an end that does not accept these.
    ///
    /// # Errors
    /// [`CallError`] if the call has no media, or is not established.
    pub fn press(&mut self, agent: &mut Agent, now: Instant, key: char) -> Result<(), CallError> {
        let id = self.id.ok_or(CallError::Unknown)?;
        let session = self.media.session.as_mut().ok_or(CallError::Unknown)?;
        match session.press(key) {
            Ok(()) => Ok(()),
            Err(_) => agent.press(now, id, key),
        }
    }

    /// Offers the local address `local` of RTP, and its `public` address: after
    /// [`Change::Moved`](crate::Change::Moved).
    ///
    /// # Errors
    /// [`CallError`] if the call is not established, or a change of its session is pending.
    pub fn move_to(
        &mut self,
        agent: &mut Agent,
        now: Instant,
        local: SocketAddr,
        public: Option<SocketAddr>,
        random: Random<'_>,
    ) -> Result<(), CallError> {
        let id = self.id.ok_or(CallError::Unknown)?;
        self.media.negotiator.move_to(local);
        self.media.negotiator.publish(public, None);
        let offer = self.media.negotiator.offer(random);
        agent.offer(now, id, offer)
    }

    /// Makes the media of a branch current. Media of a new branch start from the first offer.
    pub(crate) fn select(&mut self, branch: u32) {
        let Some(before) = self.branch.replace(branch).filter(|before| *before != branch) else {
            return;
        };
        let place = self.others.iter().position(|(number, _)| *number == branch);
        let selected = match place {
            Some(place) => self.others.swap_remove(place).1,
            None => match &self.offered {
                Some(offered) => DialogMedia::new(offered.clone()),
                None => return,
            },
        };
        self.others.push((before, mem::replace(&mut self.media, selected)));
    }

    /// Removes the media of other branches, since one is established.
    pub(crate) fn forget_others(&mut self) {
        self.others.clear();
        self.offered = None;
    }
}
