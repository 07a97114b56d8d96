use super::super::ExpressionError;
use super::super::hint::foreign_operator;
use super::super::scan::column;
use super::functions;
use super::lexer::{Token, TokenKind, tokens};
use super::macros;
use super::node::{Binary, Form, Node, Program};
use super::reader;
use super::value::CelValue;

/// Parentheses, brackets and calls inside of each other.
const MOST_NESTING: usize = 64;
/// Nodes on the way down, operators of one chain included.
const MOST_DEPTH: usize = 250;
/// Words that are kept for later, by CEL's specification.
const RESERVED: [&str; 16] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "while",
];

/// Parses a source, which is at most a few KiB long.
pub(crate) fn parse(source: &str) -> Result<Program, ExpressionError> {
    let mut parser = Parser { source, tokens: tokens(source)?, at: 0, nesting: 0 };
    let mut root = parser.expression()?;
    if parser.kind() != &TokenKind::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    let references = reader::finish(&mut root);
    Ok(Program { root, references })
}

pub(super) struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    nesting: usize,
}

impl Parser<'_> {
    fn kind(&self) -> &TokenKind {
        self.tokens.get(self.at).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn kind_after(&self, tokens: usize) -> &TokenKind {
        self.tokens.get(self.at + tokens).map_or(&TokenKind::End, |token| &token.kind)
    }

    /// Returns the column of the token that is next.
    fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(1, |token| column(self.source, token.start))
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.kind(), TokenKind::Symbol(found) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("{symbol:?}"))) }
    }

    /// Returns the error for a token that is not the wanted one.
    fn unexpected(&self, wanted: &str) -> ExpressionError {
        let previous = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        match (self.kind(), previous) {
            (TokenKind::End, Some(previous)) => match self.unclosed() {
                Some((open, start)) => {
                    let message = format!("`{open}` is not closed");
                    ExpressionError::Syntax { message, column: column(self.source, start) }
                }
                None => self.error(format!("expected {wanted} after {}", shown(&previous.kind))),
            },
            (TokenKind::Name(name), _) => {
                let message = || format!("expected {wanted}, found {name:?}");
                self.error(foreign_operator(name).unwrap_or_else(message))
            }
            (kind, _) => self.error(format!("expected {wanted}, found {}", shown(kind))),
        }
    }

    /// Returns the last bracket that is not closed, and its byte.
    fn unclosed(&self) -> Option<(&'static str, usize)> {
        let mut open = Vec::new();
        for token in &self.tokens {
            match token.kind {
                TokenKind::Symbol(symbol @ ("(" | "[" | "{")) => open.push((symbol, token.start)),
                TokenKind::Symbol(")" | "]" | "}") => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    fn error(&self, message: impl Into<String>) -> ExpressionError {
        ExpressionError::Syntax { message: message.into(), column: self.column() }
    }

    /// Creates a node, unless the tree is too deep.
    fn node(&self, form: Form, column: usize) -> Result<Node, ExpressionError> {
        let depth = 1 + form.children().map(|child| child.depth).max().unwrap_or(0);
        if depth > MOST_DEPTH {
            let message = format!("the expression is too deep; {MOST_DEPTH} operators in a row are the limit");
            return Err(ExpressionError::Syntax { message, column });
        }
        Ok(Node { form, column, depth })
    }

    fn expression(&mut self) -> Result<Node, ExpressionError> {
        self.nesting += 1;
        if self.nesting > MOST_NESTING {
            return Err(self.error(format!("the expression is nested too deep; {MOST_NESTING} levels are the limit")));
        }
        let condition = self.logic(false)?;
        let column = self.column();
        let found = if self.take("?") {
            let then = self.logic(false)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            self.node(Form::If(Box::new(condition), Box::new(then), Box::new(otherwise)), column)
        } else {
            Ok(condition)
        };
        self.nesting -= 1;
        found
    }

    /// Parses a chain of `&&` if `all`, else of `||`.
    fn logic(&mut self, all: bool) -> Result<Node, ExpressionError> {
        let first_column = self.column();
        let first = if all { self.relation()? } else { self.logic(true)? };
        let mut parts = vec![first];
        while self.take(if all { "&&" } else { "||" }) {
            parts.push(if all { self.relation()? } else { self.logic(true)? });
        }
        match (parts.len(), parts.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => {
                parts.extend(last);
                self.node(Form::Logic { all, parts }, first_column)
            }
        }
    }

    fn relation(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::sum, |kind| {
            Some(match kind {
                TokenKind::Symbol("==") => Binary::Equal,
                TokenKind::Symbol("!=") => Binary::Unequal,
                TokenKind::Symbol("<") => Binary::Less,
                TokenKind::Symbol("<=") => Binary::LessEqual,
                TokenKind::Symbol(">") => Binary::Greater,
                TokenKind::Symbol(">=") => Binary::GreaterEqual,
                TokenKind::Name(name) if name == "in" => Binary::In,
                _ => return None,
            })
        })
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::product, |kind| match kind {
            TokenKind::Symbol("+") => Some(Binary::Add),
            TokenKind::Symbol("-") => Some(Binary::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::unary, |kind| match kind {
            TokenKind::Symbol("*") => Some(Binary::Multiply),
            TokenKind::Symbol("/") => Some(Binary::Divide),
            TokenKind::Symbol("%") => Some(Binary::Remainder),
            _ => None,
        })
    }

    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Node, ExpressionError>,
        operator: fn(&TokenKind) -> Option<Binary>,
    ) -> Result<Node, ExpressionError> {
        let mut left = operand(self)?;
        while let Some(found) = operator(self.kind()) {
            let column = self.column();
            self.at += 1;
            let right = operand(self)?;
            left = self.node(Form::Binary(found, Box::new(left), Box::new(right)), column)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, ExpressionError> {
        let column = self.column();
        let mut signs = Vec::new();
        while self.is("!") || self.is("-") {
            // The sign of a number belongs to the number: 2^63 has no positive integer.
            if self.is("-") && matches!(self.kind_after(1), TokenKind::Int(_) | TokenKind::Double(_)) {
                break;
            }
            signs.push(self.is("!"));
            self.at += 1;
        }
        let mut found = self.member()?;
        while let Some(is_not) = signs.pop() {
            found =
                self.node(if is_not { Form::Not(Box::new(found)) } else { Form::Negate(Box::new(found)) }, column)?;
        }
        Ok(found)
    }

    fn member(&mut self) -> Result<Node, ExpressionError> {
        let mut found = self.primary()?;
        loop {
            let column = self.column();
            if self.take(".") {
                let optional = self.take("?");
                let (field, quoted) = match self.kind().clone() {
                    TokenKind::Name(name) => (name, false),
                    TokenKind::Quoted(name) => (name, true),
                    _ => return Err(self.unexpected("a name")),
                };
                self.at += 1;
                found = if !optional && !quoted && self.take("(") {
                    let arguments = self.list(")")?;
                    let form = macros::call(Some(found), field, arguments, column)?;
                    self.check(&form, column)?;
                    self.node(form, column)?
                } else {
                    self.node(Form::Select { of: Box::new(found), field, optional }, column)?
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let at = Box::new(self.expression()?);
                self.expect("]")?;
                found = self.node(Form::Index { of: Box::new(found), at, optional }, column)?;
            } else if self.is("{") && matches!(found.form, Form::Name(_) | Form::Select { .. }) {
                return Err(self.error("messages are not available; write a map: {'name': value}"));
            } else {
                return Ok(found);
            }
        }
    }

    fn check(&self, form: &Form, column: usize) -> Result<(), ExpressionError> {
        let Form::Call { name, target, arguments } = form else { return Ok(()) };
        functions::check(name, target.is_some(), arguments.len())
            .map_err(|message| ExpressionError::Syntax { message, column })
    }

    fn primary(&mut self) -> Result<Node, ExpressionError> {
        let column = self.column();
        let negative = self.take("-");
        let kind = self.kind().clone();
        if let TokenKind::Symbol(symbol) = kind {
            self.at += 1;
            return match symbol {
                "(" => {
                    let inner = self.expression()?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "[" => {
                    let items = self.items()?;
                    self.node(Form::List(items), column)
                }
                "{" => {
                    let entries = self.entries()?;
                    self.node(Form::Map(entries), column)
                }
                "." if matches!(self.kind(), TokenKind::Name(_)) => self.primary(),
                _ => {
                    self.at -= 1;
                    Err(self.unexpected("a value"))
                }
            };
        }
        let literal = match kind {
            TokenKind::Int(magnitude) => {
                let value = i128::from(magnitude) * if negative { -1 } else { 1 };
                let value = i64::try_from(value).map_err(|_| self.error("the number is too large"))?;
                CelValue::Int(value)
            }
            TokenKind::Uint(value) => CelValue::Uint(value),
            TokenKind::Double(value) => CelValue::Double(if negative { -value } else { value }),
            TokenKind::Text(text) => CelValue::text(&text),
            TokenKind::Bytes(bytes) => CelValue::Bytes(bytes.into()),
            TokenKind::Name(name) => return self.name(name, column),
            TokenKind::Quoted(_) => return Err(self.error("a name in back quotes stands after a dot only")),
            TokenKind::Symbol(_) | TokenKind::End => return Err(self.unexpected("a value")),
        };
        self.at += 1;
        self.node(Form::Literal(literal), column)
    }

    fn name(&mut self, name: String, column: usize) -> Result<Node, ExpressionError> {
        let is_loop = name == "loop"
            && matches!(self.kind_after(1), TokenKind::Symbol("."))
            && matches!(self.kind_after(2), TokenKind::Name(part) if part == "item" || part == "index");
        if name == "in" || (RESERVED.contains(&name.as_str()) && !is_loop) {
            return Err(self.error(format!("{name:?} is a reserved word")));
        }
        if let Some(message) = foreign_operator(&name) {
            return Err(self.error(message));
        }
        self.at += 1;
        let form = match name.as_str() {
            "true" => Form::Literal(CelValue::Bool(true)),
            "false" => Form::Literal(CelValue::Bool(false)),
            "null" => Form::Literal(CelValue::Null),
            _ if self.take("(") => {
                let arguments = self.list(")")?;
                macros::call(None, name, arguments, column)?
            }
            _ => Form::Name(name),
        };
        self.check(&form, column)?;
        self.node(form, column)
    }

    /// Parses expressions up to a closing symbol.
    fn list(&mut self, close: &str) -> Result<Vec<Node>, ExpressionError> {
        let mut found = Vec::new();
        if self.take(close) {
            return Ok(found);
        }
        loop {
            found.push(self.expression()?);
            if self.take(close) {
                return Ok(found);
            }
            self.expect(",")?;
        }
    }

    fn items(&mut self) -> Result<Vec<(bool, Node)>, ExpressionError> {
        let mut found = Vec::new();
        while !self.take("]") {
            let optional = self.take("?");
            found.push((optional, self.expression()?));
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(found)
    }

    fn entries(&mut self) -> Result<Vec<(bool, Node, Node)>, ExpressionError> {
        let mut found = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            found.push((optional, key, self.expression()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(found)
    }
}

fn shown(kind: &TokenKind) -> String {
    match kind {
        TokenKind::End => "the end".to_owned(),
        TokenKind::Symbol(symbol) => format!("{symbol:?}"),
        TokenKind::Name(name) | TokenKind::Quoted(name) => format!("{name:?}"),
        TokenKind::Int(_) | TokenKind::Uint(_) | TokenKind::Double(_) => "a number".to_owned(),
        TokenKind::Text(_) | TokenKind::Bytes(_) => "a text".to_owned(),
    }
}
