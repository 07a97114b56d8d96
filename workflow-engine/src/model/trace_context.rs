use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A place in a distributed trace: the trace, and the span that is the parent of the next spans.
///
/// Its text is the header `traceparent` of the W3C recommendation "Trace Context": reading and
/// writing it is all that a program needs to pass a trace on. The header `tracestate` is not kept.
///
/// ```
/// use workflow_engine::model::TraceContext;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = text.parse()?;
/// assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(context.span_id(), "00f067aa0ba902b7");
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// # Ok::<(), workflow_engine::model::InvalidTraceContext>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

/// The bytes of a context of version 00.
const BYTES: usize = 55;

/// The flag of a trace whose spans are kept.
const SAMPLED: u8 = 0b01;

/// The flags that a program passes on: [`SAMPLED`], and the one of a trace whose id is random.
const KNOWN_FLAGS: u8 = 0b11;

impl TraceContext {
    /// Returns the context of these ids. `None` if one is 0, because 0 is no id.
    ///
    /// ```
    /// use workflow_engine::model::TraceContext;
    ///
    /// assert!(TraceContext::new([0; 16], [1; 8], true).is_none());
    /// let context = TraceContext::new([1; 16], [2; 8], false).unwrap();
    /// assert!(!context.is_sampled());
    /// ```
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        let (trace, span) = (u128::from_be_bytes(trace_id), u64::from_be_bytes(span_id));
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: if is_sampled { SAMPLED } else { 0 } })
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Returns the id of the span: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// Returns the bytes of the id of the trace.
    #[must_use]
    pub const fn trace_bytes(&self) -> [u8; 16] {
        self.trace.to_be_bytes()
    }

    /// Returns the bytes of the id of the span.
    #[must_use]
    pub const fn span_bytes(&self) -> [u8; 8] {
        self.span.to_be_bytes()
    }

    /// Returns whether the caller keeps the spans of the trace.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the context of another span of the same trace.
    #[doc(hidden)]
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        Self { span: span.max(1), ..self }
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    /// Reads the value of the header `traceparent`. From a text of a later version it reads the
    /// parts that the recommendation promises for every version.
    ///
    /// # Errors
    /// [`InvalidTraceContext`] if the text is not such a value.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |why| InvalidTraceContext { why };
        let head = text.get(..BYTES).ok_or(invalid("it has fewer than 55 characters"))?;
        let mut parts = head.split('-');
        let mut digits = |count: usize, why: &'static str| {
            let part = parts.next().filter(|part| part.len() == count && part.bytes().all(is_digit));
            part.and_then(|part| u128::from_str_radix(part, 16).ok()).ok_or(invalid(why))
        };
        let version = digits(2, "it does not begin with a version of 2 hexadecimal digits")?;
        let trace = digits(32, "the id of the trace is not 32 hexadecimal digits in lower case")?;
        let span = digits(16, "the id of the span is not 16 hexadecimal digits in lower case")?;
        let flags = digits(2, "the flags are not 2 hexadecimal digits in lower case")?;
        let rest = &text[BYTES..];
        match version {
            0xff => return Err(invalid("ff is no version")),
            0 if !rest.is_empty() => return Err(invalid("it has more than 55 characters")),
            _ if !rest.is_empty() && !rest.starts_with('-') => return Err(invalid("its flags are too long")),
            _ => {}
        }
        let span = u64::try_from(span).unwrap_or_default();
        if trace == 0 || span == 0 {
            return Err(invalid("an id is 0"));
        }
        Ok(Self { trace, span, flags: u8::try_from(flags).unwrap_or_default() & KNOWN_FLAGS })
    }
}

/// Returns whether the byte is a hexadecimal digit. The header allows none in upper case.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Writes the value of the header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for TraceContext {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let text = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::schema::Type::String);
        let text = text.description(Some("A place in a distributed trace, as the header `traceparent` has it."));
        text.pattern(Some("^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")).build().into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for TraceContext {}

/// A text that is not the value of a header `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace context is not understood: {why}; write it as the header traceparent of W3C Trace Context has it")]
pub struct InvalidTraceContext {
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_promised() {
        for text in [GOOD.replacen("00", "01", 1), GOOD.replacen("00", "cc", 1) + "-what-the-future-will-be-like"] {
            assert_eq!(text.parse::<TraceContext>().unwrap().to_string(), GOOD, "{text}");
        }
        let flags = GOOD.replace("-01", "-ff").parse::<TraceContext>().unwrap();
        assert_eq!(flags.to_string(), GOOD.replace("-01", "-03"));
        assert!(!GOOD.replace("-01", "-02").parse::<TraceContext>().unwrap().is_sampled());
    }

    #[test]
    fn a_text_that_is_none_is_refused() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for (text, says) in [
            ("", "fewer than 55"),
            (&GOOD[1..], "fewer than 55"),
            (&format!("{GOOD}-"), "more than 55"),
            (&format!("{GOOD}0").replacen("00", "01", 1), "too long"),
            (&GOOD.replacen("00", "ff", 1), "ff is no version"),
            (&GOOD.replacen("00", "0G", 1), "version"),
            (&GOOD.replace("4bf", "4BF"), "the id of the trace"),
            (&GOOD.replace("b7-", "b-7"), "the id of the span"),
            (&GOOD.replace("-01", "-0x"), "the flags"),
            (&GOOD.replace("-01", "-+1"), "the flags"),
            (&zero_trace, "an id is 0"),
            (&zero_span, "an id is 0"),
            (&format!("{}é", &GOOD[..54]), "fewer than 55"),
        ] {
            let error = text.parse::<TraceContext>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_span_of_the_trace_keeps_the_trace_and_its_flags() {
        let context: TraceContext = GOOD.parse().unwrap();
        let other = context.with_span(0x1234);
        assert_eq!(other.to_string(), GOOD.replace("00f067aa0ba902b7", "0000000000001234"));
        assert_eq!(context.with_span(0).span_id(), "0000000000000001");
        assert_eq!(TraceContext::new(context.trace_bytes(), context.span_bytes(), true), Some(context));
    }
}
