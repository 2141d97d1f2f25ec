//! `barebell calls`.

use crate::access::Access;
use crate::admin::ask::Ask;
use crate::admin::{CallEnded, Request};
use crate::call_lines::{Call, Packets, name};
use crate::cli::{CallsCommand, CallsFlags, Place};
use crate::failure::Failure;
use crate::history;
use crate::output::{Out, printable};
use crate::screens::{Rows, aligned, refuse_if_elsewhere};
use std::time::Duration;

/// Shows the calls that are relayed or pass the B2BUA, or ends one.
///
/// # Errors
/// [`Failure`] if neither the server nor its data can be accessed, or there is no such call.
pub(crate) fn run(flags: &CallsFlags, out: &mut Out) -> Result<(), Failure> {
    match &flags.command {
        None if flags.history.history => history::run(&flags.history, &flags.screen, out),
        None => {
            let (request, none) =
                (Request::Calls, "no call stands that is relayed or passes the B2BUA\n");
            // They come in order.
            Rows { request, none, sort: |_| {}, table }.show(&flags.screen, out)
        }
        Some(CallsCommand::End { id, place }) => {
            let ended: CallEnded = running(place)?.ask(&Request::EndCall { id: id.clone() })?;
            let [caller, callee] = [&ended.caller, &ended.callee].map(|uri| name(uri));
            out.line(&format!("ended the call of {caller} to {callee}"))
        }
    }
}

/// The server of `place`, or its data.
pub(crate) fn running(place: &Place) -> Result<Access, Failure> {
    match Access::open_existing(place)? {
        Some(access) if access.is_of_server() => Ok(access),
        access => {
            let data = place.settings()?.data()?;
            refuse_if_elsewhere(place, &data)?;
            access.ok_or_else(|| {
                Failure::message(format!("no server runs with the data in {}", data.display()))
            })
        }
    }
}

/// The time without packets from which on it is shown: shorter times are the silence of a talk.
const SHOWN_SILENCE: f64 = 10.0;

/// A duration in whole seconds.
fn seconds(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds as u64)).to_string()
}

/// A table of calls. A column with two values has that of the packets from the caller first.
fn table(calls: &[Call]) -> String {
    let head = ["id", "caller", "callee", "time", "silent", "codec", "loss", "jitter", "MOS"];
    let rows = calls.iter().map(|call| {
        let both = |show: &dyn Fn(&Packets) -> Option<String>| {
            let Some(stream) = call.streams.first() else { return "-".to_owned() };
            let [one, other] = [&stream.from_caller, &stream.from_callee]
                .map(|packets| show(packets).unwrap_or_else(|| "-".to_owned()));
            format!("{one} / {other}")
        };
        let time = call.duration.map_or_else(|| "ringing".to_owned(), seconds);
        let silent = call.silent.filter(|silent| *silent >= SHOWN_SILENCE);
        [
            printable(&call.id),
            name(&call.caller),
            name(&call.callee),
            time,
            silent.map_or_else(|| "-".to_owned(), seconds),
            both(&|packets| packets.codec.as_deref().map(printable)),
            both(&|packets| packets.loss.map(|loss| format!("{loss:.1} %"))),
            both(&|packets| packets.jitter.map(|jitter| format!("{jitter:.0} ms"))),
            both(&|packets| packets.mos.map(|mos| format!("{mos:.1}"))),
        ]
    });
    aligned(std::iter::once(head.map(str::to_owned)).chain(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_lines::Stream;

    #[test]
    fn values_that_are_not_measured_are_dashes() {
        let packets = |loss| Packets {
            keying: None,
            codec: Some("PCMU/8000".to_owned()),
            converted: None,
            packets: 1,
            bytes: 172,
            refused: 0,
            unsent: 0,
            lost: None,
            loss,
            jitter: loss,
            max_delta: None,
            mos: loss,
            reported: None,
        };
        let call = Call {
            id: "00c0ffee".to_owned(),
            call_id: "x".to_owned(),
            callee_call_id: None,
            caller: "sip:a\u{1b}@h".to_owned(),
            callee: "sip:b@h".to_owned(),
            duration: Some(61.7),
            silent: Some(30.5),
            trunk: None,
            no_media: None,
            streams: vec![Stream { from_caller: packets(Some(2.25)), from_callee: packets(None) }],
        };
        let talking = Call { silent: Some(9.9), streams: Vec::new(), ..call.clone() };
        let ringing = Call { duration: None, silent: None, ..talking.clone() };
        assert_eq!(
            table(&[call, talking, ringing]),
            "id        caller         callee   time     silent  codec                  loss       jitter    MOS\n\
             00c0ffee  sip:a\\u{1b}@h  sip:b@h  1m 1s    30s     PCMU/8000 / PCMU/8000  2.2 % / -  2 ms / -  2.2 / -\n\
             00c0ffee  sip:a\\u{1b}@h  sip:b@h  1m 1s    -       -                      -          -         -\n\
             00c0ffee  sip:a\\u{1b}@h  sip:b@h  ringing  -       -                      -          -         -\n"
        );
    }
}
