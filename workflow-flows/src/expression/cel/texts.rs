use regex_lite::RegexBuilder;

use super::format;
use super::functions::Refusal;
use super::meter::Meter;
use super::value::CelValue;

type Found<'a> = Result<Option<CelValue<'a>>, Refusal>;

const OUT_OF_RANGE: Refusal = Refusal::Unfit(": the index is out of range");

/// Calls a function of texts. `None`: the name is no such function, or it has none of these types.
pub(super) fn call<'a>(meter: &mut Meter, name: &str, values: &[CelValue<'a>]) -> Found<'a> {
    let Some(CelValue::Text(text)) = values.first() else { return Ok(None) };
    let text = text.as_str();
    let rest = values.get(1..).unwrap_or(&[]);
    meter.charge(4)?;
    meter.charge_bytes(values.iter().map(CelValue::bytes).fold(0, usize::saturating_add))?;
    Ok(Some(match (name, rest) {
        ("contains", [CelValue::Text(part)]) => CelValue::Bool(text.contains(part.as_str())),
        ("startsWith", [CelValue::Text(part)]) => CelValue::Bool(text.starts_with(part.as_str())),
        ("endsWith", [CelValue::Text(part)]) => CelValue::Bool(text.ends_with(part.as_str())),
        ("matches", [CelValue::Text(pattern)]) => CelValue::Bool(matches(meter, text, pattern.as_str())?),
        ("charAt", [CelValue::Int(at)]) => {
            let count = text.chars().count();
            let at = usize::try_from(*at).ok().filter(|at| *at <= count).ok_or(OUT_OF_RANGE)?;
            CelValue::text(&text.chars().nth(at).map(String::from).unwrap_or_default())
        }
        ("indexOf", [CelValue::Text(part)]) => CelValue::Int(find(text, part.as_str(), 0)),
        ("indexOf", [CelValue::Text(part), CelValue::Int(from)]) => {
            let from = offset(text, part.as_str(), *from)?;
            CelValue::Int(find(text, part.as_str(), from))
        }
        ("lastIndexOf", [CelValue::Text(part)]) => CelValue::Int(find_last(text, part.as_str(), usize::MAX)),
        ("lastIndexOf", [CelValue::Text(part), CelValue::Int(from)]) => {
            let from = offset(text, part.as_str(), *from)?;
            CelValue::Int(find_last(text, part.as_str(), from))
        }
        ("lowerAscii", []) => made(meter, text.len(), || text.to_ascii_lowercase())?,
        ("upperAscii", []) => made(meter, text.len(), || text.to_ascii_uppercase())?,
        // Expr maps one character to one, and counts the bytes of a place.
        ("_expr.lower", []) => made(meter, text.len().saturating_mul(2), || text.chars().map(lower).collect())?,
        ("_expr.upper", []) => made(meter, text.len().saturating_mul(2), || text.chars().map(upper).collect())?,
        ("_expr.indexOf", [CelValue::Text(part)]) => CelValue::Int(place(text.find(part.as_str()))),
        ("_expr.lastIndexOf", [CelValue::Text(part)]) => CelValue::Int(place(text.rfind(part.as_str()))),
        ("trim", []) => made(meter, text.len(), || text.trim().to_owned())?,
        ("reverse", []) => made(meter, text.len(), || text.chars().rev().collect())?,
        ("strings.quote", []) => made(meter, text.len().saturating_mul(2), || format::quote(text))?,
        ("format", [CelValue::List(arguments)]) => {
            let arguments = arguments.items(meter)?;
            CelValue::text(&format::format(meter, text, &arguments)?)
        }
        ("replace", [CelValue::Text(from), CelValue::Text(to)]) => {
            replace(meter, text, from.as_str(), to.as_str(), usize::MAX)?
        }
        ("replace", [CelValue::Text(from), CelValue::Text(to), CelValue::Int(most)]) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            replace(meter, text, from.as_str(), to.as_str(), most)?
        }
        ("substring", [CelValue::Int(start)]) => substring(meter, text, *start, None)?,
        ("substring", [CelValue::Int(start), CelValue::Int(end)]) => substring(meter, text, *start, Some(*end))?,
        ("split", [CelValue::Text(by)]) => split(meter, text, by.as_str(), usize::MAX)?,
        ("split", [CelValue::Text(by), CelValue::Int(most)]) => {
            split(meter, text, by.as_str(), usize::try_from(*most).unwrap_or(usize::MAX))?
        }
        _ => return Ok(None),
    }))
}

