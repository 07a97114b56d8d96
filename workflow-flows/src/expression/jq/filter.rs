use std::fmt::{self, Write as _};

use jaq_core::compile::{self, Undefined};
use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::load::{Arena, Error, File, Loader, parse};
use jaq_core::native::Fun;
use jaq_core::{Bind, Ctx, Vars};
use jaq_json::{Num, Val, read};

use super::answer::Answer;
use super::fault::is_known;

/// Levels of lists and objects in an output. JSON readers refuse more.
const MOST_LEVELS: usize = 100;

/// Functions that read the clock, the environment or other inputs, write, or end the process.
pub(super) const REFUSED: [&str; 17] = [
    "debug",
    "debug_empty",
    "env",
    "halt",
    "halt_error",
    "input",
    "input_filename",
    "input_line_number",
    "inputs",
    "localtime",
    "now",
    "repl",
    "stderr",
    "stderr_empty",
    "strflocaltime",
    "mktime_local",
    "get_search_list",
];

/// Functions of jq that jaq does not have.
const ADDED: &str = r#"
def trimstr($text): ltrimstr($text) | rtrimstr($text);
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p) | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def truncate_stream(stream): . as $n | null | stream | if (.[0] | length) > $n then .[0] |= .[$n:] else empty end;
"#;

/// A compiled program.
pub(super) struct Filter(jaq_core::Filter<JustLut<Val>>);

impl Filter {
    /// Compiles a program.
    pub(super) fn compile(program: &str) -> Result<Self, Answer> {
        compile_with(program, defs(), funs(), &[]).map(Self)
    }

    /// Runs the program and writes its answer as JSON. The outputs are bounded by their number, and
    /// by their bytes as JSON.
    pub(super) fn run(&self, input: &str, outputs: usize, output_bytes: usize) -> Result<String, Answer> {
        let input = read::parse_single(input.as_bytes())
            .map_err(|error| Answer::Failed(format!("the input is no JSON: {error}")))?;
        let context = Ctx::<JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        let mut written = Outputs { answer: BEFORE.to_owned(), most: output_bytes };
        for (output, count) in self.0.id.run((context, input)).zip(1_usize..) {
            if count > outputs {
                return Err(Answer::Budget(format!("the program has more than {outputs} outputs")));
            }
            let value = output.map_err(|exception| match exception.get_err() {
                Ok(error) => Answer::Failed(describe(&error)),
                Err(_) => Answer::Failed("the program breaks out of a label that has ended".to_owned()),
            })?;
            if count > 1 {
                written.answer.push(',');
            }
            written.value(&value, 0)?;
            written.check()?;
        }
        Ok(written.answer + "]}")
    }
}

/// Returns the definitions of jq that programs may call.
pub(super) fn defs() -> impl Iterator<Item = Def<&'static str>> {
    let added = parse(ADDED, |parser| parser.defs()).unwrap_or_default();
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(added);
    defs.filter(|def| !REFUSED.contains(&def.name))
}

/// Returns the native functions that programs may call.
pub(super) fn funs() -> impl Iterator<Item = Fun<JustLut<Val>>> {
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    funs.filter(|fun| !REFUSED.contains(&fun.0))
}

/// Compiles a program that may call these definitions and functions, and read these variables.
pub(super) fn compile_with<'p, F>(
    program: &'p str,
    defs: impl IntoIterator<Item = Def<&'static str>>,
    funs: impl IntoIterator<Item = (&'static str, Box<[Bind]>, F)>,
    variables: &[&'p str],
) -> Result<compile::Filter<F>, Answer> {
    let arena = Arena::default();
    let file = File { code: program, path: () };
    let at = |part: &str, message: String| Answer::Syntax { message, column: column(program, part) };
    let modules = Loader::new(defs).load(&arena, file).map_err(|errors| {
        match errors.into_iter().next().map(|(_, error)| error) {
            Some(Error::Io(found)) => match found.into_iter().next() {
                Some((part, _)) => at(part, "modules cannot be loaded".to_owned()),
                None => at(program, "modules cannot be loaded".to_owned()),
            },
            Some(Error::Lex(found)) => match found.into_iter().next() {
                Some((wanted, part)) => at(part, format!("expected a {}", wanted.as_str())),
                None => at(program, "the program has a fault".to_owned()),
            },
            Some(Error::Parse(found)) => match found.into_iter().next() {
                Some((wanted, part)) => at(part, format!("expected {}", wanted.as_str())),
                None => at(program, "the program has a fault".to_owned()),
            },
            None => at(program, "the program has a fault".to_owned()),
        }
    })?;
    let compiler = compile::Compiler::default().with_funs(funs).with_global_vars(variables.iter().copied());
    compiler.compile(modules).map_err(|errors| match errors.into_iter().flat_map(|(_, found)| found).next() {
        Some((part, kind)) => at(part, undefined(part, &kind)),
        None => at(program, "the program has a fault".to_owned()),
    })
}

/// Returns the message about a name that is not there.
fn undefined(name: &str, kind: &Undefined) -> String {
    let arguments = match kind {
        Undefined::Filter(0) if is_known(name) => " without arguments".to_owned(),
        Undefined::Filter(1) => " with 1 argument".to_owned(),
        Undefined::Filter(count) if *count > 1 => format!(" with {count} arguments"),
        _ => String::new(),
    };
    format!("there is no {} {name}{arguments}", kind.as_str())
}

/// Returns the column of a part of the program, or of its end.
fn column(program: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).checked_sub(program.as_ptr() as usize);
    let before = offset.and_then(|offset| program.get(..offset)).unwrap_or(program);
    before.chars().count() + 1
}

