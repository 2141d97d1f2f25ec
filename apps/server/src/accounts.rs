//! Managing users: the same for a running server and for commands on a stopped one.

use crate::domains::{self, sip_uri};
use crate::storage::{self, Change, User, Users};
use sip::digest::Ha1Set;
use sip_server::config::Domain;
use sip_server::{AuthName, Logins};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead};
use std::sync::Arc;

/// Longest user name, in bytes.
const MAX_NAME: usize = 128;
/// Longest line of an import, in bytes.
const MAX_LINE: usize = 4096;
/// Bad lines of an import that are named; the others are counted.
const MAX_NAMED_LINES: usize = 10;
/// Lines of an import that a thread hashes at a time.
const CHUNK: usize = 4096;

/// Why users were not managed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The name cannot be a user's.
    BadName(String),
    /// The password cannot be one.
    BadPassword,
    /// The name has no domain and several are served.
    WhichDomain {
        /// The name.
        name: String,
        /// The domains served.
        served: Vec<String>,
    },
    /// The name has one domain and the flag another.
    TwoDomains(String, String),
    /// There is no such user.
    Unknown(String),
    /// The name is one under which somebody else logs in.
    Taken {
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// Lines of an import that cannot be used.
    BadLines {
        /// The first of them: number and what is wrong.
        named: Vec<(u64, String)>,
        /// How many there are in all.
        count: u64,
    },
    /// An import could not be read.
    Read(io::Error),
    /// Storage failed.
    Storage(storage::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(text) => f.write_str(text),
            Self::BadPassword => f.write_str(BAD_PASSWORD),
            Self::WhichDomain { name, served } => write!(
                f,
                "which domain does {name} belong to? Say {name}@DOMAIN or --domain DOMAIN; the \
                 domains served are: {}",
                served.join(", ")
            ),
            Self::TwoDomains(name, flag) => {
                write!(f, "the name says domain {name} and --domain says {flag}: leave one out")
            }
            Self::Unknown(uri) => write!(
                f,
                "there is no user {uri}, so nothing was removed; `barebell user list` shows all"
            ),
            Self::Taken { name, owner } => write!(
                f,
                "{owner} logs in as {name}, so nobody else can have that name: choose another one"
            ),
            Self::BadLines { named, count } => {
                write!(f, "nothing was imported, {count} lines cannot be used:")?;
                for (number, text) in named {
                    write!(f, "\n  line {number}: {text}")?;
                }
                match count - named.len() as u64 {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Self::Read(source) => write!(f, "the users cannot be read: {source}"),
            Self::Storage(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<storage::Error> for Error {
    fn from(source: storage::Error) -> Self {
        Self::Storage(source)
    }
}

const BAD_PASSWORD: &str =
    "the password is empty or has control characters in it; expected one line of text";

/// A user's name and domain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user part.
    pub(crate) name: String,
    /// The domain, in canonical form.
    pub(crate) domain: String,
}

impl Identity {
    /// The SIP URI, to be shown.
    pub(crate) fn uri(&self) -> String {
        sip_uri(&self.name, &self.domain)
    }
}

/// Users that were stored.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What they are now.
    pub(crate) users: Vec<User>,
    /// What that changed.
    pub(crate) change: Change,
}

/// The identity that `name`, which may contain a domain, and the flag `--domain` mean. An alias
/// means its domain.
///
/// # Errors
/// When the name is no user name, or the domain is not clear.
pub(crate) fn identify(
    name: &str,
    flag: Option<&str>,
    served: &[Domain],
) -> Result<Identity, Error> {
    let (user, written) = match name.rsplit_once('@') {
        Some((user, domain)) => (user, Some(domains::canonical(domain).map_err(Error::BadName)?)),
        None => (name, None),
    };
    let user = user.strip_prefix("sip:").unwrap_or(user);
    check_name(user).map_err(Error::BadName)?;
    let domain = match (written, flag) {
        (Some(written), Some(flag)) if written != flag => {
            return Err(Error::TwoDomains(written, flag.to_owned()));
        }
        (Some(domain), _) => unalias(domain, served),
        (None, flag) => domain(user, flag, served)?,
    };
    Ok(Identity { name: user.to_owned(), domain })
}

/// The domain of users that are named without one; `what` names them in the error.
///
/// # Errors
/// When `flag` names none and several are served.
pub(crate) fn domain(what: &str, flag: Option<&str>, served: &[Domain]) -> Result<String, Error> {
    match (flag, served) {
        (Some(flag), _) => Ok(unalias(flag.to_owned(), served)),
        (None, [only]) => Ok(only.name.clone()),
        (None, _) => Err(Error::WhichDomain {
            name: what.to_owned(),
            served: served.iter().map(|domain| domain.name.clone()).collect(),
        }),
    }
}

fn unalias(name: String, served: &[Domain]) -> String {
    domains::find(served, &name).map_or(name, |domain| domain.name.clone())
}

/// Adds the user, or changes the password of the one there is, who keeps an authentication name where none is given.
///
/// # Errors
/// When the password is none, the authentication name is none or somebody else's, or storage fails.
pub(crate) fn add(
    storage: &dyn Users,
    identity: &Identity,
    password: &str,
    auth_name: Option<&str>,
) -> Result<Stored, Error> {
    check_password(password.as_bytes()).map_err(|_| Error::BadPassword)?;
    if let Some(auth_name) = auth_name {
        check_auth_name(auth_name, &identity.domain).map_err(Error::BadName)?;
    }
    let domain = Arc::from(identity.domain.as_str());
    let known = AuthNames::of(storage, &domain)?;
    let auth_name = auth_name.or_else(|| known.of_user(&identity.name));
    let users = vec![user(&identity.name, &domain, password.as_bytes(), auth_name)];
    known.check(storage, &users)?;
    let change = storage.put_users(&users)?;
    Ok(Stored { users, change })
}

/// Removes the user.
///
/// # Errors
/// When there is none, or storage fails.
pub(crate) fn remove(storage: &dyn Users, identity: &Identity) -> Result<(), Error> {
    match storage.remove_user(&identity.name, &identity.domain)? {
        true => Ok(()),
        false => Err(Error::Unknown(identity.uri())),
    }
}

/// Adds the users that `input` names, one `name:password` or `name<authentication name>:password` on a line, to `domain`;
/// all, or on an error none.
///
/// # Errors
/// When a line cannot be used, or reading or storage fails.
pub(crate) fn import(
    storage: &dyn Users,
    domain: &str,
    input: &mut dyn BufRead,
) -> Result<Stored, Error> {
    let domain: Arc<str> = Arc::from(domain);
    let known = AuthNames::of(storage, &domain)?;
    let mut users = read_users(input, &domain, &known)?;
    // In the order of the database's tree its pages are written once. The sort is stable, so of
    // two lines with one name the later still counts.
    users.sort_by(|a, b| a.name.cmp(&b.name));
    known.check(storage, &users)?;
    let change = storage.put_users(&users)?;
    Ok(Stored { users, change })
}

fn read_users(
    input: &mut dyn BufRead,
    domain: &Arc<str>,
    known: &AuthNames,
) -> Result<Vec<User>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut users = Vec::new();
    let mut named = Vec::new();
    let mut count = 0;
    let mut number = 0;
    loop {
        let lines = read_lines(input, &mut number, CHUNK * threads).map_err(Error::Read)?;
        if lines.is_empty() {
            break;
        }
        let parsed = std::thread::scope(|scope| {
            let parts: Vec<_> = lines
                .chunks(lines.len().div_ceil(threads))
                .map(|part| {
                    scope.spawn(|| part.iter().map(|line| line.user(domain, known)).collect())
                })
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<Vec<_>>>()
        });
        for (line, user) in lines.iter().zip(parsed.into_iter().flatten()) {
            match user {
                Ok(user) => users.push(user),
                Err(text) => {
                    count += 1;
                    if named.len() < MAX_NAMED_LINES {
                        named.push((line.number, text));
                    }
                }
            }
        }
    }
    if count > 0 { Err(Error::BadLines { named, count }) } else { Ok(users) }
}

/// A line of an import that is neither empty nor a comment.
struct Line {
    number: u64,
    bytes: Vec<u8>,
}

impl Line {
    fn user(&self, domain: &Arc<str>, known: &AuthNames) -> Result<User, String> {
        if self.bytes.len() > MAX_LINE {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        let colon = self.bytes.iter().position(|&byte| byte == b':');
        let (name, password) = colon
            .map(|colon| (&self.bytes[..colon], &self.bytes[colon + 1..]))
            .ok_or("expected name:password, and there is no colon")?;
        let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8")?;
        let (name, auth_name) = match name.strip_suffix('>').and_then(|name| name.split_once('<')) {
            Some((name, auth_name)) => (name, Some(auth_name)),
            None => (name, None),
        };
        check_name(name)?;
        if let Some(auth_name) = auth_name {
            check_auth_name(auth_name, domain)?;
        }
        check_password(password)?;
        Ok(user(name, domain, password, auth_name.or_else(|| known.of_user(name))))
    }
}

/// Reads up to `most` lines that are to be used. None: the end. `number` counts all lines.
fn read_lines(input: &mut dyn BufRead, number: &mut u64, most: usize) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    while lines.len() < most {
        let mut bytes = Vec::new();
        // A line without end must not fill the memory; what is left of it counts as more lines.
        let mut bounded = io::Read::take(&mut *input, MAX_LINE as u64 + 2);
        if bounded.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        *number += 1;
        while let Some(b'\n' | b'\r') = bytes.last() {
            bytes.pop();
        }
        if !bytes.is_empty() && bytes[0] != b'#' {
            lines.push(Line { number: *number, bytes });
        }
    }
    Ok(lines)
}

fn user(name: &str, domain: &Arc<str>, password: &[u8], auth_name: Option<&str>) -> User {
    let ha1 = |login: &str| Ha1Set::new(login.as_bytes(), domain.as_bytes(), password);
    let logins = Logins {
        by_name: ha1(name),
        by_address: Some(ha1(&format!("{name}@{domain}"))),
        by_auth_name: auth_name
            .map(|auth| Box::new(AuthName { name: auth.as_bytes().into(), ha1: ha1(auth) })),
    };
    User { name: name.to_owned(), domain: Arc::clone(domain), logins }
}

/// The authentication names that there are in a domain.
struct AuthNames {
    /// Each with the name of its user.
    owners: HashMap<String, String>,
    /// The other way round.
    names: HashMap<String, String>,
}

impl AuthNames {
    fn of(storage: &dyn Users, domain: &str) -> Result<Self, Error> {
        let owners = storage.auth_names(domain)?;
        let names = owners.iter().map(|(name, owner)| (owner.clone(), name.clone())).collect();
        Ok(Self { owners, names })
    }

    /// That of the user called `name`.
    fn of_user(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str)
    }

    /// Sees to it that with `users`, who are of the domain, each name means one user.
    ///
    /// # Errors
    /// When one would be two users'.
    fn check(&self, storage: &dyn Users, users: &[User]) -> Result<(), Error> {
        let mut owners = self.owners.clone();
        // Those who get another one make room.
        for user in users {
            if let Some(name) = self.of_user(&user.name) {
                owners.remove(name);
            }
        }
        let new: HashSet<&str> = users.iter().map(|user| user.name.as_str()).collect();
        let taken = |name: &str, owner: &str, user: &User| Error::Taken {
            name: name.to_owned(),
            owner: sip_uri(owner, &user.domain),
        };
        for user in users {
            let Some(auth) = &user.logins.by_auth_name else { continue };
            let name = String::from_utf8_lossy(&auth.name).into_owned();
            let is_name = name != user.name
                && (new.contains(&name[..]) || storage.has_user(&name, &user.domain)?);
            if is_name {
                return Err(taken(&name, &name, user));
            }
            match owners.insert(name.clone(), user.name.clone()) {
                Some(owner) if owner != user.name => return Err(taken(&name, &owner, user)),
                _ => {}
            }
        }
        for user in users {
            if let Some(owner) = owners.get(&user.name).filter(|owner| **owner != user.name) {
                return Err(taken(&user.name, owner, user));
            }
        }
        Ok(())
    }
}

/// An authentication name may be much, but not what means a user already.
fn check_auth_name(name: &str, domain: &str) -> Result<(), String> {
    let (local, rest) = name.split_once('@').unwrap_or((name, ""));
    if rest == domain {
        return Err(format!(
            "`{name}` means the user {local}, who logs in under it in any case; expected a name without @{domain}"
        ));
    }
    check_name(local)?;
    if rest.is_empty() { Ok(()) } else { check_name(rest) }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the user name is empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("the user name is longer than {MAX_NAME} bytes"));
    }
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || "@:\"\\<>%".contains(c);
    match name.chars().find(|&c| is_bad(c)) {
        Some(c) => Err(format!(
            "the user name `{}` contains {c:?}; expected no spaces, no control characters and \
             none of @ : \" \\ < > %",
            name.escape_debug()
        )),
        None => Ok(()),
    }
}

