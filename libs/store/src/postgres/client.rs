//! A connection to PostgreSQL that blocks its thread, each time for a limited time: a database that
//! accepts connections and bytes, and does not answer, is not seen by TCP.

use super::error::AccountsError;
use futures_util::StreamExt;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Config, Connection, Error, Notification, Row, RowStream, Socket,
};

/// The time for a connection to be made, with TLS and the login.
const LOGIN: Duration = Duration::from_secs(10);

/// The time for the answer to a query: longer than the database itself tries, see
/// [`STATEMENT_TIMEOUT`](super::STATEMENT_TIMEOUT).
const ANSWER: Duration = Duration::from_secs(15);

/// The time for the answer to a query of a whole table, or for its next rows.
pub(super) const WHOLE_TABLE: Duration = Duration::from_secs(60);

/// The time for the end of a connection.
const FAREWELL: Duration = Duration::from_millis(200);

/// The number of rows that are awaited at once.
const PART: usize = 256;

/// The parameters of a query.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection. After [`AccountsError::Silent`] it is of no use any more.
pub(super) struct Client {
    /// Dropped first, which ends the connection.
    client: tokio_postgres::Client,
    driver: Driver,
    answer: Duration,
}

/// The other end of the connection, which sends and receives while its thread waits.
struct Driver {
    runtime: Runtime,
    connection: JoinHandle<()>,
    /// The notifications of the database, and the error that has ended the connection.
    notifications: UnboundedReceiver<Result<Notification, Error>>,
}

impl Client {
    /// Connects to the database of `config`.
    ///
    /// # Errors
    /// [`AccountsError`] if there is no such database, or it does not answer.
    pub(super) fn connect<T>(config: &Config, tls: T) -> Result<Self, AccountsError>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(AccountsError::Runtime)?;
        let connected = within(&runtime, LOGIN, config.connect(tls));
        let (client, connection) = match connected.and_then(|it| Ok(it?)) {
            Ok(connected) => connected,
            Err(error) => {
                // A look-up of the name of the host may take longer.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (sender, notifications) = unbounded_channel();
        let connection = runtime.spawn(drive(connection, sender));
        let driver = Driver { runtime, connection, notifications };
        Ok(Self { client, driver, answer: ANSWER })
    }

    /// Sets the time for the answers to queries.
    pub(super) const fn with_patience(mut self, answer: Duration) -> Self {
        self.answer = answer;
        self
    }

    /// Executes the query `sql`, and returns its rows.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn query(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, AccountsError> {
        let asked = within(&self.driver.runtime, self.answer, self.client.query(sql, parameters));
        self.driver.explain(asked)
    }

    /// Executes the query `sql`, which has one row.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn query_one(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Row, AccountsError> {
        let asked = self.client.query_one(sql, parameters);
        let asked = within(&self.driver.runtime, self.answer, asked);
        self.driver.explain(asked)
    }

    /// Executes the query `sql`, which has one row or none.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn query_opt(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, AccountsError> {
        let asked = self.client.query_opt(sql, parameters);
        let asked = within(&self.driver.runtime, self.answer, asked);
        self.driver.explain(asked)
    }

    /// Executes the statement `sql`, and returns the number of changed rows.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn execute(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, AccountsError> {
        let asked = within(&self.driver.runtime, self.answer, self.client.execute(sql, parameters));
        self.driver.explain(asked)
    }

    /// Executes the statements `sql`. A transaction that they begin ends with the connection.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn batch_execute(&mut self, sql: &str) -> Result<(), AccountsError> {
        let asked = within(&self.driver.runtime, self.answer, self.client.batch_execute(sql));
        self.driver.explain(asked)
    }

    /// Begins to read the rows of the query `sql`, which may be many.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Rows<'_>, AccountsError> {
        let none = std::iter::empty::<&str>();
        let asked = within(&self.driver.runtime, WHOLE_TABLE, self.client.query_raw(sql, none));
        let stream = Box::pin(self.driver.explain(asked)?);
        Ok(Rows { driver: &mut self.driver, stream, part: Vec::new().into_iter(), is_end: false })
    }

    /// Waits for a notification, at most for `time`.
    ///
    /// # Errors
    /// [`AccountsError`] if the connection has ended.
    pub(super) fn notification(
        &mut self,
        time: Duration,
    ) -> Result<Option<Notification>, AccountsError> {
        let Driver { runtime, notifications, .. } = &mut self.driver;
        match runtime.block_on(async { timeout(time, notifications.recv()).await }) {
            Ok(Some(received)) => Ok(Some(received?)),
            Ok(None) => Err(AccountsError::Ended),
            Err(_) => Ok(None),
        }
    }

    /// A notification that was received already.
    ///
    /// # Errors
    /// [`AccountsError`] if the connection has ended.
    pub(super) fn next_notification(&mut self) -> Result<Option<Notification>, AccountsError> {
        Ok(self.driver.notifications.try_recv().ok().transpose()?)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("answer", &self.answer).finish_non_exhaustive()
    }
}

impl Driver {
    /// The result of a query, with the cause of an ended connection.
    fn explain<T>(
        &mut self,
        asked: Result<Result<T, Error>, AccountsError>,
    ) -> Result<T, AccountsError> {
        let error = match asked? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if error.is_closed() {
            while let Ok(received) = self.notifications.try_recv() {
                if let Err(cause) = received {
                    return Err(cause.into());
                }
            }
        }
        Err(error.into())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The end is told to a database that still answers.
        let _ = within(&self.runtime, FAREWELL, &mut self.connection);
    }
}

/// The rows of a query that are being read.
pub(super) struct Rows<'a> {
    driver: &'a mut Driver,
    stream: Pin<Box<RowStream>>,
    /// Rows that were received.
    part: std::vec::IntoIter<Row>,
    is_end: bool,
}

impl Rows<'_> {
    /// The next row.
    ///
    /// # Errors
    /// [`AccountsError`] if the database fails.
    pub(super) fn next(&mut self) -> Result<Option<Row>, AccountsError> {
        if self.part.len() == 0 && !self.is_end {
            let stream = &mut self.stream;
            let read = async {
                let mut part = Vec::with_capacity(PART);
                while part.len() < PART
                    && let Some(row) = stream.next().await
                {
                    part.push(row?);
                }
                Ok::<_, Error>(part)
            };
            let read = within(&self.driver.runtime, WHOLE_TABLE, read);
            let part = self.driver.explain(read)?;
            self.is_end = part.len() < PART;
            self.part = part.into_iter();
        }
        Ok(self.part.next())
    }
}

/// Waits for `answer`, at most for `time`.
///
/// # Errors
/// [`AccountsError::Silent`] if it does not come.
fn within<F: Future>(
    runtime: &Runtime,
    time: Duration,
    answer: F,
) -> Result<F::Output, AccountsError> {
    runtime.block_on(async { timeout(time, answer).await }).map_err(|_| AccountsError::Silent(time))
}

/// Sends and receives until the connection ends.
async fn drive<S, T>(
    mut connection: Connection<S, T>,
    notifications: UnboundedSender<Result<Notification, Error>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        let received = match message {
            Ok(AsyncMessage::Notification(notification)) => Ok(notification),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        let is_end = received.is_err();
        // The other end may be dropped already.
        let _ = notifications.send(received);
        if is_end {
            return;
        }
    }
}
