//! Tests of whole reports.

mod browser;
mod synthetic;

use super::*;
use crate::record::*;
use quick_xml::Reader;
use quick_xml::events::Event;
use synthetic::{SERVERS, load, run};

/// A hostile name of a system, or text in a message of a peer.
const HOSTILE: &str = "<script>alert(1)</script>\"'&|`[x](y)\u{1b}[0m\u{0}\n# h";

fn hostile() -> Record {
    let mut record = synthetic::single();
    record.tool = HOSTILE.to_owned();
    record.command = vec![HOSTILE.to_owned()];
    record.trouble = HOSTILE.to_owned();
    record.machine.host = HOSTILE.to_owned();
    record.systems[0].name = HOSTILE.to_owned();
    record.systems[0].remarks = vec![HOSTILE.to_owned()];
    record.runs[0].system = HOSTILE.to_owned();
    record.runs[0].label = HOSTILE.to_owned();
    record.runs[0].doubts = vec![HOSTILE.to_owned()];
    record.runs[0].load.transport = HOSTILE.to_owned();
    record.runs[0].counts.finals.insert(HOSTILE.to_owned(), [(999, 1)].into());
    record.criteria[0] =
        Criterion { text: HOSTILE.to_owned(), held: false, seen: HOSTILE.to_owned() };
    record.findings.push(Finding {
        system: HOSTILE.to_owned(),
        name: HOSTILE.to_owned(),
        value: 1.0,
        unit: HOSTILE.to_owned(),
        remark: HOSTILE.to_owned(),
    });
    record
}

