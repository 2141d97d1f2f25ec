//! The thread of the panel, and the requests that wait for it.

use crate::log;
use ::panel::{Panel, Reply, Request};
use std::io;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// The maximum number of waiting requests.
const MAX_WAITING: usize = 32;

/// A request, and the place of its answer.
enum Waiting {
    /// A request with its content.
    Request(Request, oneshot::Sender<Reply>),
    /// The header fields of a request with long content.
    Head(Request, oneshot::Sender<usize>),
}

/// The queue of requests.
pub(crate) struct PanelQueue(mpsc::Sender<Waiting>);

/// The thread of the panel. It ends when the queue is dropped, before this.
pub(crate) struct PanelThread(Option<JoinHandle<()>>);

impl PanelQueue {
    /// True if the panel answers requests with this path.
    pub(crate) fn serves(path: &str) -> bool {
        let is_below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        matches!(path, "/" | "/panel") || is_below("/panel") || is_below("/api")
    }

    /// The reply of the panel. `None` if too many requests wait.
    pub(crate) async fn ask(&self, request: Request) -> Option<Reply> {
        let (sender, reply) = oneshot::channel();
        self.0.try_send(Waiting::Request(request, sender)).ok()?;
        reply.await.ok()
    }

    /// The maximum length of the content of a request with these header fields. `None` if too many
    /// requests wait.
    pub(crate) async fn most_content(&self, head: Request) -> Option<usize> {
        let (sender, most) = oneshot::channel();
        self.0.try_send(Waiting::Head(head, sender)).ok()?;
        most.await.ok()
    }
}

/// Starts the thread of `panel`. It has a low priority, and may wait for the database.
///
/// # Errors
/// The system gives no thread.
pub(super) fn start(mut panel: Panel) -> io::Result<(PanelQueue, PanelThread)> {
    let (queue, mut requests) = mpsc::channel::<Waiting>(MAX_WAITING);
    let thread = std::thread::Builder::new().name("panel".to_owned()).spawn(move || {
        if let Err(error) = net::give_way() {
            log::warn("turns", || format!("the panel has the priority of messages: {error}"));
        }
        while let Some(waiting) = requests.blocking_recv() {
            // A client that has gone needs no page.
            match waiting {
                Waiting::Request(request, reply) if !reply.is_closed() => {
                    let _ = reply.send(panel.answer(&request));
                }
                Waiting::Head(head, most) if !most.is_closed() => {
                    let _ = most.send(panel.most_content(&head));
                }
                Waiting::Request(..) | Waiting::Head(..) => {}
            }
        }
    })?;
    Ok((PanelQueue(queue), PanelThread(Some(thread))))
}

impl Drop for PanelThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panel_has_its_own_paths() {
        for path in ["/", "/panel", "/panel/", "/panel/users", "/api/v1/status"] {
            assert!(PanelQueue::serves(path), "{path}");
        }
        for path in ["/metrics", "/panels", "/apiary", "/healthz", ""] {
            assert!(!PanelQueue::serves(path), "{path}");
        }
    }
}
