//! The page in a browser: its layout has no errors, and it makes no network requests.

use super::super::*;
use super::synthetic;
use crate::record::Operation;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The timeout of a browser that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A page that inspects the report in a frame, since the report itself has no scripts, and writes
/// the result into its own text.
const OBSERVER: &str = r#"<!doctype html><title>observer</title>
<iframe id="page" src="report.html" width="1200" height="2000"></iframe><pre id="found"></pre>
<script>
document.getElementById('page').addEventListener('load', event => {
  const page = event.target.contentWindow, root = page.document;
  const faults = [];
  const name = element => element.closest('figure').querySelector('figcaption').textContent;
  const charts = [...root.querySelectorAll('.plot svg')].filter(chart => chart.getBoundingClientRect().width);
  if (charts.length * 2 !== root.querySelectorAll('.plot svg').length) faults.push('not one of two formats');
  for (const chart of charts) {
    const frame = chart.getBoundingClientRect();
    if (frame.width < 200 || frame.height < 50) faults.push(`${name(chart)}: no size`);
    if (!chart.querySelector('polyline, rect, circle, polygon')) faults.push(`${name(chart)}: nothing drawn`);
    const texts = [...chart.querySelectorAll('text')].map(text => [text.textContent.trim(), text.getBoundingClientRect()]);
    texts.filter(([words]) => words).forEach(([words, a], index, all) => {
      if (a.height < 11) faults.push(`${name(chart)}: "${words}" has letters of ${a.height} pixels`);
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        faults.push(`${name(chart)}: "${words}" is cut off`);
      for (const [other, b] of all.slice(index + 1))
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
          faults.push(`${name(chart)}: "${words}" and "${other}" overlap`);
    });
  }
  for (const table of root.querySelectorAll('.table')) {
    if (table.scrollWidth > table.clientWidth)
      faults.push(`table "${table.querySelector('caption')?.textContent}" is ${table.scrollWidth - table.clientWidth} pixels too wide`);
  }
  const ink = page.getComputedStyle(root.body).color, paper = page.getComputedStyle(root.body).backgroundColor;
  document.getElementById('found').textContent = JSON.stringify({
    faults, ink, paper,
    charts: charts.length,
    sections: [...root.querySelectorAll('main > section')].map(section => section.id),
    broken: [...root.querySelectorAll('nav a')].filter(a => !root.querySelector(a.getAttribute('href'))).length,
    outside: [...root.querySelectorAll('[src], [href]')].map(e => e.getAttribute('src') ?? e.getAttribute('href')).filter(to => !to.startsWith('#')),
    scripts: root.scripts.length,
    loaded: page.performance.getEntriesByType('resource').map(entry => entry.name),
    wide: root.documentElement.scrollWidth - page.innerWidth,
    columns: page.getComputedStyle(root.body).gridTemplateColumns.split(' ').length,
    cards: [...root.querySelectorAll('td')].every(td => page.getComputedStyle(td).display === 'flex'),
    first: [...root.querySelectorAll('main > section:first-child > *')].map(e => e.className || e.tagName.toLowerCase()),
  });
});
</script>"#;

#[derive(Deserialize)]
struct Found {
    faults: Vec<String>,
    ink: String,
    paper: String,
    charts: usize,
    sections: Vec<String>,
    broken: usize,
    outside: Vec<String>,
    scripts: usize,
    loaded: Vec<String>,
    wide: i64,
    columns: usize,
    cards: bool,
    first: Vec<String>,
}

/// Opens the report of these records, and returns the result of the observer and the log of the
/// browser.
fn look(records: &[Record], options: &[&str]) -> (Found, String) {
    look_at_width(records, options, 1200)
}

