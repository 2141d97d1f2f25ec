//! The secrets that are kept between calls (RFC 6189 sections 4.3 and 4.6.1), as data.

use crate::hello_hash::bytes;
use alloc::collections::BTreeMap;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use zeroize::Zeroizing;

/// The most peers of a [`Cache`].
const PEERS: usize = 4096;

/// The identifier of an end, random and permanent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zid(pub [u8; 12]);

impl fmt::Display for Zid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(f, &self.0)
    }
}

impl FromStr for Zid {
    type Err = ZidError;

    /// # Errors
    /// There are not 24 hexadecimal digits.
    fn from_str(digits: &str) -> Result<Self, ZidError> {
        bytes(digits).map(Self).ok_or(ZidError)
    }
}

/// A text is no ZID: 24 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZidError;

impl fmt::Display for ZidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ZID does not have 24 hexadecimal digits")
    }
}

impl core::error::Error for ZidError {}

/// The secrets shared with one peer.
#[derive(Clone, PartialEq, Eq)]
pub struct Retained {
    /// The secret of the last call.
    pub rs1: Zeroizing<[u8; 32]>,
    /// The secret of the call before: the peer may have missed the end of the last agreement.
    pub rs2: Option<Zeroizing<[u8; 32]>>,
    /// Both users have compared the SAS.
    pub is_verified: bool,
}

impl fmt::Debug for Retained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retained").field("is_verified", &self.is_verified).finish_non_exhaustive()
    }
}

/// A change of the cache.
#[derive(Clone, Debug)]
pub struct Update {
    /// The ZID of the peer.
    pub peer: Zid,
    /// The secrets.
    pub retained: Retained,
    /// The time until they expire, if they do.
    pub lifetime: Option<Duration>,
}

/// The secrets of all peers, by their ZIDs, at most 4,096.
///
/// It is written and parsed as lines of text: the ZID, both secrets, `verified` or `-`, and the
/// time when they expire in seconds of the owner's clock, or `-`. The text has to be kept secret.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    peers: BTreeMap<Zid, (Retained, Option<u64>)>,
}

impl Cache {
    /// The secrets of a peer.
    #[must_use]
    pub fn get(&self, peer: Zid) -> Option<&Retained> {
        self.peers.get(&peer).map(|(retained, _)| retained)
    }

    /// Stores secrets. `now` is in seconds, as for [`Cache::expire`]. If there are too many, the
    /// entry of a peer that was never verified is dropped, or of any.
    pub fn store(&mut self, update: Update, now: u64) {
        let Update { peer, retained, lifetime } = update;
        if self.peers.len() >= PEERS && !self.peers.contains_key(&peer) {
            let unverified = self.peers.iter().find(|(_, (retained, _))| !retained.is_verified);
            if let Some(dropped) = unverified.or(self.peers.iter().next()).map(|(zid, _)| *zid) {
                self.peers.remove(&dropped);
            }
        }
        let end = lifetime.map(|lifetime| now.saturating_add(lifetime.as_secs()));
        self.peers.insert(peer, (retained, end));
    }

    /// Drops the secrets that have expired. `now` is in seconds, for example since 1970.
    pub fn expire(&mut self, now: u64) {
        self.peers.retain(|_, (_, end)| end.is_none_or(|end| now < end));
    }

    /// The number of peers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns true if there is no peer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (zid, (Retained { rs1, rs2, is_verified }, end)) in &self.peers {
            write!(f, "{zid} ")?;
            hex(f, &**rs1)?;
            f.write_str(" ")?;
            match rs2 {
                Some(rs2) => hex(f, &**rs2)?,
                None => f.write_str("-")?,
            }
            f.write_str(if *is_verified { " verified " } else { " - " })?;
            match end {
                Some(end) => writeln!(f, "{end}")?,
                None => f.write_str("-\n")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Cache {
    type Err = CacheError;

    /// # Errors
    /// A line is malformed, or there are too many.
    fn from_str(text: &str) -> Result<Self, CacheError> {
        let mut cache = Self::default();
        for (index, line) in text.lines().enumerate() {
            let (zid, entry) = entry(line).ok_or(CacheError { line: index + 1 })?;
            cache.peers.insert(zid, entry);
            if cache.peers.len() > PEERS {
                return Err(CacheError { line: index + 1 });
            }
        }
        Ok(cache)
    }
}

/// The entry in a line.
fn entry(line: &str) -> Option<(Zid, (Retained, Option<u64>))> {
    let mut words = line.split(' ');
    let zid = Zid(bytes(words.next()?)?);
    let rs1 = Zeroizing::new(bytes(words.next()?)?);
    let rs2 = match words.next()? {
        "-" => None,
        digits => Some(Zeroizing::new(bytes(digits)?)),
    };
    let is_verified = match words.next()? {
        "-" => false,
        "verified" => true,
        _ => return None,
    };
    let end = match words.next()? {
        "-" => None,
        seconds => Some(seconds.parse().ok()?),
    };
    words.next().is_none().then_some((zid, (Retained { rs1, rs2, is_verified }, end)))
}

/// Writes bytes as hexadecimal digits.
fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The text of a cache has a malformed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheError {
    /// The number of the line, from 1 on.
    pub line: usize,
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of the ZRTP cache is not: ZID, secret, secret or -, verified or -, time or -",
            self.line
        )
    }
}

impl core::error::Error for CacheError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn update(peer: u16, is_verified: bool, lifetime: Option<u64>) -> Update {
        let mut zid = [1; 12];
        zid[..2].copy_from_slice(&peer.to_be_bytes());
        let rs2 = is_verified.then(|| Zeroizing::new([8; 32]));
        Update {
            peer: Zid(zid),
            retained: Retained { rs1: Zeroizing::new([7; 32]), rs2, is_verified },
            lifetime: lifetime.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_written_cache_is_read_back() {
        let mut cache = Cache::default();
        cache.store(update(1, true, None), 100);
        cache.store(update(2, false, Some(50)), 100);
        let text = cache.to_string();
        let read: Cache = text.parse().expect("the text is a cache");
        assert_eq!((read.to_string(), read.len()), (text.clone(), 2));
        let peer = update(1, true, None).peer;
        assert_eq!(peer.to_string().parse(), Ok(peer));
        assert_eq!(peer.to_string()[1..].parse::<Zid>(), Err(ZidError));
        assert_eq!(read.get(peer), cache.get(peer));

        let mut read = read;
        read.expire(149);
        assert_eq!(read.len(), 2);
        read.expire(150);
        assert_eq!(read.len(), 1);
        for (line, damaged) in [(1, text.replacen("01", "0g", 1)), (2, text.replace("150", "x"))] {
            assert_eq!(damaged.parse::<Cache>().unwrap_err(), CacheError { line });
        }
    }

    #[test]
    fn a_full_cache_drops_an_unverified_peer() {
        let mut cache = Cache::default();
        for peer in 0..PEERS as u16 {
            cache.store(update(peer, peer != 1000, None), 0);
        }
        cache.store(update(5000, true, None), 0);
        assert_eq!(cache.len(), PEERS);
        assert!(cache.get(update(1000, false, None).peer).is_none());
        cache.store(update(5000, true, None), 0);
        assert_eq!(cache.len(), PEERS);
        assert!(cache.get(update(5000, true, None).peer).is_some());
    }
}
