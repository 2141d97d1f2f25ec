//! A report as Markdown with the same content as the page. A table with the course of each line
//! replaces a chart.

use super::chart::{Chart, Line};
use super::document::{Block, Document, Table};
use super::format;
use std::fmt::Write as _;

/// The levels of height in one character.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The limit of characters for the course of a line.
const COURSE: usize = 40;

/// Returns the text.
pub(super) fn text(document: &Document) -> String {
    let mut text = format!("# {}\n", plain(&document.title));
    for section in &document.sections {
        let _ = write!(text, "\n## {}\n\n", plain(&section.title));
        if !section.reads.is_empty() {
            let _ = write!(text, "{}\n\n", plain(&section.reads));
        }
        for block in &section.blocks {
            write_block(&mut text, block);
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn write_block(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Heading(heading) => write!(text, "### {}\n\n", plain(heading)),
        Block::Text(words) => write!(text, "{}\n\n", plain(words)),
        Block::Verdict(verdict) => {
            let sign = if verdict.good { "✓" } else { "✗" };
            let _ = write!(text, "**{sign} {}**\n\n", plain(&verdict.title));
            if !verdict.text.is_empty() {
                let _ = write!(text, "{}\n\n", plain(&verdict.text));
            }
            write_list(text, &verdict.reasons);
            Ok(())
        }
        Block::List(items) => {
            write_list(text, items);
            Ok(())
        }
        Block::Code(code) => {
            write_code(text, code);
            Ok(())
        }
        Block::Table(table) => {
            write_table(text, table);
            Ok(())
        }
        Block::Chart(chart) => {
            write_table(text, &courses(chart));
            Ok(())
        }
        Block::Ladder(ladder) => {
            write_code(text, &ladder.flow.text());
            Ok(())
        }
    };
}

/// An indented block: no content can end it.
fn write_code(text: &mut String, code: &str) {
    let code = code.lines().map(|line| line.replace(char::is_control, "\u{fffd}"));
    let code: Vec<String> = code.map(|line| format!("    {line}\n")).collect();
    let _ = writeln!(text, "{}", code.concat());
}

fn write_list(text: &mut String, items: &[String]) {
    for item in items {
        let _ = writeln!(text, "- {}", plain(item));
    }
    if !items.is_empty() {
        text.push('\n');
    }
}

fn write_table(text: &mut String, table: &Table) {
    let _ = write!(text, "**{}**\n\n|", plain(&table.caption));
    for column in &table.columns {
        let _ = write!(text, " {} |", plain(&column.title));
    }
    text.push_str("\n|");
    for column in &table.columns {
        text.push_str(if column.figures { " ---: |" } else { " --- |" });
    }
    text.push('\n');
    for row in &table.rows {
        text.push('|');
        for (index, cell) in row.cells.iter().enumerate() {
            let mark = if index == 0 && row.doubtful { " **✗ not valid**" } else { "" };
            let _ = write!(text, " {}{mark} |", plain(cell));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// Returns a chart as a table.
fn courses(chart: &Chart) -> Table {
    if !chart.bars.is_empty() {
        let mut table = Table::new(&*chart.title, &["", "", &format!("#{}", chart.x.title), ""]);
        let longest = chart.bars.iter().flat_map(|(_, bars)| bars).map(|bar| bar.value);
        let longest = longest.fold(0.0, f64::max);
        for (name, bars) in &chart.bars {
            for bar in bars {
                let length = (bar.value / longest * 20.0).round().clamp(0.0, 20.0) as usize;
                let cells = [
                    name.clone(),
                    bar.label.clone(),
                    format::figure(bar.value),
                    "█".repeat(length),
                ];
                table.row_doubtful(bar.doubtful, cells.to_vec());
            }
        }
        return table;
    }
    let columns = [
        chart.y.title.clone(),
        "#lowest".into(),
        "#highest".into(),
        format!("course over {}", chart.x.title),
    ];
    let mut table = Table::new(&*chart.title, &columns.each_ref().map(String::as_str));
    let (_, ruler) = chart.rulers();
    for line in &chart.lines {
        let points = if line.points.is_empty() { &line.markers } else { &line.points };
        let heights = points.iter().map(|point| point.1);
        let lowest = heights.clone().fold(f64::INFINITY, f64::min);
        let highest = heights.fold(f64::NEG_INFINITY, f64::max);
        let label = if line.label.is_empty() { "repeat" } else { &line.label };
        let mut course = course(line, &|y| ruler.share(y));
        if !line.doubtful.is_empty() {
            course +=
                &format!(" (and {} not valid)", format::counted(line.doubtful.len(), "point"));
        }
        let cells = vec![label.to_owned(), format::figure(lowest), format::figure(highest), course];
        table.row_doubtful(line.points.is_empty() && line.markers.is_empty(), cells);
    }
    for mark in chart.marks.iter().filter(|mark| !mark.label.is_empty()) {
        let label = format!("pointed out: {}", mark.label);
        table.row(vec![label, String::new(), String::new(), String::new()]);
    }
    table
}

/// Returns a line as characters of different height.
fn course(line: &Line, share: &impl Fn(f64) -> f64) -> String {
    let points = if line.points.is_empty() { &line.markers } else { &line.points };
    let per = points.len().div_ceil(COURSE).max(1);
    let heights = points.chunks(per).map(|chunk| {
        let sum: f64 = chunk.iter().map(|point| share(point.1)).sum();
        let height = sum / chunk.len() as f64 * BLOCKS.len() as f64;
        BLOCKS[(height.max(0.0) as usize).min(BLOCKS.len() - 1)]
    });
    heights.collect()
}

/// Escapes text for Markdown and HTML, and replaces line ends.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => plain.extend(['\\', c]),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_records_cannot_become_markup() {
        assert_eq!(
            plain("a|b\n# <img src=x> [l](u) *b*"),
            r"a\|b \# &lt;img src=x&gt; \[l\](u) \*b\*"
        );
    }

    #[test]
    fn the_course_of_a_line_is_seen() {
        let points = (0..80).map(|x| (f64::from(x), f64::from(x))).collect();
        let line = Line::plain("", super::super::chart::Look::Reference, points);
        let course = course(&line, &|y| y / 80.0);
        assert_eq!(course.chars().count(), 40);
        assert!(course.starts_with('▁') && course.ends_with('█'), "{course}");
    }
}
