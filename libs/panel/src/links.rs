//! Links to the settings of phones. A link has a random secret, is for one fetch, and expires. It
//! is stored as a hash until it is fetched, so that it survives a restart.

use crate::server::Mark;
use crate::templates::Template;
use crate::tokens;
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use store::PhoneLink;

/// The time after which a link expires.
pub(crate) const LIFE: Duration = Duration::from_secs(24 * 3600);
/// The time after the first fetch until which its source may repeat it: phones ask twice, with and
/// without a name of their own.
const REPEATED: Duration = Duration::from_secs(60);
/// The transports of phones.
pub(crate) const TRANSPORTS: [&str; 3] = ["udp", "tcp", "tls"];
/// The maximum number of links. Beyond it, the oldest one ends.
const MAX_LINKS: usize = 1024;
/// The maximum number of links of a user.
const MAX_OF_USER: usize = 8;

/// A link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The user, `name@domain`.
    pub(crate) user: String,
    pub(crate) template: &'static Template,
    /// The host of the server, as the phone reaches it.
    pub(crate) server: String,
    /// The transport: `udp`, `tcp` or `tls`.
    pub(crate) transport: &'static str,
    pub(crate) port: u16,
    /// The mark of the password that the user had then, or got by the last fetch. With another
    /// password, or without the user, the link has ended.
    pub(crate) mark: Mark,
    /// The time when it was made.
    pub(crate) made: Duration,
    /// The time and the source of the first fetch.
    pub(crate) fetched: Option<(Duration, IpAddr)>,
}

impl Link {
    fn has_expired(&self, now: Duration) -> bool {
        now.saturating_sub(self.made) >= LIFE
    }

    /// The link as it is stored, with the random `secret`.
    pub(crate) fn stored(&self, secret: &str) -> PhoneLink {
        PhoneLink {
            hash: tokens::hash(secret),
            user: self.user.clone(),
            kind: self.template.name.to_owned(),
            server: self.server.clone(),
            transport: self.transport.to_owned(),
            port: self.port,
            mark: self.mark,
            made: self.made.as_secs(),
        }
    }

    /// The stored link. `None` if this version has no such phone or transport.
    fn of_stored(stored: PhoneLink) -> Option<Self> {
        let PhoneLink { user, kind, server, transport, port, mark, made, .. } = stored;
        let transport = TRANSPORTS.into_iter().find(|it| *it == transport)?;
        let (template, made) = (Template::named(&kind)?, Duration::from_secs(made));
        Some(Self { user, template, server, transport, port, mark, made, fetched: None })
    }
}

/// The transport `wanted`, or the first usual one, that the server listens for, with its port.
pub(crate) fn listen(status: &Value, wanted: &str) -> Option<(&'static str, u16)> {
    let listens = status["listens"].as_array();
    let listens: Vec<_> = listens.into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = TRANSPORTS.into_iter().filter(|it| wanted.is_empty() || *it == wanted);
    wanted.into_iter().find_map(|transport| {
        let port = listens.iter().find_map(|listen| {
            let rest = listen.strip_prefix(transport)?.strip_prefix(':')?;
            let address = rest.split(' ').next()?;
            address.rsplit_once(':')?.1.parse().ok()
        })?;
        Some((transport, port))
    })
}

/// The transports for phones that the server with this `status` listens for.
pub(crate) fn transports(status: &Value) -> impl Iterator<Item = &'static str> {
    TRANSPORTS.into_iter().filter(move |transport| listen(status, transport).is_some())
}

/// A link that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The whole link, which is shown once.
    pub(crate) url: String,
    /// The time of its end in seconds since 1970.
    pub(crate) until: u64,
    /// True if its host is a loopback address.
    pub(crate) is_local: bool,
    pub(crate) template: &'static Template,
}

/// The hash of the secret of a link.
type Hash = [u8; 32];

/// All links, by the hashes of their secrets.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<Hash, Link>);

impl Links {
    /// The stored links that have not expired at `now`, and the hashes of the others.
    pub(crate) fn of_stored(stored: Vec<PhoneLink>, now: Duration) -> (Self, Vec<Hash>) {
        let (mut links, mut ended) = (HashMap::new(), Vec::new());
        for link in stored {
            let hash = link.hash;
            match Link::of_stored(link).filter(|link| !link.has_expired(now)) {
                Some(link) => drop(links.insert(hash, link)),
                None => ended.push(hash),
            }
        }
        (Self(links), ended)
    }

    /// Ends the links that have expired. Returns the hashes of those that were not fetched.
    pub(crate) fn end_old(&mut self, now: Duration) -> Vec<Hash> {
        let mut ended = Vec::new();
        self.0.retain(|hash, link| {
            let has_expired = link.has_expired(now);
            if has_expired && link.fetched.is_none() {
                ended.push(*hash);
            }
            !has_expired
        });
        ended
    }

