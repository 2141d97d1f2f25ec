//! The HTTP server of the live page. It serves reads only, on a thread of its own.

use super::board::Board;
use crate::report;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// The maximum number of open connections. Further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// The time for the header fields of a request. An idle connection ends after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const SCRIPT: &str = include_str!("live.js");

/// The header fields of each response. The page has its style inside and its script beside it.
const FIELDS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; \
         frame-ancestors 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LiveServer {
    /// The URL of the page.
    pub(crate) url: String,
    ending: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl LiveServer {
    /// Serves `board` at `address`.
    ///
    /// # Errors
    /// The address cannot be bound, or the system gives no thread.
    pub(crate) fn start(address: SocketAddr, board: Board) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}/", listener.local_addr()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ending, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("live page".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener, board) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { url, ending: Some(ending), thread: Some(thread) })
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        self.ending.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, board: Board) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let board = board.clone();
        spawn_local(async move {
            let service = service_fn(|request| {
                let response = respond(&request, &board);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // A client that leaves early is no fault.
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
            drop(place);
        });
    }
}

fn respond(request: &Request<Incoming>, board: &Board) -> Response<Full<Bytes>> {
    let host = request.headers().get(header::HOST).map(HeaderValue::to_str);
    if !matches!(host, Some(Ok(host)) if is_address(host)) {
        return plain(StatusCode::MISDIRECTED_REQUEST, "this page is reached by its address\n");
    }
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n");
    }
    let html = "text/html; charset=utf-8";
    match request.uri().path() {
        "/" => {
            let (course, has_report) = board.course();
            reply(StatusCode::OK, html, report::live_page(&course, board.seconds(), has_report))
        }
        "/now" => {
            let (course, has_report) = board.course();
            let text = report::live_content(&course, board.seconds(), has_report);
            let mut response = reply(StatusCode::OK, html, text);
            let state = match (&course.end, has_report) {
                (None, _) => "running",
                (Some(_), true) => "report",
                (Some(_), false) => "ended",
            };
            response.headers_mut().insert("x-state", HeaderValue::from_static(state));
            response
        }
        "/live.js" => reply(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT.to_owned()),
        "/report" => match board.report_page() {
            Some(page) => reply(StatusCode::OK, html, page),
            None => plain(StatusCode::NOT_FOUND, "there is no report yet\n"),
        },
        _ => plain(StatusCode::NOT_FOUND, "the pages are / and /report\n"),
    }
}

/// Returns true if the value of a Host header field is an address or `localhost`. Another name is
/// that of a foreign page with a DNS record of this address.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", text.to_owned())
}

fn reply(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Moment, Second};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Sends a request and returns the response as text.
    fn ask(url: &str, request: &str, host: &str) -> String {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let mut socket = TcpStream::connect(address).expect("the live page listens");
        let text = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        socket.write_all(text.as_bytes()).expect("a sent request");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("a response");
        response
    }

    #[test]
    fn the_page_follows_the_course_and_ends_with_the_report() {
        let board = Board::new("barebell-bench run <b>".to_owned());
        let server =
            LiveServer::start(([127, 0, 0, 1], 0).into(), board.clone()).expect("a server");
        let page = ask(&server.url, "GET /", "127.0.0.1");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("run &lt;b&gt;"), "{page}");
        assert!(page.contains("src=\"live.js\""), "{page}");
        board.begin_load("kamailio: register, 100/s offered", Some(10.0));
        let second = Second { offered: 100, succeeded: 97, failed: 3, ..Second::default() };
        for at in [1.0, 2.0] {
            board.push(Moment { at, second: Some(second.clone()), usage: None });
        }
        let now = ask(&server.url, "GET /now", "localhost:80");
        assert!(now.contains("x-state: running") && now.contains("kamailio: register"), "{now}");
        assert!(now.contains("97") && now.contains("<svg"), "{now}");
        assert!(ask(&server.url, "GET /report", "[::1]").starts_with("HTTP/1.1 404"));
        board.end("all runs were valid".to_owned(), true);
        assert!(ask(&server.url, "GET /now", "127.0.0.1").contains("x-state: ended"));
    }

    #[test]
    fn requests_under_a_foreign_name_or_with_another_method_are_refused() {
        let server = LiveServer::start(([127, 0, 0, 1], 0).into(), Board::new(String::new()));
        let server = server.expect("a server");
        assert!(ask(&server.url, "GET /", "evil.example").starts_with("HTTP/1.1 421"));
        assert!(ask(&server.url, "POST /", "127.0.0.1").starts_with("HTTP/1.1 405"));
        assert!(ask(&server.url, "GET /../etc/passwd", "127.0.0.1").starts_with("HTTP/1.1 404"));
    }
}
