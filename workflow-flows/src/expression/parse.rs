use serde_json::Value;

use super::cel::{self, ResultKind};
use super::scan::{Outside, column};
use super::{ExpressionError, Path, Reference, literal};

/// Bytes of one expression's source.
pub(crate) const MOST_SOURCE_BYTES: usize = 4096;

/// One expression: a path, a literal or CEL, with `??` between alternatives.
///
/// ```
/// use workflow_flows::expression::Expression;
///
/// let expression = Expression::compile("steps.fetch.body.total ?? 0").unwrap();
/// assert_eq!(expression.references()[0].path.to_string(), "steps.fetch.body.total");
/// assert!(expression.references()[0].optional);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    pub(super) alternatives: Vec<Alternative>,
}

/// One side of `??`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alternative {
    pub(super) form: Form,
    /// The column of its first character, from 1.
    pub(super) column: usize,
    pub(super) references: Vec<Reference>,
    pub(super) kind: Option<ResultKind>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Path(Path),
    Literal(Value),
    Cel(String),
}

impl Expression {
    /// Parses a source: a path, a literal or CEL, with `{{ }}` around it or without.
    ///
    /// # Errors
    /// [`ExpressionError::Syntax`] with the column.
    pub fn compile(source: &str) -> Result<Self, ExpressionError> {
        let mut expression = Self::split(source)?;
        expression.read_cel()?;
        Ok(expression)
    }

    /// Parses the CEL of the expression and notes what it reads.
    pub(super) fn read_cel(&mut self) -> Result<(), ExpressionError> {
        let last = self.alternatives.len().saturating_sub(1);
        for (index, alternative) in self.alternatives.iter_mut().enumerate() {
            let Form::Cel(source) = &alternative.form else { continue };
            let columns = alternative.column - 1;
            let program = cel::parse(source).map_err(|error| error.moved(columns))?;
            alternative.kind = program.kind();
            alternative.references = program.references;
            for reference in &mut alternative.references {
                reference.column += columns;
                reference.optional |= index < last;
            }
        }
        Ok(())
    }

    /// Returns what the expression gives, where that is known without an evaluation.
    ///
    /// ```
    /// use workflow_flows::expression::{Expression, ResultKind};
    ///
    /// let kind = |source| Expression::compile(source).unwrap().kind();
    /// assert_eq!(kind("input.total > 5"), Some(ResultKind::Boolean));
    /// assert_eq!(kind("input.total + 5"), Some(ResultKind::Number));
    /// assert_eq!(kind("input.total"), None);
    /// ```
    #[must_use]
    pub fn kind(&self) -> Option<ResultKind> {
        let (first, rest) = self.alternatives.split_first()?;
        rest.iter().all(|other| other.kind == first.kind).then_some(first.kind)?
    }

    /// Splits a source into its alternatives, without a look into CEL.
    ///
    /// A source that is one whole `{{ }}` is taken without the braces.
    pub(super) fn split(source: &str) -> Result<Self, ExpressionError> {
        match whole(source) {
            Some(inner) => Self::split_at(inner, 3),
            None => Self::split_at(source, 1),
        }
    }

    /// Splits a source whose first character stands at a column of a longer text.
    pub(super) fn split_at(source: &str, first_column: usize) -> Result<Self, ExpressionError> {
        let at = |error: ExpressionError| error.moved(first_column - 1);
        if source.len() > MOST_SOURCE_BYTES {
            let message = format!("the expression has {} bytes; {MOST_SOURCE_BYTES} is the limit", source.len());
            return Err(at(ExpressionError::Syntax { message, column: 1 }));
        }
        let bounds = alternatives(source).map_err(at)?;
        let last = bounds.len().saturating_sub(1);
        let parts = bounds.iter().enumerate().map(|(index, (start, end))| {
            let text = source.get(*start..*end).unwrap_or("");
            let lead = text.len() - text.trim_start().len();
            let column = first_column - 1 + column(source, start + lead);
            Alternative::split(text.trim(), column, index < last)
        });
        Ok(Self { alternatives: parts.collect::<Result<_, _>>()? })
    }

    /// Returns the paths that the expression reads, in the order of the source.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        self.alternatives.iter().flat_map(|alternative| &alternative.references).collect()
    }

    /// Returns the path, if the expression is nothing else.
    #[must_use]
    pub fn as_path(&self) -> Option<&Path> {
        match self.alternatives.as_slice() {
            [Alternative { form: Form::Path(path), .. }] => Some(path),
            _ => None,
        }
    }
}

impl Alternative {
    fn split(text: &str, column: usize, optional: bool) -> Result<Self, ExpressionError> {
        if text.is_empty() {
            return Err(ExpressionError::Syntax { message: "an expression is missing here".to_owned(), column });
        }
        if let Some(value) = literal::parse(text) {
            let kind = Some(ResultKind::of(&value));
            return Ok(Self { form: Form::Literal(value), column, references: Vec::new(), kind });
        }
        Ok(match Path::parse(text) {
            Some(path) => {
                let references = vec![Reference { path: path.clone(), column, optional }];
                Self { form: Form::Path(path), column, references, kind: None }
            }
            None => Self { form: Form::Cel(text.to_owned()), column, references: Vec::new(), kind: None },
        })
    }
}

/// Returns what stands between the braces of a text that is one whole `{{ }}`.
fn whole(source: &str) -> Option<&str> {
    let inner = source.strip_prefix("{{")?;
    let end = end_of(inner).ok()??;
    (end + 2 == inner.len()).then(|| inner.get(..end))?
}

/// Returns the byte at which `}}` ends an expression. Braces and string literals in it are skipped.
pub(super) fn end_of(text: &str) -> Result<Option<usize>, ExpressionError> {
    let mut depth = 0_usize;
    let mut characters = Outside::new(text);
    while let Some(next) = characters.next() {
        match next? {
            (_, '{') => depth += 1,
            (at, '}') if depth == 0 && characters.rest().starts_with('}') => return Ok(Some(at)),
            (_, '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the bounds of what stands between `??`.
fn alternatives(source: &str) -> Result<Vec<(usize, usize)>, ExpressionError> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut found = Vec::new();
    let mut characters = Outside::new(source);
    while let Some(next) = characters.next() {
        match next? {
            (_, '(' | '[' | '{') => depth += 1,
            (_, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (at, '?') if characters.rest().starts_with('?') => {
                if depth > 0 {
                    let message = "`??` may not stand in parentheses; CEL has `a.?b.orValue(c)`".to_owned();
                    return Err(ExpressionError::Syntax { message, column: column(source, at) });
                }
                characters.next();
                found.push((start, at));
                start = at + 2;
            }
            _ => {}
        }
    }
    found.push((start, source.len()));
    Ok(found)
}
