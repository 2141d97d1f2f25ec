//! Names of users.

use super::error::Error;
use crate::domains::{self, sip_uri};
use sip_server::config::Domain;
use users::check_name;

/// A user's name and domain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user part.
    pub(crate) name: String,
    /// The domain, in canonical form.
    pub(crate) domain: String,
}

impl Identity {
    /// The SIP URI, for display.
    pub(crate) fn uri(&self) -> String {
        sip_uri(&self.name, &self.domain)
    }
}

/// The identity given by `name`, which may contain a domain, and by the flag `--domain`. An alias
/// is replaced by its domain.
///
/// # Errors
/// [`Error`] if the name is not a user name, or the domain is ambiguous.
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
    check_name(user).map_err(|error| Error::BadName(error.to_string()))?;
    let domain = match (written, flag) {
        (Some(written), Some(flag)) if written != flag => {
            return Err(Error::TwoDomains(written, flag.to_owned()));
        }
        (Some(domain), _) => unalias(domain, served),
        (None, flag) => domain(user, flag, served)?,
    };
    Ok(Identity { name: user.to_owned(), domain })
}

/// The domain of users given without one. `what` names them in the error.
///
/// # Errors
/// [`Error::WhichDomain`] if `flag` is `None` and several domains are served.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let identify = |name, flag, served| identify(name, flag, served);
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
    fn invalid_names_are_refused() {
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
}
