//! Verdicts as JUnit XML for build servers: a test case for the validity of each run, and one for
//! each criterion.

use super::groups::run_name;
use crate::record::{Criterion, Record, Run};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

type Xml = Writer<Vec<u8>>;
/// Writing to memory cannot fail.
type Written = std::io::Result<()>;

/// Returns a test suite for each record.
pub(crate) fn junit(records: &[Record]) -> String {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(&mut xml, records).expect("writing to memory succeeds");
    let mut text = String::from_utf8(xml.into_inner()).expect("what is written are texts");
    text.push('\n');
    text
}

fn write(xml: &mut Xml, records: &[Record]) -> Written {
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.write_event(Event::Start(BytesStart::new("testsuites")))?;
    for record in records {
        suite(xml, record)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuites")))
}

fn suite(xml: &mut Xml, record: &Record) -> Written {
    let tests = record.runs.len() + record.criteria.len();
    let failures =
        record.runs.iter().filter(|run| !run.is_valid() || record.failure(run).is_some()).count()
            + record.criteria.iter().filter(|criterion| !criterion.held).count();
    let seconds: f64 = record.runs.iter().map(|run| run.seconds).sum();
    let started = super::format::time(record.started).replace(' ', "T").replace("TUTC", "");
    let kind = format!("{:?}", record.kind).to_lowercase();
    let mut suite = BytesStart::new("testsuite");
    suite.push_attribute(("name", format!("barebell-bench {kind}").as_str()));
    suite.push_attribute(("tests", tests.to_string().as_str()));
    suite.push_attribute(("failures", failures.to_string().as_str()));
    suite.push_attribute(("errors", "0"));
    suite.push_attribute(("time", format!("{seconds:.3}").as_str()));
    suite.push_attribute(("timestamp", started.as_str()));
    suite.push_attribute(("hostname", allowed(&record.machine.host).as_str()));
    xml.write_event(Event::Start(suite))?;
    for run in &record.runs {
        validity(xml, record, run)?;
    }
    for criterion in &record.criteria {
        held(xml, criterion)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))
}

fn validity(xml: &mut Xml, record: &Record, run: &Run) -> Written {
    let case = Case {
        class: &format!("{}.validity", run.system),
        name: &format!("valid: {}", run_name(run)),
        seconds: run.seconds,
    };
    let failure = match run.is_valid() {
        false => Some(("the run does not show the system", run.doubts.join("\n"))),
        true => record.failure(run).map(|failure| ("operations failed", failure)),
    };
    case.write(xml, failure)
}

fn held(xml: &mut Xml, criterion: &Criterion) -> Written {
    let case = Case { class: "criteria", name: &criterion.text, seconds: 0.0 };
    let failure = (!criterion.held).then(|| {
        (
            "the criterion did not hold",
            format!("required {}, seen {}", criterion.text, criterion.seen),
        )
    });
    case.write(xml, failure)
}

/// A test case.
struct Case<'a> {
    class: &'a str,
    name: &'a str,
    seconds: f64,
}

impl Case<'_> {
    fn write(&self, xml: &mut Xml, failure: Option<(&str, String)>) -> Written {
        let mut case = BytesStart::new("testcase");
        case.push_attribute(("classname", allowed(self.class).as_str()));
        case.push_attribute(("name", allowed(self.name).as_str()));
        case.push_attribute(("time", format!("{:.3}", self.seconds).as_str()));
        let Some((message, text)) = failure else {
            return xml.write_event(Event::Empty(case));
        };
        xml.write_event(Event::Start(case))?;
        let mut failure = BytesStart::new("failure");
        failure.push_attribute(("message", message));
        xml.write_event(Event::Start(failure))?;
        xml.write_event(Event::Text(BytesText::new(&allowed(&text))))?;
        xml.write_event(Event::End(BytesEnd::new("failure")))?;
        xml.write_event(Event::End(BytesEnd::new("testcase")))
    }
}

/// Returns the text without the characters that XML 1.0 cannot represent.
fn allowed(text: &str) -> String {
    let is_allowed = |c: char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => c >= ' ',
    };
    text.chars().map(|c| if is_allowed(c) { c } else { '\u{fffd}' }).collect()
}
