//! One HTTP connection: its TLS handshake, its requests, and the limits of their time and size.

use super::forms;
use super::reply::{Pages, Reply, Request, foreign_host, refusal};
use crate::serve::connections::CurrentTls;
use crate::serve::panel_queue::PanelQueue;
use ::panel::MAX_CONTENT;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The time for a TLS handshake, and for the header fields of a request. An idle connection ends
/// after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for the content of an upload. One is read at a time.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(60);
/// The time after which a connection takes no further request. Clients open another one. A client
/// that does not read its response keeps a connection no longer.
const LIFE: Duration = Duration::from_secs(120);
/// The maximum length of the start line and the header fields of a request in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// The maximum number of header fields of a request.
const MAX_FIELDS: usize = 64;

/// The answers of the listener to each connection.
pub(super) struct Conversation {
    /// The certificates, if the listener uses TLS.
    pub(super) tls: Option<Arc<CurrentTls>>,
    /// The names of this server.
    pub(super) hosts: Vec<String>,
    pub(super) pages: Arc<dyn Pages>,
    /// The panel, if it is served.
    pub(super) panel: Option<PanelQueue>,
    /// The place of the only upload at a time.
    pub(super) uploads: Semaphore,
}

impl Conversation {
    /// Serves the requests of a connection until it ends.
    ///
    /// # Errors
    /// The handshake or a request fails.
    pub(super) async fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
        remote: IpAddr,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return self.requests(socket, remote).await };
        let server = tls.server().ok_or_else(|| io::Error::other("there is no certificate"))?;
        let handshake = TlsAcceptor::from(server.for_http()).accept(socket);
        self.requests(timeout(PATIENCE, handshake).await??, remote).await
    }

    async fn requests(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        remote: IpAddr,
    ) -> io::Result<()> {
        let service = service_fn(|request| async move {
            Ok::<_, Infallible>(match &self.panel {
                Some(panel) if PanelQueue::serves(request.uri().path()) => {
                    self.ask_panel(panel, request, remote).await
                }
                _ => self.answer(&request),
            })
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_FIELDS);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = sleep(LIFE) => {
                connection.as_mut().graceful_shutdown();
                timeout(PATIENCE, connection).await?
            }
        };
        match served {
            // Also the end of an idle connection.
            Err(error) if error.is_timeout() => Ok(()),
            served => served.map_err(io::Error::other),
        }
    }

    /// The answer of the panel, which another thread gives.
    async fn ask_panel(
        &self,
        panel: &PanelQueue,
        request: hyper::Request<Incoming>,
        remote: IpAddr,
    ) -> Response<Full<Bytes>> {
        let is_head = request.method() == Method::HEAD;
        if let Some(refusal) = foreign_host(request.headers(), &self.hosts) {
            return refusal.into_response(is_head, true);
        }
        let (head, body) = request.into_parts();
        let mut request = match forms::head(&head, remote, self.tls.is_some()) {
            Ok(request) => request,
            Err(refusal) => return refusal.into_response(is_head, true),
        };
        let is_large = body.size_hint().lower() > MAX_CONTENT as u64;
        let most = match is_large {
            // Strangers use no more memory and time than others.
            true => panel.most_content(request.clone()).await.unwrap_or(MAX_CONTENT),
            false => MAX_CONTENT,
        };
        let is_upload = most > MAX_CONTENT;
        let place = is_upload.then(|| self.uploads.try_acquire());
        if let Some(Err(_)) = place {
            let text = "another upload is in progress: try again in a moment\n";
            return Reply::text(503, text).into_response(is_head, true);
        }
        let patience = if is_upload { UPLOAD_PATIENCE } else { PATIENCE };
        let read = timeout(patience, forms::content(body, most)).await;
        match read.unwrap_or_else(|_| Err(Reply::text(408, "it came too slowly\n"))) {
            Ok(content) => request.body = content,
            Err(refusal) => return refusal.into_response(is_head, true),
        }
        let reply = panel.ask(request).await;
        drop(place);
        match reply {
            Some(reply) => forms::response(reply, is_head),
            None => {
                let text = "too many requests wait for the panel: try again in a moment\n";
                Reply::text(503, text).into_response(is_head, true)
            }
        }
    }

    fn answer(&self, request: &hyper::Request<Incoming>) -> Response<Full<Bytes>> {
        let method = request.method();
        let refusal = refusal(method, request.headers(), request.body(), &self.hosts);
        let is_last = refusal.is_some();
        let answer = || self.pages.answer(&Request { path: request.uri().path() });
        let reply: Reply = refusal.unwrap_or_else(answer);
        reply.into_response(method == Method::HEAD, is_last)
    }
}
