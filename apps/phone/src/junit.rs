//! Verdicts as JUnit XML for build servers.

use crate::outcome::Outcome;
use crate::terminal;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use std::path::Path;
use std::time::Duration;

/// A test case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) time: Duration,
    pub(crate) judged: Judged,
}

/// The verdict of a test case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judged {
    Passed,
    /// Failed for this reason.
    Failed(String),
    /// Not executed.
    Skipped,
}

/// Writes `cases` to the file at `path`, as the test suite `name`.
///
/// # Errors
/// A description of why it cannot be written.
fn write(path: &Path, name: &str, cases: &[Case]) -> Result<(), String> {
    std::fs::write(path, text(name, cases))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Checks in advance that the file at `path` can be written.
///
/// # Errors
/// A description of the failure.
pub(crate) fn check(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Writes `cases` to `path`, if given, and returns the outcome of the program: `outcome`, unless
/// writing fails.
pub(crate) fn finish(path: Option<&Path>, cases: &[Case], outcome: Outcome) -> Outcome {
    let written = path.map_or(Ok(()), |path| write(path, "barebell-phone", cases));
    match written {
        Err(text) if outcome == Outcome::Done => Outcome::Failed(text),
        Err(text) => {
            terminal::say(&text);
            outcome
        }
        Ok(()) => outcome,
    }
}

fn text(name: &str, cases: &[Case]) -> Vec<u8> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory does not fail.
    let _ = suite(&mut xml, name, cases);
    let mut text = xml.into_inner();
    text.push(b'\n');
    text
}

fn suite(xml: &mut Writer<Vec<u8>>, name: &str, cases: &[Case]) -> std::io::Result<()> {
    let count = |is_meant: fn(&Judged) -> bool| {
        cases.iter().filter(|case| is_meant(&case.judged)).count().to_string()
    };
    let time: Duration = cases.iter().map(|case| case.time).sum();
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.write_event(Event::Start(BytesStart::new("testsuites")))?;
    let mut suite = BytesStart::new("testsuite");
    suite.push_attribute(("name", allowed(name).as_str()));
    suite.push_attribute(("tests", cases.len().to_string().as_str()));
    suite
        .push_attribute(("failures", count(|judged| matches!(judged, Judged::Failed(_))).as_str()));
    suite.push_attribute(("errors", "0"));
    suite.push_attribute(("skipped", count(|judged| *judged == Judged::Skipped).as_str()));
    suite.push_attribute(("time", format!("{:.3}", time.as_secs_f64()).as_str()));
    xml.write_event(Event::Start(suite))?;
    for case in cases {
        write_case(xml, name, case)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))?;
    xml.write_event(Event::End(BytesEnd::new("testsuites")))
}

fn write_case(xml: &mut Writer<Vec<u8>>, class: &str, case: &Case) -> std::io::Result<()> {
    let mut start = BytesStart::new("testcase");
    start.push_attribute(("classname", allowed(class).as_str()));
    start.push_attribute(("name", allowed(&case.name).as_str()));
    start.push_attribute(("time", format!("{:.3}", case.time.as_secs_f64()).as_str()));
    if case.judged == Judged::Passed {
        return xml.write_event(Event::Empty(start));
    }
    xml.write_event(Event::Start(start))?;
    match &case.judged {
        Judged::Failed(why) => {
            let why = allowed(why);
            let mut failure = BytesStart::new("failure");
            failure.push_attribute(("message", why.as_str()));
            xml.write_event(Event::Start(failure))?;
            xml.write_event(Event::Text(BytesText::new(&why)))?;
            xml.write_event(Event::End(BytesEnd::new("failure")))?;
        }
        _ => xml.write_event(Event::Empty(BytesStart::new("skipped")))?,
    }
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

/// Removes the characters that XML 1.0 does not allow.
fn allowed(text: &str) -> String {
    let is_allowed = |c: char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => c >= ' ',
    };
    text.chars().map(|c| if is_allowed(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::Reader;

    #[test]
    fn written_reports_are_valid_for_every_text() {
        let case = |name: &str, judged| Case {
            name: name.into(),
            time: Duration::from_millis(1500),
            judged,
        };
        let cases = [
            case("<a> & \"b\"", Judged::Passed),
            case("two", Judged::Failed("heard <nothing> & \u{7}".into())),
            case("three", Judged::Skipped),
        ];
        let text = String::from_utf8(text("s", &cases)).unwrap();
        let mut reader = Reader::from_str(&text);
        let (mut names, mut said) = (Vec::new(), String::new());
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(tag) | Event::Empty(tag) => {
                    names.push(tag.name().as_ref().to_owned());
                    for attribute in tag.attributes() {
                        said.push_str(&format!(
                            "{:?} ",
                            attribute
                                .unwrap()
                                .normalized_value(quick_xml::XmlVersion::Explicit1_0)
                                .unwrap()
                        ));
                    }
                }
                _ => {}
            }
        }
        let wanted =
            ["testsuites", "testsuite", "testcase", "testcase", "failure", "testcase", "skipped"];
        assert_eq!(names, wanted);
        assert!(
            said.contains(r#"<a> & \"b\""#) && said.contains("heard <nothing> & \u{fffd}"),
            "{said}"
        );
        assert!(
            text.contains(r#"tests="3" failures="1" errors="0" skipped="1" time="4.500""#),
            "{text}"
        );
    }
}
