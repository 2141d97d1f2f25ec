//! Pages of Markdown: their code blocks and their code spans.

use std::path::{Path, PathBuf};

/// The comment before a block of commands that do not run here. A reason follows.
const NOT_RUN: &str = "<!-- not run: ";

/// A page.
pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block<'t> {
    /// The number of its first line, counted from 1.
    pub(crate) line: usize,
    /// The language after the fence; empty for commands.
    pub(crate) language: &'t str,
    pub(crate) lines: Vec<&'t str>,
    /// Why its commands do not run, where a comment before it says so.
    pub(crate) not_run: Option<&'t str>,
}

/// A command of a block, perhaps of several lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The number of its first line, counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a folder of their own")
}

impl Page {
    pub(crate) fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let text = std::fs::read_to_string(root().join(&path));
        Self { text: text.unwrap_or_else(|error| panic!("{}: {error}", path.display())), path }
    }

    /// All pages of the repository.
    pub(crate) fn all() -> Vec<Self> {
        let mut pages = Vec::new();
        for folder in ["", "docs", "docs/dev", "docs/dev/decisions", "docs/benchmarks"] {
            for entry in root().join(folder).read_dir().expect("a folder of documents") {
                let path = entry.expect("an entry").path();
                if path.extension().is_some_and(|extension| extension == "md") {
                    let relative = path.strip_prefix(root()).expect("a path in the repository");
                    pages.push(Self::read(relative));
                }
            }
        }
        pages
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        let mut not_run = None;
        for (index, line) in self.text.lines().enumerate() {
            if let Some(language) = line.strip_prefix("```") {
                match open.take() {
                    Some(block) => blocks.push(block),
                    None => {
                        let (lines, not_run) = (Vec::new(), not_run.take());
                        open = Some(Block { line: index + 2, language, lines, not_run });
                    }
                }
            } else if let Some(block) = &mut open {
                block.lines.push(line);
            } else if let Some(reason) = line.strip_prefix(NOT_RUN) {
                not_run = reason.strip_suffix(" -->");
                assert!(not_run.is_some(), "{}:{}: expected -->", self.path.display(), index + 1);
            } else if !line.trim().is_empty() {
                not_run = None;
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.path.display());
        blocks
    }

    /// What stands between backticks outside of blocks, with the number of its line.
    pub(crate) fn spans(&self) -> Vec<(usize, &str)> {
        let mut is_block = false;
        let mut spans = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            if line.starts_with("```") {
                is_block = !is_block;
            } else if !is_block {
                let parts = line.split('`').skip(1).step_by(2);
                spans.extend(parts.map(|span| (index + 1, span)));
            }
        }
        spans
    }
}

impl Block<'_> {
    /// Its commands. In a block with prompts (`$ `) only what follows these is one.
    pub(crate) fn commands(&self) -> Vec<Command> {
        if !matches!(self.language, "" | "sh") {
            return Vec::new();
        }
        let has_prompts = self.lines.iter().any(|line| line.starts_with("$ "));
        let mut commands = Vec::new();
        let mut lines = self.lines.iter().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(line) = (if has_prompts { line.strip_prefix("$ ") } else { Some(*line) })
            else {
                continue;
            };
            let mut text = line.to_owned();
            let end = line.split_once("<<'").and_then(|(_, end)| end.split('\'').next());
            while text.ends_with('\\') || end.is_some_and(|end| text.lines().last() != Some(end)) {
                let Some((_, more)) = lines.next() else { break };
                text.push('\n');
                text.push_str(more);
            }
            if !text.trim().is_empty() {
                commands.push(Command { line: self.line + index, text });
            }
        }
        commands
    }
}

#[test]
fn a_page_is_taken_apart() {
    let text = "`a` b `c`\n```\none \\\n  two\ncat <<'END'\nx\nEND\n```\n<!-- not run: why -->\n\n```\n$ x\ny\n```\n\
                ```toml\nk = 1\n```\n";
    let page = Page { path: "x.md".into(), text: text.to_owned() };
    assert_eq!(page.spans(), [(1, "a"), (1, "c")]);
    let blocks = page.blocks();
    let command = |line, text: &str| Command { line, text: text.to_owned() };
    assert_eq!(
        blocks[0].commands(),
        [command(3, "one \\\n  two"), command(5, "cat <<'END'\nx\nEND")]
    );
    assert_eq!((blocks[0].not_run, blocks[1].not_run), (None, Some("why")));
    assert_eq!(blocks[1].commands(), [command(12, "x")]);
    assert_eq!(blocks[2].commands(), []);
}
