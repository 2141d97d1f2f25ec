//! `barebell registrations`.

use crate::admin::ask::Ask;
use crate::admin::{Registration, Request};
use crate::calls::running;
use crate::cli::{RegistrationsCommand, RegistrationsFlags};
use crate::failure::Failure;
use crate::output::{Out, printable};
use crate::screens::{Rows, aligned};

/// Shows the registrations, or ends one.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed, or there is no such
/// registration.
pub(crate) fn run(flags: &RegistrationsFlags, out: &mut Out) -> Result<(), Failure> {
    let Some(RegistrationsCommand::End { name, contact, user }) = &flags.command else {
        return list(flags, out);
    };
    let (domain, contact) = (user.domain.clone(), contact.clone());
    let request = Request::EndRegistration { name: name.clone(), domain, contact };
    running(&user.place)?.ask_each(&request, &[], &mut |ended: Registration| {
        let [address, contact] = [&ended.address_of_record, &ended.contact].map(|it| printable(it));
        out.line(&format!("ended the registration of {address} at {contact}"))
    })
}

fn list(flags: &RegistrationsFlags, out: &mut Out) -> Result<(), Failure> {
    let rows = Rows {
        request: Request::Registrations,
        none: "no user is registered\n",
        sort: |rows: &mut [Registration]| {
            rows.sort_by(|a, b| {
                (&a.address_of_record, &a.contact).cmp(&(&b.address_of_record, &b.contact))
            });
        },
        table,
    };
    rows.show(&flags.screen, out)
}

/// A table of registrations.
fn table(rows: &[Registration]) -> String {
    let head = ["address of record", "contact", "flow", "expires in", "q", "user agent"];
    let cells = rows.iter().map(|row| {
        let preference = format!("{:.3}", f64::from(row.q) / 1000.0);
        let agent = if row.user_agent.is_empty() { "-" } else { &row.user_agent };
        [
            printable(&row.address_of_record),
            printable(&row.contact),
            row.flow.clone(),
            format!("{} s", row.expires_in),
            preference.trim_end_matches('0').trim_end_matches('.').to_owned(),
            printable(agent),
        ]
    });
    aligned(std::iter::once(head.map(str::to_owned)).chain(cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_aligned_and_harmless() {
        let row = |address: &str, contact: &str, q, agent: &str| Registration {
            address_of_record: address.to_owned(),
            contact: contact.to_owned(),
            flow: "udp:192.0.2.9:5060".to_owned(),
            expires_in: 60,
            q,
            user_agent: agent.to_owned(),
        };
        let text = table(&[
            row("alice@a", "sip:x\x1b[2J@h", 1000, "Phone\n1"),
            row("bo@a", "sip:y@h", 250, ""),
        ]);
        assert_eq!(
            text,
            "address of record  contact           flow                expires in  q     user agent\n\
             alice@a            sip:x\\u{1b}[2J@h  udp:192.0.2.9:5060  60 s        1     Phone\\n1\n\
             bo@a               sip:y@h           udp:192.0.2.9:5060  60 s        0.25  -\n"
        );
    }
}
