//! The HTTP API: its answers have the form that the OpenAPI document describes.

use crate::rig::{Response, Rig};
use peers::call::establish;
use peers::server::DOMAIN;
use serde_json::{Value, json};

/// Fails if `value` does not have the form `schema` of the document.
pub(crate) fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let found = document.pointer(name.strip_prefix('#').expect("a reference in the document"));
        return check(document, found.unwrap_or_else(|| panic!("{name}")), value, place);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(document, part, value, place);
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let is_of = |name: &&str| match *name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    assert!(types.iter().any(is_of), "{place}: {value} is none of {types:?}");
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{place}: {value} is none of {values:?}");
    }
    for item in value.as_array().into_iter().flatten() {
        check(document, &schema["items"], item, &format!("{place}[]"));
    }
    let Some(object) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(object.contains_key(name), "{place}: {value} lacks {name}");
    }
    for (name, member) in object {
        let known = &schema["properties"][name];
        let form = if known.is_null() { &schema["additionalProperties"] } else { known };
        assert!(*form != Value::Bool(false), "{place}: {name} is not documented");
        if form.is_object() {
            check(document, form, member, &format!("{place}.{name}"));
        }
    }
}

/// Fails if the content of `response` does not have the form of the description `documented`.
pub(crate) fn check_response(
    document: &Value,
    documented: &Value,
    response: &Response,
    place: &str,
) {
    let (kind, _) = response.field("content-type").split_once(';').unwrap_or_default();
    let kind = if kind.is_empty() { response.field("content-type") } else { kind };
    let schema = &documented["content"][kind]["schema"];
    assert!(schema.is_object(), "{place}: {kind} is not documented");
    let read = |text: &str| {
        serde_json::from_str::<Value>(text)
            .unwrap_or_else(|error| panic!("{place}: {error}: {response:?}"))
    };
    if kind == "application/x-ndjson" {
        let line = json!({ "$ref": "#/components/schemas/BackupLine" });
        response.body.lines().for_each(|text| check(document, &line, &read(text), place));
    } else {
        check(document, schema, &read(&response.body), place);
    }
}

/// A server with a call that stands, one that has ended, and a ban.
fn rig() -> (Rig, impl Sized) {
    let rig = Rig::new(
        "[media]\nrelay = \"all\"\n[limits]\ntrusted = []\n\
         [numbers]\n[[numbers.rules]]\nname = \"desk\"\nnumber = \"8\"\nto = \"user:alice\"\n",
    );
    let ends = establish(rig.exchange.agent("alice"), rig.exchange.agent("bob"));
    (rig, ends)
}