#[test]
fn missing_and_failed_measurements_come_first() {
    let mut record = synthetic::single();
    record.criteria.clear();
    record.runs.truncate(1);
    let counts = &mut record.runs[0].counts;
    (counts.offered, counts.succeeded) = (10, 10);
    let whole = markdown(std::slice::from_ref(&record));
    assert!(!whole.contains("NOT COMPLETE") && !whole.contains("FAILED"), "{whole}");
    record.trouble = "the server is not there any more".to_owned();
    record.runs[0].counts.succeeded = 7;
    let told = markdown(std::slice::from_ref(&record));
    for words in
        ["NOT COMPLETE", "the server is not there any more", "FAILED", "3 of 10 operations failed"]
    {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert!(junit(std::slice::from_ref(&record)).contains("3 of 10 operations failed"));
}

#[test]
fn a_cost_that_falls_with_the_rate_is_explained() {
    let costing = |cost: fn(f64) -> f64| {
        let mut records = synthetic::all().into_iter();
        let mut record = records.find(|record| record.kind == Kind::Sweep).unwrap();
        for run in &mut record.runs {
            let watch = run.watch.as_mut().unwrap();
            (watch.total.cpu_system_us, watch.operations) = (0, 1000);
            watch.total.cpu_user_us = (1000.0 * cost(run.load.rate)) as u64;
        }
        markdown(&[record]).contains("An operation costs more at low rates")
    };
    assert!(costing(|rate| 50.0 + 1e6 / rate));
    assert!(!costing(|rate| 50.0 + rate));
}

#[test]
fn findings_are_sentences() {
    let finding = |name: &str, unit: &str, remark: &str| {
        let (name, unit, remark) = (name.to_owned(), unit.to_owned(), remark.to_owned());
        Finding { system: "k".to_owned(), name, value: 1.48, unit, remark }
    };
    for (name, unit, remark, sentence) in [
        (
            "CPU of invite, barebell being 1",
            "",
            "1.4 to 1.5",
            "Kamailio used 1.48 times the CPU of barebell for invite (1.4 to 1.5)",
        ),
        (
            "CPU of register with authentication, the bare exchange being 1",
            "",
            "",
            "Kamailio used 1.48 times the CPU of the bare exchange for register with authentication",
        ),
        (
            "sustainable rate of options",
            "1/s",
            "",
            "Kamailio carried 1.48 options operations a second without a failure",
        ),
        (
            "delay leaves its flat part",
            "1/s",
            "",
            "The delay of Kamailio leaves its flat part at 1.48 operations a second",
        ),
        ("invite delay, 5 users", "ms", "mean", "Kamailio: invite delay, 5 users 1.48 ms (mean)"),
        ("something new", "1/s", "", "Kamailio: something new 1.48 operations a second"),
    ] {
        assert_eq!(finding(name, unit, remark).sentence("Kamailio", "1.48"), sentence);
    }
}

#[test]
fn the_flat_part_of_a_finding_is_that_of_the_table_of_limits() {
    for mut record in synthetic::all().into_iter().filter(|record| record.kind == Kind::Sweep) {
        record.findings.clear();
        for system in &record.systems {
            let found = crate::commands::conclusions(&system.name, &record.runs);
            record.findings.extend(found);
        }
        let document = content::document(std::slice::from_ref(&record));
        let limits = document.sections.iter().find(|section| section.id == "limits").unwrap();
        let document::Block::Table(table) = &limits.blocks[0] else { panic!("no table") };
        let mut compared = 0;
        for row in &table.rows {
            let is_of = |finding: &&Finding| {
                finding.system == row.cells[0] && finding.name == "delay leaves its flat part"
            };
            let found = record.findings.iter().find(is_of).map(|finding| finding.value);
            assert_eq!(row.cells[5], format::maybe(found), "{:?}", row.cells);
            compared += usize::from(found.is_some());
        }
        assert!(compared > 0, "no curve has a flat part");
    }
}

#[test]
fn a_search_that_ended_at_the_ceiling_of_the_generator_is_not_good() {
    let mut record = synthetic::limit();
    record.findings.clear();
    record.findings.push(Finding {
        system: record.systems[0].name.clone(),
        name: "ceiling of the generator with register".to_owned(),
        value: 40_000.0,
        unit: "1/s".to_owned(),
        remark: String::new(),
    });
    let text = markdown(&[record]);
    let verdict = text.lines().find(|line| line.starts_with("**")).unwrap();
    assert!(verdict.starts_with("**✗ NO LIMIT FOUND: barebell carried 40,000"), "{verdict}");
}

/// Returns records with values that no measurement has, but files may contain.
fn absurd() -> Vec<Record> {
    let empty = synthetic::record(Kind::Sweep, &[]);
    let mut zero = synthetic::record(Kind::Compare, &SERVERS);
    let mut huge = synthetic::record(Kind::Limit, &SERVERS[..1]);
    for server in SERVERS {
        let mut run = run(server, load(Operation::Invite, 1.0), 0, 1);
        run.seconds = 0.0;
        run.load.rate = 0.0;
        run.counts = Counts::default();
        run.delays.clear();
        run.series.clear();
        run.watch = None;
        zero.runs.push(run);
    }
    for (at, rate) in [(i64::MIN, 1e308), (i64::MAX, 1e-308), (0, -5.0)] {
        let mut run = run(SERVERS[0], load(Operation::Register, 1.0), u32::MAX, 1);
        run.load.rate = rate;
        run.load.users = u64::MAX;
        run.started = u64::MAX;
        run.seconds = -rate;
        run.counts.offered = u64::MAX;
        run.counts.succeeded = u64::MAX - 1;
        run.counts.finals.insert("REGISTER".to_owned(), [(0, u64::MAX), (200, u64::MAX)].into());
        run.series[0].at = at;
        run.series[0].p99_us = Some(u64::MAX);
        run.generator.cpu_user_us = u64::MAX;
        run.generator.cpu_system_us = u64::MAX;
        let watch = run.watch.as_mut().unwrap();
        watch.total.cpu_user_us = u64::MAX;
        watch.total.cpu_system_us = u64::MAX;
        watch.samples[1].at = f64::MAX;
        huge.runs.push(run);
    }
    huge.started = u64::MAX;
    let kinds =
        [Kind::Run, Kind::Sweep, Kind::Burst, Kind::Qos, Kind::Proxy, Kind::Compare, Kind::Media];
    let of_kinds = kinds
        .into_iter()
        .flat_map(|kind| [&zero, &huge].map(|record| Record { kind, ..record.clone() }));
    let of_kinds: Vec<Record> = of_kinds.collect();
    [vec![empty, zero, huge], of_kinds].concat()
}

fn value(records: &[Record]) -> serde_json::Value {
    serde_json::to_value(records).unwrap()
}

#[test]
fn records_survive_being_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    for record in synthetic::all() {
        write(std::slice::from_ref(&record), &path).unwrap();
        assert_eq!(value(&read(&path).unwrap()), value(&[record]));
    }
    let records = [synthetic::single(), synthetic::burst()];
    write(&records, &path).unwrap();
    assert_eq!(value(&read(&path).unwrap()), value(&records));
}

