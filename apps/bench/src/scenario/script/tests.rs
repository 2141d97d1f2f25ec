//! Tests of the reading of scenarios.

use super::*;

fn scenario(body: &str) -> Result<Script, Fault> {
    parse(&format!("<scenario name=\"test\">\n{body}\n</scenario>"), Names::default())
}

const SEND: &str = "<send><![CDATA[\nOPTIONS sip:x SIP/2.0\n]]></send>\n";

#[test]
fn steps_labels_and_variables_are_read() {
    let script = scenario(&format!(
        "<Global variables=\"total, other\"/><User variables=\"mine\"/><label id=\"begin\"/>{SEND}\
         <recv response=\"100\" optional=\"true\"/>\
         <recv response=\"200\" rtd=\"true\" timeout=\"500\" ontimeout=\"begin\" next=\"end\" \
         test=\"found\" chance=\"0.5\"><action>\
         <ereg regexp=\"a(b)\" search_in=\"hdr\" header=\"To:\" assign_to=\"1,found\" \
         check_it=\"true\"/><add assign_to=\"total\" value=\"1\"/></action></recv>\
         <pause milliseconds=\"10\"/><label id=\"end\"/><timewait milliseconds=\"4000\"/>"
    ))
    .unwrap();
    assert!(!script.is_server);
    assert_eq!((&*script.name, script.steps.len()), ("test", 5));
    let step = &script.steps[2];
    assert_eq!((step.next, step.chance, step.stop_timer), (Some(4), 0.5, Some(0)));
    let Kind::Receive(receive) = &step.kind else { panic!("{step:?}") };
    assert_eq!(receive.on_timeout, Some(0));
    assert_eq!(receive.timeout, Some(Duration::from_millis(500)));
    assert_eq!(step.actions.len(), 2);
    let scopes: Vec<_> = script.names.scopes().collect();
    assert_eq!(scopes[..3], [Scope::Global, Scope::Global, Scope::User]);
    assert_eq!(step.test, script.names.known_variable("found"));
    assert_eq!(script.steps[1].label.as_deref(), Some("100 <-- (optional)"));
}

#[test]
fn the_first_message_decides_the_side() {
    let text = "<nop/><recv request=\"INVITE\"/><send><![CDATA[SIP/2.0 200 OK\n[len]]]></send>";
    assert!(scenario(text).unwrap().is_server);
    assert!(scenario("<nop/>").unwrap_err().text.contains("neither sends nor receives"));
}

#[test]
fn unknown_elements_and_attributes_are_refused_with_their_place() {
    for (body, line, part) in [
        ("<what/>", 2, "<what> is not known"),
        ("\n<recv response=\"200\" colour=\"red\"/>", 3, "the attribute colour of <recv>"),
        ("<recv/>", 2, "needs response"),
        ("<recv response=\"99\"/>", 2, "100 to 699"),
        ("<recv request=\"A\" optional=\"maybe\"/>", 2, "true or false"),
        ("<recv request=\"A\" next=\"5\"/>", 2, "the label 5 is not known"),
        ("<recv request=\"A\" optional=\"true\"/>\n<nop/>", 2, "has to be followed"),
        ("<recvCmd/>", 2, "third party"),
        ("<send/>", 2, "<send> has no message"),
        ("<nop><action>\n<exec command=\"rm\"/></action></nop>", 3, "left out on purpose"),
        ("<nop><action><exec int_cmd=\"x\"/></action></nop>", 2, "stop_call"),
        ("<nop><action><lookup/></action></nop>", 2, "<lookup> is not supported"),
        ("<nop><action><ereg regexp=\"(\"/></action></nop>", 2, "cannot be used"),
        ("<nop><action><divide assign_to=\"a\" value=\"0\"/></action></nop>", 2, "by 0"),
        ("<send><![CDATA[\n\n  A [nonsense]]]></send>", 4, "[nonsense] is not known"),
        ("<init><send/></init>", 2, "<send> in <init>"),
        ("<pause milliseconds=\"-1\" distribution=\"odd\"/>", 2, "odd is not known"),
    ] {
        let fault = scenario(body).unwrap_err();
        assert!(fault.text.contains(part), "{body}: {fault:?}");
        assert_eq!(fault.place.line, line, "{body}: {fault:?}");
    }
}
