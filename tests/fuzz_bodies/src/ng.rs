//! Requests of the NG control protocol.

use ng::bencode::Value;
use ng::{
    Command, Duplicates, MAX_IDENTIFIER, MAX_RESPONSE, Request, RequestError, Response,
    Unrecognized,
};
use std::time::Duration;

/// Parses a datagram as bencode, as a request, as a document without its cookie, and as a string of
/// flags.
///
/// # Panics
/// A document is written differently, a limit is exceeded, or the response to a fault is malformed.
pub fn ng(bytes: &[u8]) {
    if let Ok(value) = Value::parse(bytes) {
        let mut written = Vec::new();
        value.write(&mut written);
        assert_eq!(written, bytes);
    }
    look_at(bytes);
    look_at(&[b"1 ", bytes].concat());
    let flags = format!("1 d7:command4:ping10:rtpp-flags{}:", bytes.len());
    look_at(&[flags.as_bytes(), bytes, b"e"].concat());
}

fn look_at(datagram: &[u8]) {
    let mut response = Vec::new();
    match Request::parse(datagram) {
        Ok(request) => {
            look_at_request(&request);
            Response::Pong.write(request.cookie, &mut response);
        }
        Err(error) => {
            let is_answered = error.respond(&mut response);
            assert_eq!(is_answered, error.cookie.is_some());
            assert!(response.len() < 400);
            let RequestError { cookie: Some(cookie), .. } = error else { return };
            let document = &response[cookie.len() + 1..];
            let value = Value::parse(document).expect("the written response is valid");
            let dictionary = value.as_dictionary().expect("the response is a dictionary");
            assert_eq!(dictionary.get(b"result"), Some(Value::String(b"error")));
        }
    }
    let source = ([192, 0, 2, 1], 4000).into();
    let mut duplicates = Duplicates::new(Default::default());
    duplicates.store(Duration::ZERO, source, datagram, &response);
    let repeated = duplicates.response(Duration::ZERO, source, datagram);
    assert_eq!(repeated.is_some(), !response.is_empty());
}

fn look_at_request(request: &Request<'_>) {
    let options = &request.options;
    assert!(options.unrecognized.flags().len() <= Unrecognized::MAX);
    assert!(options.unrecognized.flags().iter().all(|flag| flag.to_string().len() < 400));
    let (call_id, tags) = match request.command {
        Command::Ping | Command::List { .. } => return,
        Command::Offer { call_id, from_tag, to_tag, sdp } => {
            assert!(!sdp.is_empty());
            (call_id, [Some(from_tag), to_tag])
        }
        Command::Answer { call_id, from_tag, to_tag, sdp } => {
            assert!(!sdp.is_empty());
            (call_id, [Some(from_tag), Some(to_tag)])
        }
        Command::Delete { call_id, from_tag, to_tag }
        | Command::Query { call_id, from_tag, to_tag } => (call_id, [from_tag, to_tag]),
    };
    for identifier in tags.into_iter().flatten().chain([call_id]) {
        assert!((1..=MAX_IDENTIFIER).contains(&identifier.len()));
    }
    let mut out = Vec::new();
    Response::Calls(&[call_id; 200]).write(request.cookie, &mut out);
    assert!(out.len() <= MAX_RESPONSE);
}
