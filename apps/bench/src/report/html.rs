//! A report as one self-contained HTML page: no external script, font or picture.

use super::chart::Chart;
use super::document::{Block, Document, Section, Table, Verdict};
use super::draw::{self, Format};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The content security policy: only the page's own style is allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Returns the page.
pub(super) fn page(document: &Document) -> String {
    let head = html! { meta http-equiv="Content-Security-Policy" content=(POLICY); };
    whole(document, &head, &nav(document))
}

/// Returns the page with a script that replaces its content once a second. Its policy is in the
/// header fields of the response.
pub(super) fn live_page(document: &Document) -> String {
    let head = html! {
        script src="live.js" defer {}
        noscript { meta http-equiv="refresh" content="2"; }
    };
    let header = html! {
        (nav(document))
        p #lost role="status" hidden { "The command does not answer: it may have ended." }
    };
    whole(document, &head, &header)
}

/// Returns the content of the page.
pub(super) fn content(document: &Document) -> String {
    sections(document).into_string()
}

fn nav(document: &Document) -> Markup {
    html! {
        nav aria-label="Sections" {
            @for section in &document.sections {
                a href={ "#" (section.id) } { (section.title) }
            }
        }
    }
}

fn whole(document: &Document, head: &Markup, header: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (head)
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (document.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (document.title) } (header) }
                main { (sections(document)) }
            }
        }
    };
    page.into_string()
}

fn sections(document: &Document) -> Markup {
    html! { @for section in &document.sections { (self::section(section)) } }
}

fn section(section: &Section) -> Markup {
    // Consecutive charts are placed side by side if there is room.
    let are_charts = |a: &Block, b: &Block| matches!((a, b), (Block::Chart(_), Block::Chart(_)));
    html! {
        section id=(section.id) {
            h2 { (section.title) }
            @if !section.reads.is_empty() { p.reads { (section.reads) } }
            @for blocks in section.blocks.chunk_by(are_charts) {
                @if let [Block::Chart(_), ..] = blocks {
                    div.charts { @for block in blocks { (self::block(block)) } }
                } @else {
                    @for block in blocks { (self::block(block)) }
                }
            }
        }
    }
}

fn block(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Heading(text) => h3 { (text) },
            Block::Text(text) => p { (text) },
            Block::Verdict(verdict) => (self::verdict(verdict)),
            Block::List(items) => ul { @for item in items { li { (item) } } },
            Block::Code(text) => pre { code { (text) } },
            Block::Table(table) => (self::table(table)),
            Block::Chart(chart) => (self::chart(chart)),
            Block::Ladder(ladder) => (ladder.drawn()),
        }
    }
}

fn verdict(verdict: &Verdict) -> Markup {
    html! {
        div.verdict.good[verdict.good].bad[!verdict.good] {
            p.title { span.sign aria-hidden="true" { @if verdict.good { "✓" } @else { "✗" } } " " (verdict.title) }
            @if !verdict.text.is_empty() { p { (verdict.text) } }
            @if !verdict.reasons.is_empty() {
                ul { @for reason in &verdict.reasons { li { (reason) } } }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div.table {
            table {
                caption { (table.caption) }
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" .figures[column.figures] { (column.title) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr.doubtful[row.doubtful] {
                            @for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
                                @if index == 0 {
                                    th scope="row" .figures[column.figures] {
                                        (cell)
                                        @if row.doubtful { " " span.tag { "not valid" } }
                                    }
                                } @else {
                                    td .figures[column.figures] data-label=(column.title) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn chart(chart: &Chart) -> Markup {
    let (legend, doubtful) = chart.legend();
    let bars = !chart.bars.is_empty();
    let svg = |format| draw::svg(chart, format).replacen("<svg ", "<svg role=\"img\" ", 1);
    html! {
        figure .bars[bars] {
            figcaption { (chart.title) }
            // A single line is named by the title of the chart.
            @if legend.len() > 1 || doubtful {
                ul.legend {
                    @for (label, look) in legend {
                        li { (PreEscaped(draw::swatch(Some(look), bars))) (label) }
                    }
                    @if doubtful {
                        li { (PreEscaped(draw::swatch(None, bars))) "not valid" }
                    }
                }
            }
            // The style sheet shows one of them.
            div.plots {
                div.plot { (PreEscaped(svg(Format::Wide))) }
                div.plot.narrow { (PreEscaped(svg(Format::Narrow))) }
            }
        }
    }
}
