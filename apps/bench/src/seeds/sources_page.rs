//! The page docs/sources.md: the rows of the source documents, and where each is here.

use super::source::Source;
use std::fmt::Write as _;

impl Source {
    /// Returns the page.
    pub(crate) fn sources_page(&self) -> String {
        let mut text = self.sources.head.clone();
        for part in &self.sections {
            let _ = write!(text, "\n## {}: {}\n", part.row, part.title);
            if !part.text.is_empty() {
                let _ = write!(text, "\n{}\n", part.text);
            }
            text += "\n| row | what it describes | where it is |\n| --- | --- | --- |\n";
            for row in self.rows.iter().filter(|row| row.id.starts_with(&part.row)) {
                let _ = writeln!(text, "| {} | {} | {} |", row.id, row.text, row.place);
            }
        }
        text += "\n## Figures of the sources that are better than ours\n\n\
                 Ours are of two runs of the short form of `barebell-bench seeds` on two processors, which the load shares with the \
                 system under test and\nother programs, so that most of their values are not valid.\n\n\
                 | figure | subject | difference |\n| --- | --- | --- |\n";
        for figure in &self.figures {
            if let Some(defeat) = &figure.defeat {
                let (document, name, title) = (&figure.document, &figure.name, &figure.title);
                let _ = writeln!(text, "| {document} {name} | {title} | {defeat} |");
            }
        }
        text += "\n## Errors of the sources\n\n\
                 | where | error | value used here |\n| --- | --- | --- |\n";
        for error in &self.errors {
            let _ = writeln!(text, "| {} | {} | {} |", error.place, error.text, error.value);
        }
        text
    }
}