/// Makes a text of at most some bytes.
fn made<'a>(meter: &mut Meter, bytes: usize, make: impl FnOnce() -> String) -> Result<CelValue<'a>, Refusal> {
    meter.allocate(bytes)?;
    Ok(CelValue::text(&make()))
}

fn lower(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

/// Returns the upper case of a character. One that would become several stays.
fn upper(character: char) -> char {
    let mut all = character.to_uppercase();
    all.next().filter(|_| all.next().is_none()).unwrap_or(character)
}

/// Returns the place of a part, or -1.
fn place(byte: Option<usize>) -> i64 {
    byte.map_or(-1, |byte| byte as i64)
}

/// Returns the character at which a part begins, at or after one, or -1.
fn find(text: &str, part: &str, from: usize) -> i64 {
    let Some(start) = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(from) else { return -1 };
    let found = text.get(start..).and_then(|rest| rest.find(part));
    found.map_or(-1, |byte| text.get(..start + byte).unwrap_or("").chars().count() as i64)
}

/// Returns the last character at which a part begins, at or before one, or -1.
fn find_last(text: &str, part: &str, from: usize) -> i64 {
    let start = text.char_indices().map(|(byte, _)| byte).nth(from).unwrap_or(text.len());
    let end = start.saturating_add(part.len()).min(text.len());
    // An end within a character is an end of no match.
    let end = (0..=end).rev().find(|byte| text.is_char_boundary(*byte)).unwrap_or(0);
    let found = text.get(..end).and_then(|searched| searched.rfind(part));
    found.map_or(-1, |byte| text.get(..byte).unwrap_or("").chars().count() as i64)
}

/// Checks where a search may begin.
fn offset(text: &str, part: &str, from: i64) -> Result<usize, Refusal> {
    let count = text.chars().count();
    let from = usize::try_from(from).map_err(|_| OUT_OF_RANGE)?;
    if part.is_empty() {
        return Ok(from.min(count));
    }
    if from < count { Ok(from) } else { Err(OUT_OF_RANGE) }
}

fn substring<'a>(meter: &mut Meter, text: &str, start: i64, end: Option<i64>) -> Result<CelValue<'a>, Refusal> {
    let count = text.chars().count();
    let index = |at: i64| usize::try_from(at).ok().filter(|at| *at <= count).ok_or(OUT_OF_RANGE);
    let start = index(start)?;
    let end = end.map_or(Ok(count), index)?;
    let length = end.checked_sub(start).ok_or(Refusal::Unfit(": the end lies before the start"))?;
    made(meter, text.len(), || text.chars().skip(start).take(length).collect())
}

fn replace<'a>(meter: &mut Meter, text: &str, from: &str, to: &str, most: usize) -> Result<CelValue<'a>, Refusal> {
    let places = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() }.min(most);
    made(meter, text.len().saturating_add(places.saturating_mul(to.len())), || text.replacen(from, to, most))
}

fn split<'a>(meter: &mut Meter, text: &str, by: &str, most: usize) -> Result<CelValue<'a>, Refusal> {
    if most == 0 {
        return Ok(CelValue::list(Vec::new()));
    }
    let parts = if by.is_empty() { text.chars().count() } else { text.matches(by).count() + 1 }.min(most);
    meter.charge_items(parts.saturating_mul(2))?;
    meter.allocate(text.len())?;
    let found = if by.is_empty() {
        let mut found: Vec<CelValue<'a>> = Vec::with_capacity(parts);
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let bytes = if found.len() + 1 == most { rest.len() } else { next.len_utf8() };
            let (part, left) = rest.split_at(bytes);
            found.push(CelValue::text(part));
            rest = left;
        }
        found
    } else {
        text.splitn(most, by).map(CelValue::text).collect()
    };
    Ok(CelValue::list(found))
}

/// Bytes of a pattern.
const MOST_PATTERN_BYTES: usize = 512;
/// Bytes that a compiled pattern may have. The least that suffices says how long a search takes.
const PROGRAM_BYTES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 32 << 10];

fn matches(meter: &mut Meter, text: &str, pattern: &str) -> Result<bool, Refusal> {
    if pattern.len() > MOST_PATTERN_BYTES {
        return Err(Refusal::Unfit(": the pattern is longer than 512 bytes"));
    }
    for bytes in PROGRAM_BYTES {
        meter.charge(bytes as u64 / 16)?;
        if let Ok(regex) = RegexBuilder::new(pattern).size_limit(bytes).nest_limit(32).build() {
            // Each byte of the text may meet each of the program's instructions.
            meter.charge((text.len() as u64).saturating_mul(bytes as u64 / 256))?;
            return Ok(regex.is_match(text));
        }
    }
    Err(Refusal::Unfit(": the pattern is invalid or too large"))
}
