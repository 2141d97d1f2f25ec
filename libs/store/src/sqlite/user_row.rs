//! A row of the table of users.

use crate::User;
use rusqlite::Row;
use sip::digest::Ha1Set;
use sip_server::{AuthName, Logins};
use std::sync::Arc;

/// The user in `row`. Users of one domain share its name, which is cached in `last`.
pub(super) fn user(row: &Row<'_>, last: &mut Arc<str>) -> rusqlite::Result<User> {
    let domain = row.get_ref(0)?.as_str()?;
    if **last != *domain {
        *last = Arc::from(domain);
    }
    let auth_name: Option<String> = row.get(6)?;
    let by_auth_name = match auth_name {
        Some(name) => {
            let ha1 = from_bytes(&row.get(7)?);
            Some(Box::new(AuthName { name: name.into_bytes().into(), ha1 }))
        }
        None => None,
    };
    Ok(User {
        name: row.get(1)?,
        domain: Arc::clone(last),
        logins: Logins {
            by_name: Ha1Set { md5: row.get(2)?, sha256: row.get(3)?, sha512_256: row.get(4)? },
            by_address: row.get::<_, Option<_>>(5)?.as_ref().map(from_bytes),
            by_auth_name,
        },
    })
}

/// The length of the hashes of one name: MD5, SHA-256 and SHA-512/256, concatenated.
const HA1_LENGTH: usize = 16 + 32 + 32;

pub(super) fn to_bytes(ha1: &Ha1Set) -> Vec<u8> {
    [&ha1.md5[..], &ha1.sha256, &ha1.sha512_256].concat()
}

fn from_bytes(bytes: &[u8; HA1_LENGTH]) -> Ha1Set {
    let mut ha1 = Ha1Set { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
    ha1.md5.copy_from_slice(&bytes[..16]);
    ha1.sha256.copy_from_slice(&bytes[16..48]);
    ha1.sha512_256.copy_from_slice(&bytes[48..]);
    ha1
}
