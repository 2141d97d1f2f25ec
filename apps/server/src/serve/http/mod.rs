//! The HTTP listener for operators. A thread of its own with a low priority serves it, so that
//! neither messages nor packets wait for it.

mod bounds;
mod connection;
mod forms;
mod reply;

pub(super) use bounds::HttpCounters;
pub(super) use reply::{Pages, Reply, Request};

use super::connections::CurrentTls;
use super::panel_queue::PanelQueue;
use crate::failure::{Failure, during};
use crate::http::HttpSettings;
use crate::log;
use bounds::Places;
use connection::Conversation;
use sip_server::config::Network;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// The pause after a connection could not be accepted, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bound listener.
pub(super) struct HttpListener {
    listener: TcpListener,
    /// The URL.
    pub(super) url: String,
    is_secure: bool,
    clients: Vec<Network>,
}

/// The thread of the listener. It ends when this is dropped.
pub(super) struct HttpThread {
    ending: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpListener {
    /// Binds the listener, if there is one in `settings`.
    ///
    /// # Errors
    /// [`Failure`] if the address cannot be bound.
    pub(super) fn bind(settings: &HttpSettings) -> Result<Option<Self>, Failure> {
        let Some(address) = settings.listen else { return Ok(None) };
        let listener = TcpListener::bind(address).map_err(during(format!(
            "cannot listen for HTTP on {address}, which http.listen names"
        )))?;
        listener.set_nonblocking(true)?;
        Ok(Some(Self {
            url: settings.url(listener.local_addr()?),
            listener,
            is_secure: settings.is_secure(),
            clients: settings.clients.clone(),
        }))
    }

    /// Serves `pages` under the names `hosts`, on a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        self,
        tls: Arc<CurrentTls>,
        hosts: Vec<String>,
        counters: Arc<HttpCounters>,
        pages: Arc<dyn Pages>,
        panel: Option<PanelQueue>,
    ) -> std::io::Result<HttpThread> {
        let (ending, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            if let Err(error) = net::give_way() {
                log::warn("turns", || format!("HTTP has the priority of messages: {error}"));
            }
            let tls = self.is_secure.then_some(tls);
            let conversation =
                Arc::new(Conversation { tls, hosts, pages, panel, uploads: Semaphore::new(1) });
            let serving = async {
                if let Err(error) = serve(self, conversation, &counters, ended).await {
                    log::error("http", || format!("HTTP is no longer served: {error}"));
                }
            };
            LocalSet::new().block_on(&runtime, serving);
        })?;
        Ok(HttpThread { ending: Some(ending), thread: Some(thread) })
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        self.ending.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until `ended`.
async fn serve(
    listener: HttpListener,
    conversation: Arc<Conversation>,
    counters: &Arc<HttpCounters>,
    mut ended: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let HttpListener { listener, clients, .. } = listener;
    let (listener, places) = (tokio::net::TcpListener::from_std(listener)?, Places::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut ended => return Ok(()),
        };
        match accepted {
            Ok((socket, remote)) => {
                let is_client = Network::any_contains(&clients, remote.ip());
                let Some(place) = is_client.then(|| places.take(remote.ip())).flatten() else {
                    counters.refused.fetch_add(1, Ordering::Relaxed);
                    log::warn("http", || refusal(remote, is_client));
                    continue;
                };
                let (conversation, counters) = (Arc::clone(&conversation), Arc::clone(counters));
                spawn_local(async move {
                    converse(&conversation, socket, remote, &counters).await;
                    drop(place);
                });
            }
            Err(error) => {
                log::warn("http", || format!("an HTTP connection cannot be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(
    conversation: &Arc<Conversation>,
    socket: TcpStream,
    remote: SocketAddr,
    counters: &HttpCounters,
) {
    if let Err(error) = conversation.serve(socket, remote.ip()).await {
        counters.failures.fetch_add(1, Ordering::Relaxed);
        log::info("http", || format!("the HTTP connection from {remote} ends: {error}"));
    }
}

fn refusal(remote: SocketAddr, is_client: bool) -> String {
    match is_client {
        true => format!("an HTTP connection from {remote} is closed: too many are open"),
        false => format!(
            "an HTTP connection from {remote} is closed: that address is not in http.clients"
        ),
    }
}