    /// Adds a link with the random `secret`. Returns the hash of the one that ends for it, if there
    /// are too many.
    pub(crate) fn add(&mut self, secret: &str, link: Link) -> Option<Hash> {
        let oldest = |links: &HashMap<Hash, Link>, user: Option<&str>| {
            let of = links.iter().filter(|(_, it)| user.is_none_or(|user| user == it.user));
            of.min_by_key(|(_, it)| it.made).map(|(hash, _)| *hash)
        };
        let own = self.0.values().filter(|it| it.user == link.user).count();
        let surplus = match () {
            () if own >= MAX_OF_USER => oldest(&self.0, Some(&link.user)),
            () if self.0.len() >= MAX_LINKS => oldest(&self.0, None),
            () => None,
        };
        surplus.map(|hash| self.0.remove(&hash));
        self.0.insert(tokens::hash(secret), link);
        surplus
    }

    /// The link with this secret, if `source` may fetch it now.
    pub(crate) fn find(
        &mut self,
        secret: &str,
        source: IpAddr,
        now: Duration,
    ) -> Option<&mut Link> {
        let link = self.0.get_mut(&tokens::hash(secret))?;
        let may = match link.fetched {
            None => !link.has_expired(now),
            Some((at, by)) => by == source && now.saturating_sub(at) < REPEATED,
        };
        may.then_some(link)
    }

    /// The links of a user that have not expired, the latest first.
    pub(crate) fn of(&self, user: &str, now: Duration) -> Vec<&Link> {
        let is_it = |it: &&Link| it.user == user && !it.has_expired(now);
        let mut links: Vec<_> = self.0.values().filter(is_it).collect();
        links.sort_by_key(|it| std::cmp::Reverse(it.made));
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates::TEMPLATES;
    use serde_json::json;

    fn link(user: &str, made: u64) -> Link {
        Link {
            user: user.to_owned(),
            template: &TEMPLATES[0],
            server: "192.0.2.1".to_owned(),
            transport: "udp",
            port: 5060,
            mark: [0; 32],
            made: Duration::from_secs(made),
            fetched: None,
        }
    }

    fn source(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_port_is_that_of_the_transport() {
        let status = json!({
            "listens": ["tcp:0.0.0.0:5070", "udp:[::]:5060 as 192.0.2.1:5099", "tls:0.0.0.0:5061"],
        });
        assert_eq!(listen(&status, ""), Some(("udp", 5060)));
        assert_eq!(listen(&status, "tcp"), Some(("tcp", 5070)));
        assert_eq!(listen(&status, "tls"), Some(("tls", 5061)));
        assert_eq!((listen(&status, "ws"), listen(&Value::Null, "")), (None, None));
        assert_eq!(transports(&status).collect::<Vec<_>>(), ["udp", "tcp", "tls"]);
        assert_eq!(transports(&Value::Null).count(), 0);
    }

    #[test]
    fn a_link_is_fetched_once_and_expires() {
        let mut links = Links::default();
        let at = Duration::from_secs;
        links.add("a", link("alice", 100));
        links.add("b", link("alice", 100));
        assert!(links.find("c", source(1), at(100)).is_none());
        let found = links.find("a", source(1), at(200)).unwrap();
        found.fetched = Some((at(200), source(1)));
        assert!(links.find("a", source(2), at(201)).is_none(), "of another source");
        assert!(links.find("a", source(1), at(259)).is_some(), "the phone repeats it");
        assert!(links.find("a", source(1), at(260)).is_none());
        let end = at(100) + LIFE;
        assert!(links.find("b", source(1), end - at(1)).is_some());
        assert!(links.find("b", source(1), end).is_none());
        assert_eq!(links.of("alice", end - at(1)).len(), 2);
        assert_eq!((links.of("bob", at(100)).len(), links.of("alice", end).len()), (0, 0));
    }

    #[test]
    fn stored_links_hold_until_they_expire() {
        let at = Duration::from_secs;
        let stored = |secret: &str, made| link("alice", made).stored(secret);
        let other = PhoneLink { kind: "fax".to_owned(), ..stored("c", 100) };
        let now = at(99) + LIFE;
        let all = vec![stored("a", 100), stored("b", 99), other.clone()];
        let (mut links, ended) = Links::of_stored(all, now);
        assert_eq!(ended, [tokens::hash("b"), other.hash]);
        assert_eq!(links.find("a", source(1), now).unwrap().stored("a"), stored("a", 100));
        assert!(links.end_old(now).is_empty());
        assert_eq!(links.end_old(now + at(1)), [tokens::hash("a")]);
        assert!(links.0.is_empty());
        // One that was fetched is not stored any more.
        let fetched = Some((now, source(1)));
        links.add("d", Link { fetched, ..link("alice", 100) });
        assert!(links.end_old(now + at(1)).is_empty());
    }

    #[test]
    fn links_are_bounded_for_a_user_and_in_all() {
        let mut links = Links::default();
        for number in 0..20 {
            links.add(&number.to_string(), link("alice", number));
        }
        assert_eq!(links.of("alice", Duration::from_secs(20)).len(), MAX_OF_USER);
        for number in 0..2000 {
            links.add(&format!("u{number}"), link(&format!("u{number}"), 30 + number));
        }
        assert_eq!(links.0.len(), MAX_LINKS);
    }
}
