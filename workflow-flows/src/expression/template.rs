use super::parse::end_of;
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
/// let template = Template::parse("order {{input.order.id}} of {{run.actor ?? 'unknown'}}").unwrap();
/// let read: Vec<String> = template.references().iter().map(|read| read.path.to_string()).collect();
/// assert_eq!(read, ["input.order.id", "run.actor"]);
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
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        let mut column = 1;
        let mut expressions = 0;
        while let Some(open) = rest.find("{{") {
            let (before, after) = rest.split_at(open);
            literal.push_str(before);
            column += before.chars().count();
            if let Some(escaped) = after.strip_prefix("{{{{") {
                literal.push_str("{{");
                column += 4;
                rest = escaped;
                continue;
            }
            expressions += 1;
            if expressions > MOST_EXPRESSIONS {
                let message = format!("the text has more than {MOST_EXPRESSIONS} expressions");
                return Err(ExpressionError::Syntax { message, column });
            }
            let inner = after.get(2..).unwrap_or("");
            let end = end_of(inner).map_err(|error| error.moved(column + 1))?.ok_or_else(|| {
                let message = "`{{` has no `}}`; for the text `{{` write `{{{{`".to_owned();
                ExpressionError::Syntax { message, column }
            })?;
            let (source, close) = inner.split_at(end);
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Expression(Expression::split_at(source, column + 2)?));
            column += source.chars().count() + 4;
            rest = close.get(2..).unwrap_or("");
        }
        literal.push_str(rest);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Text(literal));
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