#[test]
fn errors_name_the_file_and_the_expected_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let error = || read(&path).unwrap_err().to_string();
    assert!(error().contains("run.json cannot be read"), "{}", error());
    let cases = [
        ("", "expected a record"),
        ("{\"format\": 1}", "missing field"),
        ("{\"format\": 1", "EOF"),
        ("[]", "expected a record, and there is none"),
        (
            "{\"format\": 2, \"kind\": \"telepathy\"}",
            "format 2, and this program knows formats up to 1",
        ),
        ("[{\"format\": 99}]", "format 99"),
    ];
    for (text, expected) in cases {
        fs::write(&path, text).unwrap();
        assert!(error().contains("run.json") && error().contains(expected), "{text}: {}", error());
    }
    for name in ["report.pdf", "report"] {
        let error = write(&[], Path::new(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(".html"), "{error}");
    }
    let error = write(&[], Path::new("/nowhere/at/all.md")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all.md cannot be written"), "{error}");
}

#[test]
fn a_damaged_histogram_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    let text = serde_json::to_string(&synthetic::single()).unwrap();
    let (before, hdr) = text.split_once("\"hdr\":\"").unwrap();
    for damage in ["", "AAAA", "!", "HISTFAAAABl42pNpmSzMwMDAxQABMJoRTDCZwQAAAA"] {
        let rest = hdr.split_once('"').unwrap().1;
        fs::write(&path, format!("{before}\"hdr\":\"{damage}\"{rest}")).unwrap();
        assert!(matches!(read(&path), Err(ReportError::Json(..))), "{damage}");
    }
}

#[test]
fn every_kind_has_its_sections() {
    let common =
        ["verdict", "conclusions", "setup", "distribution", "time", "rfc6076", "bands", "failures"];
    let more = ["resources", "steps", "generator", "runs", "definitions"];
    for record in synthetic::all() {
        let own: &[&str] = match record.kind {
            Kind::Run => &["run"],
            Kind::Compare => &["compare"],
            Kind::Sweep | Kind::Proxy => &["curves", "limits"],
            Kind::Limit => &["search", "limits", "findings"],
            Kind::Burst => &["bursts", "limits"],
            Kind::Qos => &["users", "limits"],
            Kind::Media => &["media"],
        };
        let kind = record.kind;
        let document = content::document(&[record]);
        let ids: Vec<&str> = document.sections.iter().map(|section| section.id).collect();
        for id in common.iter().chain(&more).chain(own) {
            assert!(ids.contains(id), "{kind:?} has no {id}: {ids:?}");
        }
        for section in &document.sections {
            assert!(section.reads.ends_with('.'), "{}", section.id);
            assert!(!section.blocks.is_empty(), "{kind:?} {}", section.id);
        }
        assert_eq!(ids.len(), common.len() + more.len() + own.len(), "{kind:?}: {ids:?}");
    }
}

#[test]
fn rows_have_a_cell_for_each_column() {
    for record in [synthetic::all(), absurd()].concat() {
        for section in content::document(&[record]).sections {
            for block in section.blocks {
                if let document::Block::Table(table) = block {
                    for row in &table.rows {
                        assert_eq!(row.cells.len(), table.columns.len(), "{}", table.caption);
                    }
                }
            }
        }
    }
}

#[test]
fn each_step_of_a_proxy_has_its_registrations_and_its_network() {
    let mut record = synthetic::swept(Kind::Proxy);
    for run in &mut record.runs {
        let delays = run.delays[&Delay::Response].clone();
        run.delays.insert(Delay::Rrd, delays);
    }
    let document = content::document(&[record]);
    let section = document.sections.iter().find(|section| section.id == "curves").unwrap();
    let has_chart = |title: &str| {
        let is_it = |block: &document::Block| matches!(block, document::Block::Chart(chart) if chart.title.starts_with(title));
        section.blocks.iter().any(is_it)
    };
    assert!(has_chart("Registration request delay") && has_chart("Network interfaces"));
    let tables = section.blocks.iter().filter_map(|block| match block {
        document::Block::Table(table) => Some(table),
        _ => None,
    });
    let of = |caption: &str| tables.clone().find(|table| table.caption.starts_with(caption));
    let (steps, beside) = (of("Step by step").unwrap(), of("Registrations and network").unwrap());
    assert_eq!(beside.rows.len(), steps.rows.len());
    let row = &beside.rows[0].cells;
    assert_eq!(row[2], steps.rows[0].cells[4], "{row:?}");
    assert_eq!((&row[4][..], &row[5][..]), ("520", "480"));
}

