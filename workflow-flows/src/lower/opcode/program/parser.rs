//! Reads a program in Expr and writes it in CEL.

use super::function;
use super::lexer::{Kind, Token};
use super::{DEPTH, Fault, WORDS, member, quoted};

/// The values that a program reads by their names. Other names are those of inputs.
const ROOTS: [&str; 5] = ["steps", "inputs", "workflow", "context", "data"];

/// The beginning of the names of variables that the translation adds. No program may have such a
/// variable.
const OWN: &str = "_v";

/// The operators with their precedence.
const OPERATORS: [(&str, u8); 22] = [
    ("or", 10),
    ("||", 10),
    ("and", 15),
    ("&&", 15),
    ("==", 20),
    ("!=", 20),
    ("<", 20),
    (">", 20),
    ("<=", 20),
    (">=", 20),
    ("in", 20),
    ("matches", 20),
    ("contains", 20),
    ("startsWith", 20),
    ("endsWith", 20),
    ("..", 25),
    ("+", 30),
    ("-", 30),
    ("*", 60),
    ("/", 60),
    ("%", 60),
    ("**", 100),
];

/// A value in CEL.
struct Term {
    cel: String,
    /// The value with each member optional, if it has members.
    guarded: Option<String>,
    /// Whether the program writes `?.`, so that a member may be missing.
    is_optional: bool,
}

impl Term {
    fn new(cel: impl Into<String>) -> Self {
        Self { cel: cel.into(), guarded: None, is_optional: false }
    }

    /// Adds a member. `optional` is the member where it may be missing.
    fn select(self, plain: &str, optional: &str, is_optional: bool) -> Self {
        let base = self.guarded.as_deref().unwrap_or(&self.cel);
        let guarded = format!("{base}{optional}");
        // After the first `?.` each member may be missing.
        let is_optional = self.is_optional || is_optional;
        let cel = format!("{}{}", self.cel, if is_optional { optional } else { plain });
        Self { cel, guarded: Some(guarded), is_optional }
    }

    /// Returns the value, or null for a member that may be missing.
    fn finish(self) -> String {
        if self.is_optional { format!("{}.orValue(null)", self.cel) } else { self.cel }
    }

    /// Returns the value, or null if any of its members is missing.
    fn or_null(self) -> String {
        self.guarded.map_or(self.cel, |guarded| format!("{guarded}.orValue(null)"))
    }
}

