use std::ops::Range;

use super::parse::end_of;
use super::scan::column;
use super::{Expression, ExpressionError, Reference};

/// Expressions in one text.
pub(super) const MOST_EXPRESSIONS: usize = 64;

/// A text with expressions in `{{ }}`.
///
/// A text that is one expression keeps the JSON type of its value. Otherwise the values are joined
/// as text: texts as they are, all else as JSON. `{{{{` stands for `{{`.
///
/// ```
/// use workflow_flows::expression::Template;
///
/// let text = "order {{input.order.id}} of {{run.actor ?? 'unknown'}}";
/// let template = Template::parse(text).unwrap();
/// let references = template.references();
/// let paths: Vec<String> = references.iter().map(|read| read.path.to_string()).collect();
/// assert_eq!(paths, ["input.order.id", "run.actor"]);
/// assert!(!template.is_whole());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Parses a text and its expressions.
    ///
    /// # Errors
    /// [`ExpressionError::Syntax`] with the column in the whole text.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut template = Self::split(text)?;
        for part in &mut template.parts {
            if let Part::Expression(expression) = part {
                expression.read_cel()?;
            }
        }
        Ok(template)
    }

    /// Splits a text into its parts, without a look into CEL.
    pub(super) fn split(text: &str) -> Result<Self, ExpressionError> {
        let bounds = bounds(text)?;
        if let Some(first_too_many) = bounds.get(MOST_EXPRESSIONS) {
            let message = format!("the text has more than {MOST_EXPRESSIONS} expressions");
            let column = column(text, first_too_many.start - 2);
            return Err(ExpressionError::Syntax { message, column });
        }
        let mut parts = Vec::new();
        let mut at = 0;
        let literal = |bytes: Range<usize>| text.get(bytes).unwrap_or("").replace("{{{{", "{{");
        for inner in bounds {
            if at + 2 < inner.start {
                parts.push(Part::Text(literal(at..inner.start - 2)));
            }
            at = inner.end + 2;
            let first_column = column(text, inner.start);
            let source = text.get(inner).unwrap_or("");
            parts.push(Part::Expression(Expression::split_at(source, first_column)?));
        }
        if at < text.len() || parts.is_empty() {
            parts.push(Part::Text(literal(at..text.len())));
        }
        Ok(Self { parts })
    }

    /// Returns the expressions, in the order of the text.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expression(expression) => Some(expression),
            Part::Text(_) => None,
        })
    }

    /// Returns the paths that the expressions read. Columns are those of the whole text.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        self.expressions().flat_map(Expression::references).collect()
    }

    /// Returns whether the text is one expression, whose value keeps its type.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Expression(_)])
    }

    /// Returns the text, if there is no expression in it.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// Returns the bytes of each expression of a text, without its braces. `{{{{` begins none.
pub(crate) fn bounds(text: &str) -> Result<Vec<Range<usize>>, ExpressionError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find("{{")).map(|open| at + open) {
        let rest = text.get(open..).unwrap_or("");
        if rest.starts_with("{{{{") {
            at = open + 4;
            continue;
        }
        let inner = rest.get(2..).unwrap_or("");
        let end = end_of(inner).map_err(|error| error.moved(column(text, open) + 1))?.ok_or_else(|| {
            let message = "`{{` has no `}}`; for the text `{{` write `{{{{`".to_owned();
            ExpressionError::Syntax { message, column: column(text, open) }
        })?;
        found.push(open + 2..open + 2 + end);
        at = open + end + 4;
    }
    Ok(found)
}
