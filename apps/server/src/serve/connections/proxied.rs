//! Connections from proxies (`limits.proxies`): the client address, from PROXY protocol or
//! the header field of `limits.proxy_header`. It replaces the address of the proxy in the flow, for limits, bans and the log.
//! Output for the client is sent on the same connection.

use super::client::Proxied;
use super::stream::{More, Reading, Stream, TIMEOUTS};
use super::{Connections, Local};
use crate::log;
use net::Hops;
use sip::Instant;
use sip::stream::Patience;
use sip::stream::proxy_protocol::{BadHeader, MAX_LENGTH, Start};
use sip_server::{Flow, Source};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Stream {
    /// Returns true while the proxy may still send the address of the client.
    pub(super) fn is_greeting(&self) -> bool {
        self.proxied.as_ref().is_some_and(|proxied| proxied.is_greeting.load(Ordering::Relaxed))
    }

    /// Reads the PROXY protocol header, if the connection begins with one. Returns [`More::Now`]
    /// when that is done. A proxy without such a header has to name its client as `hops` says.
    ///
    /// # Errors
    /// [`BadHeader`] if the header is malformed.
    pub(super) fn greet(&self, now: Instant, hops: Hops) -> Result<More, BadHeader> {
        let Some(proxied) = &self.proxied else { return Ok(More::Now) };
        let reading = &mut *self.reading.lock();
        let Reading { greeting, reader, patience, heard, .. } = reading;
        let mut chunk = [0; MAX_LENGTH];
        let count = match (&self.socket).read(&mut chunk[greeting.header.len()..]) {
            Ok(0) => return Ok(More::Never),
            Ok(count) => count,
            Err(error) if super::stream::is_passing(&error) => return Ok(More::Later),
            Err(_) => return Ok(More::Never),
        };
        *heard = now;
        let header = &mut greeting.header;
        let known = header.len();
        header.extend_from_slice(&chunk[known..known + count]);
        let (length, is_named) = match Start::parse(header)? {
            Start::Partial => return Ok(More::Later),
            Start::Absent => (0, false),
            Start::Header { length, client } => {
                if let Some(client) = client {
                    proxied.note(client.ip(), Some(client.port()));
                }
                (length, true)
            }
        };
        greeting.rest = core::mem::take(header).split_off(length);
        proxied.is_greeting.store(false, Ordering::Relaxed);
        proxied.is_news.store(true, Ordering::Relaxed);
        if (hops.is_proxy)(proxied.client().ip()) {
            reader.expect_hops(Hops { is_required: !is_named, ..hops });
        }
        if self.writing.lock().is_ready() {
            *patience = Patience::new(&TIMEOUTS, now);
        }
        Ok(More::Now)
    }
}

impl Connections {
    /// Returns true once the PROXY protocol header has been read or found absent, and messages can
    /// be read. False if the header is incomplete or the connection has been closed.
    pub(super) fn has_greeted(&self, stream: &Stream, now: Instant, local: &mut Local) -> bool {
        let engine = Arc::clone(&self.engine);
        let hops = Hops {
            field: engine.proxy_header(),
            is_required: true,
            is_proxy: Arc::new(move |address| engine.is_proxy(address)),
        };
        match stream.greet(now, hops) {
            Ok(More::Now) => return self.admits_client(stream, now, local),
            Ok(More::Later) => return false,
            Ok(More::Never) => {}
            Err(error) => log::warn("proxies", || {
                format!("the connection from {} is closed: {error}", stream.flow().remote)
            }),
        }
        self.end(stream, &mut local.failed);
        false
    }

    /// Counts `stream` for its client, if the client has just become known. Closes it and returns
    /// false if the client has too many connections or is banned.
    pub(super) fn admits_client(&self, stream: &Stream, now: Instant, local: &mut Local) -> bool {
        let Some(proxied) = &stream.proxied else { return true };
        if !proxied.is_news.swap(false, Ordering::Relaxed) {
            return true;
        }
        let flow = stream.flow();
        let is_admitted = self.recount(stream, proxied, &flow)
            && (!flow.transport.is_secure() || self.engine.admits_handshake(&flow, now));
        if !is_admitted {
            self.refused.fetch_add(1, Ordering::Relaxed);
            log::warn("connections", || {
                format!(
                    "a connection from {} through a proxy is refused: the client has or opens too \
                     many, or is banned",
                    flow.remote
                )
            });
            self.end(stream, &mut local.failed);
        }
        is_admitted
    }

    /// Counts the connection for the present source of `flow`. Returns false if that source has too
    /// many.
    fn recount(&self, stream: &Stream, proxied: &Proxied, flow: &Flow) -> bool {
        let source = Source::of(flow.remote.ip());
        // Locked first: output is counted with `writing` locked.
        let _writing = stream.writing.lock();
        let mut table = self.table.write();
        if !table.open.contains_key(&stream.connection) {
            return false;
        }
        let mut counted = proxied.counted.lock();
        table.uncount(*counted);
        stream.move_output(*counted, source);
        *counted = source;
        table.count(source) <= self.bounds.per_source
    }
}

impl Stream {
    /// The source for which the connection is counted.
    pub(super) fn counted_for(&self) -> Source {
        match &self.proxied {
            Some(proxied) => *proxied.counted.lock(),
            None => Source::of(self.ends.remote.ip()),
        }
    }
}