pub(super) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The number of variables that are in use.
    variables: usize,
    /// The variables of the predicates around, from the outside.
    items: Vec<String>,
    /// The names that `let` gives.
    names: Vec<String>,
    /// Whether the program reads `data`.
    pub(super) reads_data: bool,
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str, tokens: Vec<Token>) -> Self {
        let (items, names) = (Vec::new(), Vec::new());
        Self { source, tokens, at: 0, depth: 0, variables: 0, items, names, reads_data: false }
    }

    /// Reads the whole program.
    pub(super) fn program(&mut self) -> Result<String, Fault> {
        let program = self.expression()?;
        match self.kind() {
            Kind::End => Ok(program),
            _ => Err(self.unexpected("an operator or the end")),
        }
    }

    fn kind(&self) -> &Kind {
        self.tokens.get(self.at).map_or(&Kind::End, |token| &token.kind)
    }

    /// Returns the byte of the token that is next.
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(self.source.len(), |token| token.at)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.kind(), Kind::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), Kind::Name(found) if found == word)
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("{sign:?}"))) }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let found = match self.kind() {
            Kind::End => "the end".to_owned(),
            Kind::Number(_) => "a number".to_owned(),
            Kind::Text(_) => "a text".to_owned(),
            Kind::Name(name) => format!("{name:?}"),
            Kind::Sign(sign) => format!("{sign:?}"),
        };
        Fault::syntax(self.place(), format!("expected {wanted}, found {found}"))
    }

    fn name(&mut self) -> Result<String, Fault> {
        let Kind::Name(name) = self.kind() else { return Err(self.unexpected("a name")) };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    /// Reads with a bound of the depth.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= DEPTH {
            return Err(Fault::syntax(self.place(), format!("the program is more than {DEPTH} levels deep")));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Returns the name of a new variable.
    fn fresh(&mut self) -> String {
        self.variables += 1;
        format!("{OWN}{}", self.variables)
    }

    pub(super) fn expression(&mut self) -> Result<String, Fault> {
        self.deeper(Self::piped)
    }

    fn piped(&mut self) -> Result<String, Fault> {
        if self.is_word("let") {
            return self.binding();
        }
        let mut value = self.conditional()?;
        while self.take("|") {
            let at = self.place();
            let name = self.name()?;
            self.expect("(")?;
            value = function::call(self, &name, at, Some(value))?;
        }
        Ok(value)
    }

    fn binding(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let at = self.place();
        let name = self.name()?;
        if ROOTS.contains(&name.as_str()) || WORDS.contains(&name.as_str()) || name.starts_with(OWN) {
            return Err(Fault::syntax(at, format!("{name:?} cannot be the name of a variable")));
        }
        self.expect("=")?;
        let value = self.expression()?;
        self.expect(";")?;
        self.names.push(name.clone());
        let body = self.expression();
        self.names.pop();
        Ok(format!("cel.bind({name}, {value}, {})", body?))
    }

    fn conditional(&mut self) -> Result<String, Fault> {
        let condition = self.binary(0)?.finish();
        if !self.take("?") {
            return Ok(condition);
        }
        let then = self.expression()?;
        self.expect(":")?;
        let otherwise = self.expression()?;
        Ok(format!("({condition} ? {then} : {otherwise})"))
    }

    /// Returns the operator that is next, with its precedence and whether `not` stands before it.
    fn operator(&self) -> Option<(&'static str, u8, bool)> {
        let negated = self.is_word("not");
        let next = if negated { &self.tokens.get(self.at + 1)?.kind } else { self.kind() };
        let word = match next {
            Kind::Name(name) => name.as_str(),
            Kind::Sign(sign) => *sign,
            _ => return None,
        };
        let (operator, precedence) = match word {
            "^" => ("**", 100),
            _ => *OPERATORS.iter().find(|(operator, _)| *operator == word)?,
        };
        let may_be_negated = ["in", "matches", "contains", "startsWith", "endsWith"].contains(&operator);
        (!negated || may_be_negated).then_some((operator, precedence, negated))
    }

    fn binary(&mut self, least: u8) -> Result<Term, Fault> {
        self.deeper(|parser| parser.operands(least))
    }

    fn operands(&mut self, least: u8) -> Result<Term, Fault> {
        let mut left = self.unary()?;
        while let Some((operator, precedence, negated)) = self.operator().filter(|found| found.1 >= least) {
            let at = self.place();
            if matches!(operator, ".." | "**") {
                return Err(Fault::foreign(at, &format!("the operator {operator:?}")));
            }
            self.at += 1 + usize::from(negated);
            let right = self.binary(precedence + 1)?.finish();
            let combined = combine(&left.finish(), operator, &right);
            left = Term::new(if negated { format!("!{combined}") } else { combined });
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Term, Fault> {
        if self.take("!") || (self.is_word("not") && self.skip()) {
            let operand = self.binary(50)?.finish();
            return Ok(Term::new(format!("!({operand})")));
        }
        if self.take("-") {
            let operand = self.binary(90)?.finish();
            return Ok(Term::new(format!("-({operand})")));
        }
        if self.take("+") {
            return self.binary(90);
        }
        self.with_default()
    }

    fn skip(&mut self) -> bool {
        self.at += 1;
        true
    }

    /// Reads a value, and the one that stands for it if it is nil.
    fn with_default(&mut self) -> Result<Term, Fault> {
        let mut value = self.postfix()?;
        while self.take("??") {
            let other = self.deeper(Self::postfix)?.finish();
            let name = self.fresh();
            let found = value.or_null();
            value = Term::new(format!("cel.bind({name}, {found}, ({name} == null ? {other} : {name}))"));
            self.variables -= 1;
        }
        Ok(value)
    }

    fn postfix(&mut self) -> Result<Term, Fault> {
        let mut value = self.primary()?;
        loop {
            let is_optional = self.is("?.");
            if is_optional || self.is(".") {
                self.at += 1;
                if is_optional && self.take("[") {
                    value = self.index(value, true)?;
                    continue;
                }
                let at = self.place();
                let name = self.name()?;
                if self.is("(") {
                    return Err(Fault::foreign(at, &format!("the method {name:?}")));
                }
                value = value.select(&member(&name, ""), &member(&name, "?"), is_optional);
            } else if self.take("[") {
                value = self.index(value, false)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn index(&mut self, value: Term, is_optional: bool) -> Result<Term, Fault> {
        if self.is(":") {
            return Err(Fault::foreign(self.place(), "a slice"));
        }
        let index = self.expression()?;
        if self.is(":") {
            return Err(Fault::foreign(self.place(), "a slice"));
        }
        self.expect("]")?;
        Ok(value.select(&format!("[{index}]"), &format!("[?{index}]"), is_optional))
    }

    fn primary(&mut self) -> Result<Term, Fault> {
        let at = self.place();
        let kind = self.kind().clone();
        self.at += 1;
        match kind {
            Kind::Number(number) => Ok(Term::new(number)),
            Kind::Text(text) => Ok(Term::new(quoted(&text))),
            Kind::Name(name) => self.named(&name, at),
            Kind::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                let is_whole = inner.starts_with('(') && inner.ends_with(')');
                Ok(Term::new(if is_whole { inner } else { format!("({inner})") }))
            }
            Kind::Sign("[") => {
                let items = self.list("]")?;
                Ok(Term::new(format!("[{}]", items.join(", "))))
            }
            Kind::Sign("{") => self.map(),
            Kind::Sign("#") => {
                let joined = self.tokens.get(self.at).filter(|token| token.at == at + 1);
                if let Some(Kind::Name(name)) = joined.map(|token| &token.kind) {
                    return Err(Fault::foreign(self.place(), &format!("\"#{name}\"")));
                }
                self.item(at, "#")
            }
            Kind::Sign(".") => {
                // A member of the item; the dot is read again as that of the member.
                self.at -= 1;
                self.item(at, ".")
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected("a value"))
            }
        }
    }

    /// Returns the item of the predicate around.
    fn item(&self, at: usize, sign: &str) -> Result<Term, Fault> {
        let item = self.items.last();
        item.map(Term::new).ok_or_else(|| Fault::syntax(at, format!("{sign:?} stands inside of a predicate only")))
    }

    fn named(&mut self, name: &str, at: usize) -> Result<Term, Fault> {
        if self.take("(") {
            return function::call(self, name, at, None).map(Term::new);
        }
        self.reads_data |= name == "data";
        Ok(match name {
            "true" | "false" => Term::new(name),
            "nil" => Term::new("null"),
            "workflow_id" => Term::new("workflow.run_id"),
            "agent_id" => Term::new("context.agent_id"),
            "$env" | "step_id" => return Err(Fault::foreign(at, &format!("{name:?}"))),
            _ if ROOTS.contains(&name) || self.names.iter().any(|known| known == name) => Term::new(name),
            _ => Term::new("inputs").select(&member(name, ""), &member(name, "?"), false),
        })
    }

    /// Reads values up to a sign.
    pub(super) fn list(&mut self, end: &str) -> Result<Vec<String>, Fault> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Term, Fault> {
        let mut members = Vec::new();
        while !self.take("}") {
            let key = match self.kind().clone() {
                Kind::Name(name) | Kind::Text(name) | Kind::Number(name) => {
                    self.at += 1;
                    quoted(&name)
                }
                _ => {
                    self.expect("(")?;
                    let key = self.expression()?;
                    self.expect(")")?;
                    format!("string({key})")
                }
            };
            self.expect(":")?;
            members.push(format!("{key}: {}", self.expression()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        let members = members.join(", ");
        // Two closing braces side by side would end a template.
        let end = if members.ends_with('}') { " }" } else { "}" };
        Ok(Term::new(format!("{{{members}{end}")))
    }

    /// Reads a predicate, in braces or without. Returns its variable and its value.
    pub(super) fn predicate(&mut self) -> Result<(String, String), Fault> {
        let is_braced = self.take("{");
        let variable = self.fresh();
        self.items.push(variable.clone());
        let body = self.expression();
        self.items.pop();
        self.variables -= 1;
        let body = body?;
        if is_braced {
            self.expect("}")?;
        }
        Ok((variable, body))
    }
}

fn combine(left: &str, operator: &str, right: &str) -> String {
    match operator {
        "or" => format!("({left} || {right})"),
        "and" => format!("({left} && {right})"),
        "matches" | "contains" | "startsWith" | "endsWith" => format!("{left}.{operator}({right})"),
        // A division gives a fraction in Expr.
        "/" => format!("(double({left}) / double({right}))"),
        _ => format!("({left} {operator} {right})"),
    }
}
