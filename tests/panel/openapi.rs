//! Odd requests to each operation of the OpenAPI document: each answer is one that it describes.

use crate::api::check_response;
use crate::rig::Rig;
use serde_json::{Value, json};

/// Texts in the places of parameters.
const TEXTS: [&str; 14] = [
    "alice",
    "alice@barebell.test",
    "nobody@x",
    "",
    " ",
    "%",
    "..",
    "a/b",
    "ü€",
    "<b>",
    "' OR 1=1",
    "192.0.2.1",
    "sip:x@y;z=1",
    "\u{1}",
];

/// Numbers in the places of parameters, valid ones and others.
const NUMBERS: [&str; 9] =
    ["0", "1", "500", "501", "-1", "x", "1e3", "9223372036854775807", "99999999999999999999"];

/// Values in the places of members of a content.
fn values() -> Vec<Value> {
    let long = "x".repeat(5000);
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(18_446_744_073_709_551_615_u64),
        json!("snom"),
        json!("bob"),
        json!(""),
        json!("\u{0}"),
        json!(long),
        json!([[]]),
        json!({ "a": {} }),
    ]
}

/// `text` with all bytes but letters and digits in percent encoding.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The values of a parameter with this schema.
fn values_of(schema: &Value) -> Vec<String> {
    let is_number = schema["type"] == "integer";
    let known = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all = if is_number { &NUMBERS[..] } else { &TEXTS[..] };
    known.chain(all.iter().copied()).map(encoded).collect()
}

/// The contents of an operation: objects with one odd member each, and texts that are no objects.
fn contents(document: &Value, operation: &Value) -> Vec<String> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let Some(name) = schema["$ref"].as_str() else { return vec![String::new()] };
    let found = document.pointer(name.strip_prefix('#').expect("a reference in the document"));
    let schema = found.unwrap_or_else(|| panic!("{name}"));
    let members = schema["properties"].as_object().expect("a content has members");
    let mut contents: Vec<_> =
        ["", "{}", "[]", "null", "{", "{\"a\":1,\"a\":2}", "\u{feff}{}"].map(str::to_owned).into();
    for name in members.keys() {
        contents.extend(values().into_iter().map(|value| json!({ name: value }).to_string()));
    }
    contents
}

#[test]
fn odd_requests_have_documented_answers() {
    let rig = Rig::new("[limits]\ntrusted = []\n");
    let document = rig.request("GET", "/api/v1/openapi.json", "", "");
    let document: Value = serde_json::from_str(&document.body).expect("the document is JSON");
    let tokens = ["reader", "administrator"].map(|role| rig.token(role));
    let mut asked = 0;
    let mut ask = |method: &str, path: &str, operation: &Value, content: &str| {
        for token in &tokens {
            let response = rig.api(token, &method.to_ascii_uppercase(), path, content);
            let documented = &operation["responses"][response.status.to_string()];
            let place = format!("{method} {path} with {content:.60}");
            assert!(documented.is_object(), "{place}: {response:?}");
            check_response(&document, documented, &response, &place);
            asked += 1;
        }
    };
    let paths = document["paths"].as_object().expect("the document has paths");
    for (template, path) in paths {
        let in_path = path["parameters"].as_array().cloned().unwrap_or_default();
        for (method, operation) in path.as_object().expect("a path has operations") {
            if method == "parameters" {
                continue;
            }
            // One odd value at a time.
            let usual = in_path.iter().fold(template.clone(), |path, parameter| {
                let name = parameter["name"].as_str().expect("a parameter has a name");
                path.replace(&format!("{{{name}}}"), "alice")
            });
            for parameter in &in_path {
                let name = parameter["name"].as_str().expect("a parameter has a name");
                for value in values_of(&parameter["schema"]).iter().filter(|it| !it.is_empty()) {
                    let path = template.replace(&format!("{{{name}}}"), value);
                    ask(method, &path, operation, "{}");
                }
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a parameter has a name");
                for value in values_of(&parameter["schema"]) {
                    ask(method, &format!("{usual}?{name}={value}"), operation, "{}");
                }
            }
            for content in contents(&document, operation) {
                ask(method, &usual, operation, &content);
            }
        }
    }
    assert!(asked > 500, "{asked}");
    assert_eq!(rig.get("/healthz", "").status, 200);
}