/// As `look`, in a window of this width in pixels.
fn look_at_width(records: &[Record], options: &[&str], width: u32) -> (Found, String) {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(records, &at("report.html")).unwrap();
    let observer = OBSERVER.replace("width=\"1200\"", &format!("width=\"{width}\""));
    fs::write(at("observer.html"), observer).unwrap();
    let mut browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        // Without it, the observer cannot inspect a page in another file.
        .args(["--allow-file-access-from-files", "--enable-logging=stderr", "--v=0"])
        .args(["--window-size=1400,2200", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", at("profile").display()))
        .args(options)
        .arg(format!("file://{}", at("observer.html").display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(at("dom")).unwrap())
        .stderr(fs::File::create(at("log")).unwrap())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("chromium: {error}; install it with: apt-get install chromium")
        });
    let begin = Instant::now();
    let status = loop {
        match browser.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                browser.kill().unwrap();
                break browser.wait().unwrap();
            }
            None => sleep(Duration::from_millis(20)),
        }
    };
    let log = String::from_utf8_lossy(&fs::read(at("log")).unwrap()).into_owned();
    assert!(status.success(), "{status}: {log}");
    let dom = fs::read_to_string(at("dom")).unwrap();
    let found =
        dom.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let found = found.unwrap_or_else(|| panic!("nothing observed: {dom}\n{log}")).0;
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    (serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}\n{log}")), log)
}

#[test]
fn pages_are_laid_out_without_faults_and_without_a_network() {
    for record in synthetic::all() {
        let kind = record.kind;
        let (found, log) = look(&[record], &[]);
        assert_eq!(found.faults, [""; 0], "{kind:?}");
        assert!(found.charts >= 4, "{kind:?} has {} charts", found.charts);
        assert!(found.sections.len() >= 12, "{kind:?}: {:?}", found.sections);
        assert_eq!(found.broken, 0, "{kind:?} has links that lead nowhere");
        assert_eq!(found.outside, [""; 0], "{kind:?} leads out of the page");
        assert_eq!(found.loaded, [""; 0], "{kind:?} loads something");
        assert_eq!(found.scripts, 0);
        assert!(found.wide <= 0, "{kind:?} is {} pixels wider than the window", found.wide);
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert_eq!(complaints, [""; 0], "{kind:?}");
    }
}

#[test]
fn a_narrow_page_has_cards_and_a_wide_one_its_contents_beside_the_text() {
    for record in [synthetic::single(), synthetic::compared(), synthetic::limit()] {
        let records = [record];
        let (narrow, _) = look_at_width(&records, &[], 400);
        assert!(narrow.cards, "rows are cards");
        assert!(narrow.wide <= 0, "{} pixels wider than the window", narrow.wide);
        assert_eq!(narrow.faults, [""; 0]);
        let (wide, _) = look_at_width(&records, &[], 1280);
        assert_eq!(wide.faults, [""; 0]);
        assert_eq!((wide.columns, wide.cards), (2, false));
        assert!(wide.wide <= 0, "{} pixels wider than the window", wide.wide);
        // The verdict, figures and a chart come first, and no command line.
        assert_eq!(wide.first[..2], ["h2", "reads"]);
        assert!(wide.first[2].starts_with("verdict"), "{:?}", wide.first);
        assert!(wide.first.iter().any(|class| class == "charts"), "{:?}", wide.first);
        assert!(!wide.first.iter().any(|class| class == "pre"), "{:?}", wide.first);
        let place = |id: &str| wide.sections.iter().position(|section| section == id);
        assert!(place("setup") > place("runs"), "{:?}", wide.sections);
    }
}

#[test]
fn no_column_is_cut_off_for_a_long_name() {
    let mut record = synthetic::single();
    let name = "udp:[2001:db8:1234:5678:9abc:def0:1234:5678]:5060";
    record.systems[0].name = name.to_owned();
    for run in &mut record.runs {
        name.clone_into(&mut run.system);
        run.load.authentication = true;
        run.load.operation = Operation::RegisterUpdate;
    }
    let (found, _) = look(&[record], &[]);
    let cut: Vec<_> = found.faults.iter().filter(|fault| fault.starts_with("table")).collect();
    assert!(cut.is_empty(), "{cut:?}");
}

#[test]
fn pages_follow_the_dark_setting() {
    let (light, _) = look(&[synthetic::single()], &["--blink-settings=preferredColorScheme=1"]);
    let (dark, _) = look(&[synthetic::single()], &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(
        (light.ink.as_str(), light.paper.as_str()),
        ("rgb(28, 31, 35)", "rgb(255, 255, 255)")
    );
    assert_eq!((dark.ink.as_str(), dark.paper.as_str()), ("rgb(230, 232, 235)", "rgb(20, 23, 26)"));
}