#[test]
fn answers_have_the_documented_form() {
    let (rig, _call) = rig();
    let document = rig.request("GET", "/api/v1/openapi.json", "", "");
    let document: Value = serde_json::from_str(&document.body).expect("the document is JSON");
    let token = rig.token("administrator");
    let calls = rig.api(&token, "GET", "/calls", "");
    let calls: Value = serde_json::from_str(&calls.body).expect("the answer is JSON");
    let call = calls["items"][0]["id"].as_str().expect("a call stands").to_owned();
    let backup = rig.api(&token, "GET", "/backup", "");
    let mut used = 0;
    for (method, template, path, body, status) in [
        ("get", "/status", "/status".to_owned(), Value::Null, 200),
        ("get", "/users", "/users?limit=2".to_owned(), Value::Null, 200),
        ("get", "/users", "/users?limit=0".to_owned(), Value::Null, 422),
        ("get", "/users/{user}", format!("/users/alice@{DOMAIN}"), Value::Null, 200),
        ("get", "/users/{user}", "/users/nobody".to_owned(), Value::Null, 404),
        ("put", "/users/{user}", "/users/dave".to_owned(), json!({ "password": "pw" }), 200),
        ("put", "/users/{user}", "/users/dave".to_owned(), json!({ "password": 5 }), 422),
        (
            "patch",
            "/users/{user}/services",
            "/users/dave/services".to_owned(),
            json!({ "busy": "bob" }),
            200,
        ),
        (
            "patch",
            "/users/{user}/services",
            "/users/dave/services".to_owned(),
            json!({ "busy": 1 }),
            422,
        ),
        ("post", "/users", "/users".to_owned(), json!({ "text": "dave:pw\nerin:pw" }), 200),
        ("post", "/users", "/users".to_owned(), json!({ "text": "dave" }), 422),
        (
            "post",
            "/users",
            "/users".to_owned(),
            json!({ "text": "dave:pw", "domain": "../.." }),
            422,
        ),
        (
            "post",
            "/users",
            "/users".to_owned(),
            json!({ "text": "dave\n:x", "dry_run": true, "domain": null }),
            200,
        ),
        ("get", "/backup", "/backup?records=true&certificates=true".to_owned(), Value::Null, 200),
        ("post", "/restore", "/restore?dry_run=true".to_owned(), json!(backup.body), 200),
        ("post", "/restore", "/restore?dry_run=true".to_owned(), json!("{}"), 422),
        ("delete", "/users/{user}", "/users/dave".to_owned(), Value::Null, 200),
        ("delete", "/users/{user}", "/users/dave".to_owned(), Value::Null, 422),
        (
            "post",
            "/users/{user}/phone-links",
            "/users/alice/phone-links".to_owned(),
            json!({ "kind": "snom", "transport": "tcp" }),
            200,
        ),
        (
            "post",
            "/users/{user}/phone-links",
            "/users/alice/phone-links".to_owned(),
            json!({ "kind": "fax" }),
            422,
        ),
        (
            "get",
            "/users/{user}/phone-links",
            "/users/alice/phone-links".to_owned(),
            Value::Null,
            200,
        ),
        ("get", "/registrations", "/registrations?limit=1".to_owned(), Value::Null, 200),
        (
            "delete",
            "/registrations/{user}",
            "/registrations/bob?contact=sip:x@192.0.2.1".to_owned(),
            Value::Null,
            422,
        ),
        ("delete", "/registrations/{user}", "/registrations/bob".to_owned(), Value::Null, 200),
        ("delete", "/registrations/{user}", "/registrations/bob".to_owned(), Value::Null, 422),
        ("get", "/refusals", "/refusals?limit=5".to_owned(), Value::Null, 200),
        ("get", "/refusals", "/refusals?target=alice".to_owned(), Value::Null, 200),
        ("get", "/traces/{target}", "/traces/alice".to_owned(), Value::Null, 200),
        ("get", "/calls", "/calls".to_owned(), Value::Null, 200),
        ("delete", "/calls/{id}", format!("/calls/{call}"), Value::Null, 200),
        ("get", "/records", "/records?limit=5&since=0&failed=false".to_owned(), Value::Null, 200),
        ("get", "/trunks", "/trunks".to_owned(), Value::Null, 200),
        ("get", "/routes/{number}", format!("/routes/8?from=alice@{DOMAIN}"), Value::Null, 200),
        ("get", "/bans", "/bans".to_owned(), Value::Null, 200),
        ("delete", "/bans/{source}", "/bans/192.0.2.1".to_owned(), Value::Null, 422),
        ("get", "/certificates", "/certificates".to_owned(), Value::Null, 200),
        ("get", "/check", "/check".to_owned(), Value::Null, 200),
        ("get", "/doctor", "/doctor".to_owned(), Value::Null, 200),
        ("post", "/reload", "/reload".to_owned(), Value::Null, 200),
    ] {
        let body = match body {
            Value::Null => String::new(),
            Value::String(text) => text,
            body => body.to_string(),
        };
        let response = rig.api(&token, &method.to_ascii_uppercase(), &path, &body);
        assert_eq!(response.status, status, "{method} {path}: {response:?}");
        let documented = &document["paths"][template][method]["responses"][status.to_string()];
        assert!(documented.is_object(), "{method} {template} has no {status} in the document");
        check_response(&document, documented, &response, &path);
        used += usize::from(status == 200);
    }
    let methods = ["get", "put", "patch", "delete", "post"];
    let paths = document["paths"].as_object().expect("the document has paths");
    let count = paths.values().flat_map(|path| methods.map(|it| path[it].is_object()));
    assert!(used + 1 >= count.filter(|is_there| *is_there).count(), "all operations are tried");
    rig.exchange.server.wait_for_line("the configuration was read again");
}

#[test]
fn pages_of_the_api_have_each_row_once() {
    let rig = Rig::new("");
    let token = rig.token("operator");
    for number in 0..7 {
        let body = "{\"password\":\"pw\"}";
        assert_eq!(rig.api(&token, "PUT", &format!("/users/u{number}"), body).status, 200);
    }
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = rig.api(&token, "GET", &format!("/users?limit=3&after={after}"), "");
        let page: Value = serde_json::from_str(&page.body).expect("the answer is JSON");
        let rows = page["items"].as_array().expect("the page has rows");
        names.extend(rows.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!(names, ["alice", "bob", "carol", "u0", "u1", "u2", "u3", "u4", "u5", "u6"]);
}

#[test]
fn tokens_have_roles_and_are_removed_at_once() {
    let rig = Rig::new("");
    let reader = rig.token("reader");
    assert_eq!(rig.api(&reader, "GET", "/users", "").status, 200);
    assert_eq!(rig.api(&reader, "DELETE", "/users/alice", "").status, 403);
    assert_eq!(rig.api(&reader, "POST", "/reload", "").status, 403);
    let list = rig.exchange.server.run(&["token", "list"]);
    assert!(list.contains("reader") && !list.contains(&reader), "{list}");
    let _ = rig.exchange.server.run(&["token", "remove", "reader"]);
    assert_eq!(rig.api(&reader, "GET", "/users", "").status, 401);
    assert_eq!(rig.api("", "GET", "/users", "").status, 401);
}