#[test]
fn page_and_text_say_the_same() {
    let records = synthetic::all();
    let (page, text) = (html(&records), markdown(&records));
    let document = content::document(&records);
    for section in &document.sections {
        assert!(page.contains(&format!("id=\"{}\"", section.id)));
        assert!(text.contains(&format!("\n## {}\n", section.title.replace('#', "\\#"))));
    }
    let figures = ["10,500", "2.81 [2.67–2.89]", "42,000", "delay leaves its flat part"];
    for figure in figures {
        let plain = figure.replace('[', "\\[").replace(']', "\\]");
        assert!(page.contains(figure) && text.contains(&plain), "{figure}");
    }
}

#[test]
fn an_invalid_run_does_not_look_like_a_good_one() {
    let mut record = synthetic::single();
    for text in [html(&[record.clone()]), markdown(&[record.clone()])] {
        assert!(text.contains("Valid: the run shows the system under test"));
        assert!(!text.contains("NOT VALID") && !text.contains("not valid<"));
    }
    record.runs[0].doubts = vec!["the socket dropped 71 datagrams".to_owned()];
    let (page, text) = (html(&[record.clone()]), markdown(&[record.clone()]));
    for text in [&page, &text] {
        assert!(text.contains("NOT VALID: no run shows the system under test"));
        assert!(text.contains("the socket dropped 71 datagrams"));
        assert!(!text.contains("Valid: the run"));
    }
    assert!(page.contains("<tr class=\"doubtful\">"));
    // Each row with figures of the invalid run is marked.
    let rows = text.lines().filter(|line| line.starts_with("| barebell") && line.contains("5,000"));
    assert!(rows.clone().count() > 5);
    for row in rows {
        assert!(row.contains("not valid"), "{row}");
    }
}

#[test]
fn medians_leave_out_invalid_runs_and_outliers_are_named() {
    let text = markdown(&[synthetic::compared()]);
    assert!(text.contains("NOT VALID IN PART: 1 of 234 runs"), "{}", &text[..2000]);
    let outlier = "kamailio, register at 2,000 operations/s, repeat 2: CPU per operation";
    assert_eq!(text.matches(outlier).count(), 2, "in the verdict, and with all runs");
    assert!(text.contains("5 of 6 valid"));
}

#[test]
fn systems_of_the_same_name_are_told_apart() {
    let mut second = synthetic::single();
    second.runs[0].watch.as_mut().unwrap().total.cpu_user_us *= 3;
    let text = markdown(&[synthetic::single(), second]);
    assert!(text.contains("barebell (1)") && text.contains("barebell (2)"));
    assert!(text.contains("ratio to barebell (1)"));
}

#[test]
fn limits_are_found_where_the_model_has_them() {
    let document = content::document(&[synthetic::swept(Kind::Proxy)]);
    let limits = document.sections.iter().find(|section| section.id == "limits").unwrap();
    let document::Block::Table(table) = &limits.blocks[0] else { panic!("no table") };
    // The model supports 13,548, 8,387 and 6,129 calls per second; the steps are 1,500.
    let failing: Vec<&str> = table.rows.iter().map(|row| row.cells[4].as_str()).collect();
    assert_eq!(failing, ["15,000", "9,000", "7,500"]);
    for row in &table.rows {
        let number = |cell: usize| row.cells[cell].replace(',', "").parse::<f64>().unwrap();
        assert!(number(2) < number(4) && number(5) <= number(4), "{:?}", row.cells);
    }
}

#[test]
fn steps_that_are_not_valid_set_no_limit() {
    let limits = |record: Record| {
        let document = content::document(&[record]);
        let limits = document.sections.into_iter().find(|section| section.id == "limits").unwrap();
        let Some(document::Block::Table(table)) = limits.blocks.into_iter().next() else {
            panic!("no table")
        };
        table.rows[0].cells[2..4].to_vec()
    };
    let mut record = synthetic::burst();
    assert_eq!(limits(record.clone()), ["3,200", "6,400"]);
    record.runs[6].doubts = vec!["late".to_owned()];
    assert_eq!(limits(record.clone()), ["3,200 or more", "–"]);
    record.runs[5].doubts = vec!["late".to_owned()];
    assert_eq!(limits(record), ["1,600 or more", "–"]);
}

