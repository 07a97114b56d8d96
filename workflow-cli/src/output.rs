//! Prints: data to the standard output, everything else to the standard error.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, presets};
use serde::Serialize;
use workflow_sdk::internal::is_control;

use crate::arguments::{Format, Global, When};
use crate::clock::Clock;
use crate::{Exit, Failure};

/// The titles of columns with ids, which are never cut: ids of one hour begin alike.
const IDS: [&str; 5] = ["RUN", "LAST RUN", "WORKER", "ID", "TARGET"];

#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    is_colored: bool,
    is_terminal: bool,
    is_ascii: bool,
    clock: Clock,
}

/// The rows of a table below their titles.
#[derive(Debug)]
pub(crate) struct Rows {
    titles: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// `true` if a row has as many lines as its texts need, also on a terminal.
    is_whole: bool,
}

impl Rows {
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        Self { titles: titles.to_vec(), rows: Vec::new(), is_whole: false }
    }

    /// Shows every text whole. On a terminal, a row then takes more than one line if it needs them.
    pub(crate) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Adds a row. A cell with control characters loses its color with them.
    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        let is_plain = |cell: &Cell| !cell.content().contains(|c| is_control(c) && c != '\n');
        let cells =
            cells.into_iter().map(|cell| if is_plain(&cell) { cell } else { Cell::new(printable(&cell.content())) });
        self.rows.push(cells.collect());
    }
}

/// Returns a cell for a value that may be missing.
pub(crate) fn maybe(value: Option<impl ToString>) -> Cell {
    value.map_or_else(|| Cell::new("-").fg(Color::DarkGrey), |value| Cell::new(value.to_string()))
}

/// Returns a cell for a number.
pub(crate) fn number(value: impl ToString) -> Cell {
    Cell::new(value.to_string()).set_alignment(CellAlignment::Right)
}

/// Returns a text as one line without control characters, with which it could change what a
/// terminal shows. Texts of flows, errors and payloads come from outside.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns the lines of a text, each as [`printable`] does.
fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let refuses_colors = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_colored = match global.color {
            When::Always => true,
            When::Never => false,
            When::Auto => is_terminal && !refuses_colors && !is_dumb,
        };
        let format = if global.json { Format::Json } else { global.output };
        let is_ascii = global.ascii || is_dumb;
        Self { format, is_colored, is_terminal, is_ascii, clock: Clock::new(global.utc, global.iso) }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the width of a drawing: that of the terminal, if there is one.
    pub(crate) fn columns(&self) -> usize {
        const USUAL: usize = 100;
        let width = if self.is_terminal { Table::new().width() } else { None };
        width.map_or(USUAL, usize::from)
    }

    /// Returns `true` if the terminal may not show more than ASCII.
    pub(crate) fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    /// Returns `true` if the whole answer is one document.
    pub(crate) fn is_one_document(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns `true` if a person reads the output, not a program.
    pub(crate) fn is_for_people(&self) -> bool {
        self.format == Format::Table
    }

    /// Prints a list: the whole answer as JSON, each item on a line, the id of each item, or a
    /// table.
    pub(crate) fn list<T: Serialize, I: Serialize>(
        &self,
        answer: &T,
        items: &[I],
        id: impl Fn(&I) -> String,
        table: impl FnOnce(&Clock) -> Rows,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(answer),
            Format::Jsonl => items.iter().try_for_each(|item| self.line(serde_json::to_string(item)?)),
            Format::Ids => items.iter().try_for_each(|item| self.line(id(item))),
            Format::Table => self.table(table(&self.clock)),
        }
    }

    /// Prints one answer: as JSON, on one line, its id, or as a text.
    pub(crate) fn one<T: Serialize>(
        &self,
        answer: &T,
        id: impl FnOnce() -> String,
        text: impl FnOnce(&Clock) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(answer),
            Format::Jsonl => self.line(serde_json::to_string(answer)?),
            Format::Ids => self.line(id()),
            Format::Table => self.line(printable_lines(&text(&self.clock))),
        }
    }

    fn json<T: Serialize>(&self, answer: &T) -> Result<(), Failure> {
        self.line(serde_json::to_string_pretty(answer)?)
    }

    /// Prints a line of data.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.as_ref())?;
        Ok(out.flush()?)
    }

    /// Clears the screen of a person, for what is shown next.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        if !self.is_terminal || !self.is_for_people() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        write!(out, "\u{1b}[H\u{1b}[2J\u{1b}[3J")?;
        Ok(out.flush()?)
    }

    fn table(&self, rows: Rows) -> Result<(), Failure> {
        if rows.rows.is_empty() {
            return Ok(());
        }
        self.line(self.table_text(rows))
    }

    /// Returns a table as text. On a terminal, a row takes one line unless its texts are whole.
    pub(crate) fn table_text(&self, Rows { titles, rows, is_whole }: Rows) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.is_terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            // Without colors, the table does not ask the terminal for its width.
            if let Some(width) = table.width() {
                table.set_width(width);
            }
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if self.is_colored {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let row_of = |cells: Vec<Cell>| {
            let mut row = Row::from(cells);
            if self.is_terminal && !is_whole {
                row.max_height(1);
            }
            row
        };
        table.set_header(row_of(titles.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)).collect()));
        for cells in rows {
            table.add_row(row_of(cells));
        }
        for (column, title) in table.column_iter_mut().zip(titles) {
            column.set_padding((0, 2));
            if IDS.contains(&title) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }

    /// Tells what the page of a list lacks: that `nothing` was found, or where `more` stands.
    /// Programs that read ids or lines are told of more, too; a document has its cursor.
    pub(crate) fn page_end(&self, nothing: Option<&str>, more: Option<String>) {
        if let Some(nothing) = nothing.filter(|_| self.is_for_people()) {
            self.note(nothing);
        }
        if let Some(more) = more.filter(|_| !self.is_one_document()) {
            self.note(more);
        }
    }

    /// Tells a person something that is no data.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        // A closed standard error leaves nothing to say.
        let _ = writeln!(io::stderr(), "{}", printable_lines(text.as_ref()));
    }

    /// Says why the command failed, and returns its exit code.
    pub(crate) fn fail(&self, Failure { exit, message, help }: Failure) -> Exit {
        if message.is_empty() {
            return exit;
        }
        let is_colored = self.is_colored && io::stderr().is_terminal();
        let label = if is_colored { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" };
        // A closed standard error leaves nothing to say.
        let _ = write!(io::stderr(), "{label} ");
        self.note(message);
        if let Some(help) = help {
            self.note(format!("  help: {help}"));
        }
        exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_reaches_the_terminal_with_control_characters() {
        let hostile = "\u{1b}]52;c;eA==\u{7}\r\u{9b}2K\u{202e}ok";
        assert_eq!(printable(hostile), "\u{fffd}]52;c;eA==\u{fffd}\u{fffd}\u{fffd}2K\u{fffd}ok");
        assert_eq!(printable_lines("a\nb\r\n"), "a\nb\u{fffd}\n");
        let mut rows = Rows::new(&["ERROR"]);
        rows.push(vec![Cell::new(hostile), Cell::new("two\nlines")]);
        let contents: Vec<String> = rows.rows.iter().flatten().map(Cell::content).collect();
        assert_eq!(contents, [printable(hostile), "two\nlines".to_owned()]);
    }
}