/// Stands before the outputs in an answer.
const BEFORE: &str = "{\"outputs\":[";

/// Outputs as JSON that all readers accept.
struct Outputs {
    /// The answer up to the end of the last output.
    answer: String,
    /// Bytes that the outputs may have.
    most: usize,
}

impl Outputs {
    /// Refuses outputs that are too long together.
    fn check(&self) -> Result<(), Answer> {
        if self.answer.len() - BEFORE.len() > self.most {
            return Err(Answer::Budget(format!("the outputs are larger than {} bytes", self.most)));
        }
        Ok(())
    }

    fn value(&mut self, value: &Val, level: usize) -> Result<(), Answer> {
        self.check()?;
        if level > MOST_LEVELS {
            return Err(Answer::Budget(format!("an output is nested deeper than {MOST_LEVELS} levels")));
        }
        match value {
            Val::Null => self.answer.push_str("null"),
            Val::Bool(value) => self.answer.push_str(if *value { "true" } else { "false" }),
            Val::Num(number) => write_number(&mut self.answer, number),
            Val::TStr(text) | Val::BStr(text) => write_text(&mut self.answer, &String::from_utf8_lossy(text)),
            Val::Arr(items) => {
                self.answer.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.answer.push(',');
                    }
                    self.value(item, level + 1)?;
                }
                self.answer.push(']');
            }
            Val::Obj(members) => {
                self.answer.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        self.answer.push(',');
                    }
                    match name {
                        Val::TStr(text) | Val::BStr(text) => {
                            write_text(&mut self.answer, &String::from_utf8_lossy(text))
                        }
                        _ => return Err(Answer::Failed("an output has a key that is no text".to_owned())),
                    }
                    self.answer.push(':');
                    self.value(member, level + 1)?;
                }
                self.answer.push('}');
            }
        }
        Ok(())
    }
}

/// Writes a number. One that is not finite becomes null or the largest number, as in jq.
fn write_number(line: &mut String, number: &Num) {
    let text = number.to_string();
    let written = match text.parse::<f64>() {
        Ok(value) if value.is_finite() => line.write_str(&text),
        Ok(value) if value.is_nan() => line.write_str("null"),
        Ok(value) => write!(line, "{:e}", f64::MAX.copysign(value)),
        Err(_) => line.write_str("null"),
    };
    // Writing to a text cannot fail.
    let _ = written;
}

fn write_text(line: &mut String, text: &str) {
    line.push_str(&serde_json::Value::from(text).to_string());
}

/// Describes an error. Types stand for the values that jq puts into its messages.
fn describe(error: &jaq_core::Error<Val>) -> String {
    let text = error.to_string();
    // A message of the program itself keeps its numbers, and has no quotes around it.
    let is_own = Beginning::of(error).starts_with("Error(Val(");
    let own = if is_own { serde_json::from_str(&text).ok() } else { None };
    let text = match own {
        Some(serde_json::Value::String(text)) => without_values(&text, false),
        _ => without_values(&text, true),
    };
    text.chars().take(200).collect()
}

/// Takes the first bytes of a text and refuses the rest.
struct Beginning(String);

impl Beginning {
    fn of(value: &impl fmt::Debug) -> String {
        let mut beginning = Self(String::new());
        let _ = write!(beginning, "{value:?}");
        beginning.0
    }
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > 20 { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Replaces the JSON values in a message by the names of their types; numbers only on request.
fn without_values(message: &str, numbers: bool) -> String {
    let mut found = String::new();
    let mut rest = message;
    while let Some(next) = rest.chars().next() {
        let starts_word = found.ends_with([' ', '(']) || found.is_empty();
        let type_name = match next {
            '"' => Some("a text"),
            '[' => Some("a list"),
            '{' => Some("an object"),
            '-' | '0'..='9' if numbers && starts_word => Some("a number"),
            _ => None,
        };
        let Some(type_name) = type_name else {
            found.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or("");
            continue;
        };
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        let length = match values.next() {
            Some(Ok(_)) => values.byte_offset(),
            // A value that is cut or is no JSON ends the message.
            _ => rest.len(),
        };
        found.push_str(type_name);
        rest = rest.get(length..).unwrap_or("");
    }
    found
}