fn check_password(password: &[u8]) -> Result<(), String> {
    if password.is_empty() || password.iter().any(u8::is_ascii_control) {
        return Err(BAD_PASSWORD.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::tests::open;

    fn served(names: &[&str]) -> Vec<Domain> {
        let alias = |name: &str| vec![format!("alias.{name}")];
        names.iter().map(|&name| Domain { name: name.to_owned(), aliases: alias(name) }).collect()
    }

    fn identity(name: &str, domain: &str) -> Identity {
        Identity { name: name.to_owned(), domain: domain.to_owned() }
    }

    #[test]
    fn a_name_means_a_user_of_a_domain() {
        let one = served(&["a.com"]);
        let two = served(&["a.com", "b.com"]);
        let identify = |name, flag, served| super::identify(name, flag, served);
        assert_eq!(identify("al", None, &one).unwrap(), identity("al", "a.com"));
        assert_eq!(identify("al@B.com", None, &two).unwrap(), identity("al", "b.com"));
        assert_eq!(identify("sip:al@b.com", None, &two).unwrap(), identity("al", "b.com"));
        assert_eq!(identify("al", Some("b.com"), &two).unwrap(), identity("al", "b.com"));
        assert_eq!(identify("al@alias.b.com", None, &two).unwrap(), identity("al", "b.com"));
        assert_eq!(identify("al@else.com", None, &two).unwrap(), identity("al", "else.com"));
        let error = identify("al", None, &two).unwrap_err().to_string();
        assert!(error.contains("a.com, b.com"), "{error}");
        assert!(matches!(identify("al@a.com", Some("b.com"), &two), Err(Error::TwoDomains(..))));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let one = served(&["a.com"]);
        for name in
            ["", "@a.com", "a b", "a:b", "a@b@a.com", "a\n", "a\"", "a%20", "al@", "a\u{a0}b"]
        {
            assert!(matches!(identify(name, None, &one), Err(Error::BadName(_))), "{name}");
        }
        for name in ["alice", "+49-30/123", "Jürgen", "a.b_c~d!e*f'g(h)", "a;b?c=d&e,f$g", "#1"] {
            assert!(identify(name, None, &one).is_ok(), "{name}");
        }
    }

    fn imported(text: &[u8]) -> Result<Vec<User>, Error> {
        let known = AuthNames { owners: HashMap::new(), names: HashMap::new() };
        read_users(&mut &*text, &Arc::from("a.com"), &known)
    }

    #[test]
    fn an_import_passes_over_comments_and_keeps_colons() {
        let users =
            imported(b"# users\n\nalice:se:cret\r\nbob: with space \n#x:y\ncarol:\xff").unwrap();
        let expected: [(&str, &[u8]); 3] =
            [("alice", b"se:cret"), ("bob", b" with space "), ("carol", b"\xff")];
        let domain = Arc::from("a.com");
        assert_eq!(users, expected.map(|(name, password)| user(name, &domain, password, None)));
        assert_eq!(imported(b"").unwrap(), []);
    }

    #[test]
    fn bad_lines_are_named_and_counted() {
        let mut text = b"alice:x\nnobody\n:x\nbob:\n\xff:x\n".to_vec();
        text.extend_from_slice(&[b'x'; 5000]);
        let Err(Error::BadLines { named, count }) = imported(&text) else { panic!("imported") };
        let numbers: Vec<u64> = named.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
        assert_eq!(count, 6);
        let Err(error) = imported(&b"x\n".repeat(25)) else { panic!("imported") };
        assert!(
            error
                .to_string()
                .ends_with("line 10: expected name:password, and there is no colon\n  and 15 more"),
            "{error}"
        );
    }

    #[test]
    fn a_bad_line_imports_nothing_and_the_last_of_a_name_counts() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        assert!(import(&storage, "a.com", &mut &b"alice:1\nbob\n"[..]).is_err());
        assert_eq!(storage.user_count().unwrap(), 0);
        let stored =
            import(&storage, "a.com", &mut &b"bob:1\nalice:1\nbob:2\nalice:3\n"[..]).unwrap();
        assert_eq!(stored.change, Change { added: 2, changed: 2 });
        let mut users = Vec::new();
        storage
            .users(None, &mut |user| {
                users.push(user);
                true
            })
            .unwrap();
        let domain = Arc::from("a.com");
        assert_eq!(users, [user("alice", &domain, b"3", None), user("bob", &domain, b"2", None)]);
    }

    #[test]
    fn lines_beyond_one_chunk_keep_their_order() {
        let count = CHUNK * 5 + 7;
        let text: String = (0..count).map(|i| format!("u{i}:p\n")).collect();
        let users = imported(text.as_bytes()).unwrap();
        assert!(
            users
                .iter()
                .map(|user| &user.name)
                .eq((0..count).map(|i| format!("u{i}")).collect::<Vec<_>>().iter())
        );
    }

    #[test]
    fn a_user_is_added_changed_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let alice = identity("alice", "a.com");
        assert_eq!(add(&storage, &alice, "1", None).unwrap().change.added, 1);
        assert_eq!(add(&storage, &alice, "2", None).unwrap().change.changed, 1);
        assert!(matches!(add(&storage, &alice, "", None), Err(Error::BadPassword)));
        remove(&storage, &alice).unwrap();
        assert!(matches!(remove(&storage, &alice), Err(Error::Unknown(_))));
    }

    #[test]
    fn an_authentication_name_stays_until_there_is_another_and_is_one_users_alone() {
        let directory = tempfile::tempdir().unwrap();
        let storage = open(directory.path());
        let add = |name: &str, auth: Option<&str>| {
            add(&storage, &identity(name, "a.com"), "secret", auth).map(|stored| {
                stored.users[0].logins.by_auth_name.as_ref().map(|auth| auth.name.to_vec())
            })
        };
        let is_taken = |result| matches!(result, Err(Error::Taken { .. }));
        assert_eq!(add("alice", Some("x")).unwrap().unwrap(), b"x");
        assert_eq!(add("alice", None).unwrap().unwrap(), b"x", "with another password");
        assert!(is_taken(add("bob", Some("x"))));
        assert!(is_taken(add("x", None)), "alice logs in as x");
        assert!(is_taken(add("bob", Some("alice"))));
        assert_eq!(add("alice", Some("y")).unwrap().unwrap(), b"y");
        assert_eq!(add("bob", Some("x")).unwrap().unwrap(), b"x", "it is free again");
        for bad in ["", "a b", "bob@a.com", "a@b@c"] {
            assert!(matches!(add("bob", Some(bad)), Err(Error::BadName(_))), "{bad}");
        }
        assert_eq!(add("bob", Some("7@isp.example")).unwrap().unwrap(), b"7@isp.example");
        let import = |text: &str| import(&storage, "a.com", &mut text.as_bytes());
        assert!(is_taken(import("carol<y>:p\n").map(|_| None)));
        assert!(is_taken(import("carol<d>:p\ndave<d>:p\n").map(|_| None)));
        assert!(is_taken(import("carol<dave>:p\ndave:p\n").map(|_| None)));
        let stored = import("carol<y>:p<q>:r\nalice<z>:p\nbob:p\n").unwrap();
        let names: Vec<_> = stored
            .users
            .iter()
            .map(|user| String::from_utf8_lossy(&user.logins.by_auth_name.as_ref().unwrap().name))
            .collect();
        assert_eq!(names, ["z", "7@isp.example", "y"], "alice makes room for carol");
    }
}