#[test]
fn a_search_is_valid_if_its_confirming_runs_are() {
    let mut record = synthetic::limit();
    record.runs[5].doubts = vec!["the generator was late".to_owned()];
    let text = markdown(&[record.clone()]);
    assert!(text.contains("**✓ Valid, but for 1 step of the search"), "{}", &text[..800]);
    assert!(text.contains("the generator was late"));
    record.runs[11].doubts = vec!["the generator was late".to_owned()];
    assert!(markdown(&[record]).contains("**✗ NOT VALID IN PART: 2 of 28 runs"));
}

#[test]
fn text_from_outside_stays_text() {
    let records = [hostile()];
    let page = html(&records);
    assert!(!page.contains("<script"), "a name became an element");
    assert!(page.contains("&lt;script&gt;"));
    let text = markdown(&records);
    // An indented line is code without markup.
    let outside_code = text.lines().filter(|line| !line.starts_with("    "));
    assert!(!outside_code.clone().any(|line| line.contains("<script")));
    assert!(!text.contains("\n# h"), "a name became a heading");
    assert!(!text.lines().any(|line| line.starts_with('|') && !line.ends_with('|')));
}

#[test]
fn absurd_records_are_reported_all_the_same() {
    for record in absurd() {
        let records = [record];
        for text in [html(&records), markdown(&records), csv(&records), junit(&records)] {
            assert!(!text.contains("NaN") && !text.contains("inf"), "{:?}", records[0].kind);
        }
    }
    assert!(markdown(&[]).contains("Nothing was measured"));
}

#[test]
fn csv_has_a_row_for_each_run() {
    let mut records = synthetic::all();
    records.push(hostile());
    let text = csv(&records);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), records.iter().map(|record| record.runs.len()).sum::<usize>());
    assert!(rows.iter().all(|row| row.len() == names.len()));
    let cell = |row: usize, name: &str| {
        let column = names.iter().position(|other| other == name).unwrap();
        rows[row][column].to_owned()
    };
    assert_eq!(cell(0, "system"), "barebell");
    assert_eq!(cell(0, "rate"), "5000");
    assert_eq!(cell(0, "success_percent"), "100");
    assert_eq!(cell(0, "srd_p99_us"), "", "a registration has no session");
    assert_eq!(cell(rows.len() - 1, "system"), HOSTILE);
    assert_eq!(cell(rows.len() - 1, "valid"), "false");
}

#[test]
fn csv_columns_are_documented() {
    let docs = include_str!("../../../../../docs/report.md");
    for column in csv::columns() {
        let name = &column.name;
        let delays = Delay::ALL.into_iter();
        let delays = delays.filter(|delay| name.starts_with(&format!("{}_", delay.name())));
        let delay = delays.max_by_key(|delay| delay.name().len());
        let documented = match delay {
            // Each delay has the same columns, which are explained once.
            Some(delay) if !docs.contains(&format!("`{name}`")) => {
                docs.contains(&format!("`{}`", delay.name()))
                    && docs.contains(&format!("`_{}`", &name[delay.name().len() + 1..]))
            }
            _ => docs.contains(&format!("`{name}`")),
        };
        assert!(documented, "docs/report.md does not explain {name}");
    }
}

#[test]
fn junit_is_well_formed_and_counts() {
    let mut records = synthetic::all();
    records.push(hostile());
    let text = junit(&records);
    let allowed = |c: char| c >= ' ' || matches!(c, '\n' | '\t' | '\r');
    assert!(text.chars().all(allowed), "XML 1.0 has no control characters");
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_end_names = true;
    let (mut suites, mut cases, mut failures) = (0, 0, 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(element) | Event::Empty(element) => {
                for attribute in element.attributes() {
                    attribute.unwrap();
                }
                match element.name().as_ref() {
                    "testsuite" => suites += 1,
                    "testcase" => cases += 1,
                    "failure" => failures += 1,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let runs = || records.iter().flat_map(|record| &record.runs);
    let criteria = || records.iter().flat_map(|record| &record.criteria);
    assert_eq!(suites, records.len());
    assert_eq!(cases, runs().count() + criteria().count());
    let invalid = runs().filter(|run| !run.is_valid()).count();
    assert_eq!(failures, invalid + criteria().filter(|criterion| !criterion.held).count());
    assert!(failures > 10);
}
