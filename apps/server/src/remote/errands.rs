//! The requests of the HTTP API that stand for those of the administration.

use crate::accounts::Error;
use crate::admin::Request;
use crate::domains;
use crate::failure::Failure;
use panel::encoded;
use serde_json::{Value, json};
use ureq::http::Method;

/// A request of the API: its rows are those of a request of the administration.
pub(super) struct Errand {
    pub(super) method: Method,
    /// The path behind the root of the API, encoded.
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) content: Option<Value>,
    pub(super) shape: Shape,
}

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One object.
    One,
    /// A list.
    List,
    /// The last rows, the latest first: they are turned round.
    Latest,
    /// A list in pages, and the number of wanted rows.
    Pages(usize),
}

impl Errand {
    fn get(path: &str, shape: Shape) -> Self {
        let (method, path) = (Method::GET, path.to_owned());
        Self { method, path, query: Vec::new(), content: None, shape }
    }

    fn with(method: Method, path: String) -> Self {
        Self { method, ..Self::get(&path, Shape::One) }
    }

    /// The errand that stands for `request`.
    ///
    /// # Errors
    /// [`Failure`] if the API has no such request.
    pub(super) fn of(request: &Request) -> Result<Self, Failure> {
        Ok(match request {
            Request::Status => Self::get("/status", Shape::One),
            Request::Registrations => Self::get("/registrations", Shape::Pages(usize::MAX)),
            Request::EndRegistration { name, domain, contact } => {
                let path = format!("/registrations/{}", user(name, domain.as_deref())?);
                let contact = contact.iter().map(|contact| ("contact", contact.clone()));
                let query = contact.collect();
                Self { query, shape: Shape::List, ..Self::with(Method::DELETE, path) }
            }
            Request::Calls => Self::get("/calls", Shape::List),
            Request::EndCall { id } => {
                Self::with(Method::DELETE, format!("/calls/{}", encoded(id)))
            }
            Request::Trunks => Self::get("/trunks", Shape::List),
            Request::History { user, since, until, failed, limit } => {
                // The API has whole seconds.
                let query = [
                    user.clone().map(|user| ("user", user)),
                    since.map(|since| ("since", (since / 1_000_000).to_string())),
                    until.map(|until| ("until", until.div_ceil(1_000_000).to_string())),
                    failed.then(|| ("failed", "true".to_owned())),
                ];
                let query = query.into_iter().flatten().collect();
                Self { query, ..Self::get("/records", Shape::Pages(*limit)) }
            }
            Request::Why { target, .. } => {
                let query = vec![("target", target.clone())];
                Self { query, ..Self::get("/refusals", Shape::Latest) }
            }
            Request::Users { .. } => Self::get("/users", Shape::Pages(usize::MAX)),
            Request::AddUser { auth_name: Some(_), .. } => {
                return missing("authentication names: --auth-name");
            }
            Request::AddUser { name, domain, password, auth_name: None } => {
                let path = format!("/users/{}", user(name, domain.as_deref())?);
                let content = Some(json!({ "password": password }));
                Self { content, ..Self::with(Method::PUT, path) }
            }
            Request::RemoveUser { name, domain } => {
                let path = format!("/users/{}", user(name, domain.as_deref())?);
                Self::with(Method::DELETE, path)
            }
            Request::ChangeServices { name, domain, change } => {
                let path = format!("/users/{}/services", user(name, domain.as_deref())?);
                let content = Some(serde_json::to_value(change)?);
                Self { content, ..Self::with(Method::PATCH, path) }
            }
            // The connection for commands passes their content beside the request.
            Request::Backup { .. } | Request::Restore { .. } => {
                return missing("the commands backup and restore");
            }
            Request::Limits => return missing("the use of limits"),
            Request::Messages { .. } => return missing("message counts"),
            Request::Drain { .. } => return missing("draining"),
            Request::ImportUsers { .. } | Request::MoveUsers { .. } => {
                return missing("many users at once");
            }
            Request::Accounts
            | Request::SetPassword { .. }
            | Request::RemoveSecondFactor { .. } => {
                return missing("accounts of the panel");
            }
            Request::Tokens | Request::AddToken { .. } | Request::RemoveToken { .. } => {
                return missing("tokens");
            }
            Request::MarkTrace { .. }
            | Request::TraceMarks
            | Request::Traces
            | Request::Trace { .. }
            | Request::EndTraces
            | Request::Recent { .. } => return missing("marked calls"),
            Request::FindUser { .. } | Request::UserDomains { .. } => {
                return missing("this request");
            }
        })
    }
}

fn missing<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::message(format!(
        "the HTTP API does not have {what}: run the command on the machine of the server, without \
         --server"
    )))
}

/// `row` of the API as a row of `request`, or `None` if the request omits it.
pub(super) fn row(request: &Request, mut row: Value) -> Option<Value> {
    match request {
        Request::Users { domain: Some(domain) } => (row["domain"] == **domain).then_some(row),
        Request::History { .. } => {
            let record = row.as_object_mut()?;
            record.remove("id");
            // A record of another version of the program has the identifier only.
            (!record.is_empty()).then_some(row)
        }
        _ => Some(row),
    }
}

/// The user of a path: `name`, with the domain of the flag `--domain`.
fn user(name: &str, flag: Option<&str>) -> Result<String, Failure> {
    Ok(encoded(&match (name.rsplit_once('@'), flag) {
        (Some((_, written)), Some(flag))
            if !domains::canonical(written).is_ok_and(|it| it == flag) =>
        {
            return Err(Error::TwoDomains(written.to_owned(), flag.to_owned()).into());
        }
        (None, Some(flag)) => format!("{name}@{flag}"),
        _ => name.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        assert_eq!(user("a/../b?c", None).unwrap(), "a%2F..%2Fb%3Fc");
        assert_eq!(user("ü", Some("x.org")).unwrap(), "%C3%BC%40x.org");
        assert_eq!(user("a@X.org", Some("x.org")).unwrap(), "a%40X.org");
        assert!(user("a@y.org", Some("x.org")).is_err());
    }

    #[test]
    fn records_lose_the_identifier_that_commands_do_not_show() {
        let history =
            Request::History { user: None, since: None, until: None, failed: false, limit: 1 };
        assert_eq!(
            row(&history, json!({ "id": 7, "caller": "x" })),
            Some(json!({ "caller": "x" }))
        );
        assert_eq!(row(&history, json!({ "id": 7 })), None);
        let users = Request::Users { domain: Some("a.org".to_owned()) };
        assert_eq!(row(&users, json!({ "domain": "b.org" })), None);
        let calls = json!({ "id": "7" });
        assert_eq!(row(&Request::Calls, calls.clone()), Some(calls));
    }
}
