//! The order file of the quickstart: a JSON array of orders. Errors name the line.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An order of a customer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The order's id, unique in its file.
    pub id: String,
    /// The name of the customer.
    pub customer: String,
    /// The items, at least one.
    pub items: Vec<Item>,
}

/// One article of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The article's code.
    pub sku: String,
    /// The number of pieces, from 1 to [`MAX_QUANTITY`].
    pub quantity: u32,
    /// The price of one piece, in cents.
    pub cents: u32,
}

/// The largest quantity of an item. A larger one is refused as a typing error.
pub const MAX_QUANTITY: u32 = 10_000;

/// The totals of some orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of orders.
    pub orders: u64,
    /// The number of pieces.
    pub pieces: u64,
    /// The price, in cents.
    pub cents: u64,
}

impl Order {
    /// Returns the totals of this order.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let pieces = self.items.iter().map(|item| u64::from(item.quantity)).sum();
        let cents = self.items.iter().map(|item| u64::from(item.quantity) * u64::from(item.cents)).sum();
        Totals { orders: 1, pieces, cents }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.orders += other.orders;
        self.pieces += other.pieces;
        self.cents += other.cents;
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { orders, pieces, cents } = self;
        write!(f, "{orders} orders, {pieces} pieces, {}.{:02} EUR", cents / 100, cents % 100)
    }
}

/// The reason why an order file was refused. No run is started from a refused file.
#[derive(Debug, thiserror::Error)]
pub enum OrderFileError {
    /// The file does not exist, may not be read, or is not text.
    #[error("{path}: cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("{path}:{line}: not JSON: {reason} (column {column})")]
    NotJson {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's message.
        reason: String,
    },
    /// The file is JSON, but not an array of orders: a field is missing, unknown, or has the wrong
    /// type.
    #[error("{path}:{line}: {reason} (column {column})")]
    WrongShape {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's message.
        reason: String,
    },
    /// The array is empty.
    #[error("{path}:1: the file has no orders; it must have at least one")]
    NoOrders {
        /// The file.
        path: String,
    },
    /// An order without items.
    #[error("{path}:{line}: order {order:?} has no items; it must have at least one")]
    NoItems {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The order's id.
        order: String,
    },
    /// The id cannot be used as the key of a run.
    #[error("{path}:{line}: invalid order id {order:?}; use 1 to 255 bytes without control characters")]
    BadId {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The order's id.
        order: String,
    },
    /// Two orders have the same id.
    #[error("{path}:{line}: order id {order:?} is already used in line {first_line}")]
    DuplicateId {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The order's id.
        order: String,
        /// The line of the first order with this id, from 1.
        first_line: usize,
    },
    /// The quantity of an item is out of range.
    #[error("{path}:{line}: order {order:?}: invalid quantity {quantity} of {sku:?}; use 1 to {MAX_QUANTITY}")]
    BadQuantity {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The order's id.
        order: String,
        /// The article's code.
        sku: String,
        /// The quantity as it stands in the file.
        quantity: String,
    },
}

/// Reads an order file.
///
/// # Errors
/// [`OrderFileError`], which names the file, the line and the reason.
pub fn read(path: &Path) -> Result<Vec<Order>, OrderFileError> {
    let name = shown(path);
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&name, &text),
        Err(source) => Err(OrderFileError::Unreadable { path: name, source }),
    }
}

/// Formats the path relative to the current directory if it lies below that.
#[must_use]
pub fn shown(path: &Path) -> String {
    let relative = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok());
    relative.unwrap_or(path).display().to_string()
}

/// An order as the file has it. Fields that are checked after parsing keep their raw text, because
/// its address tells their line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    customer: String,
    #[serde(borrow)]
    items: Vec<EntryItem<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryItem<'a> {
    sku: String,
    #[serde(borrow)]
    quantity: &'a RawValue,
    cents: u32,
}

/// The name and the text of a file, for errors that name the line.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
}

fn parse(path: &str, text: &str) -> Result<Vec<Order>, OrderFileError> {
    let source = Source { path, text };
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| source.refused(&error, 1))?;
    if entries.is_empty() {
        return Err(OrderFileError::NoOrders { path: path.into() });
    }
    let mut lines = HashMap::new();
    entries
        .into_iter()
        .map(|entry| {
            let line = source.line_of(entry.id);
            let order = source.order(entry)?;
            match lines.insert(order.id.clone(), line) {
                None => Ok(order),
                Some(first_line) => {
                    Err(OrderFileError::DuplicateId { path: path.into(), line, order: order.id, first_line })
                }
            }
        })
        .collect()
}

impl Source<'_> {
    fn order(&self, entry: Entry) -> Result<Order, OrderFileError> {
        let id: String = self.value(entry.id)?;
        let (path, line) = (self.path.to_owned(), self.line_of(entry.id));
        if id.is_empty() || id.len() > 255 || id.contains(char::is_control) {
            return Err(OrderFileError::BadId { path, line, order: id });
        }
        if entry.items.is_empty() {
            return Err(OrderFileError::NoItems { path, line, order: id });
        }
        let items = entry.items.into_iter().map(|item| self.item(&id, item)).collect::<Result<_, _>>()?;
        Ok(Order { id, customer: entry.customer, items })
    }

    fn item(&self, order: &str, item: EntryItem) -> Result<Item, OrderFileError> {
        let quantity: i64 = self.value(item.quantity)?;
        match u32::try_from(quantity) {
            Ok(quantity @ 1..=MAX_QUANTITY) => Ok(Item { sku: item.sku, quantity, cents: item.cents }),
            _ => Err(OrderFileError::BadQuantity {
                path: self.path.into(),
                line: self.line_of(item.quantity),
                order: order.into(),
                sku: item.sku,
                quantity: item.quantity.to_string(),
            }),
        }
    }

    fn value<'a, T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, OrderFileError> {
        serde_json::from_str(raw.get()).map_err(|error| self.refused(&error, self.line_of(raw)))
    }

    /// Converts an error of the parser in a text that begins in line `first_line` of the file.
    fn refused(&self, error: &serde_json::Error, first_line: usize) -> OrderFileError {
        let (path, column) = (self.path.to_owned(), error.column());
        let text = error.to_string();
        let reason =
            text.strip_suffix(&format!(" at line {} column {column}", error.line())).unwrap_or(&text).to_owned();
        let line = first_line + error.line().saturating_sub(1);
        if error.is_data() {
            OrderFileError::WrongShape { path, line, column, reason }
        } else {
            OrderFileError::NotJson { path, line, column, reason }
        }
    }

    /// Returns the line in which this part of the text begins.
    fn line_of(&self, part: &RawValue) -> usize {
        let offset = part.get().as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }
}

#[cfg(test)]
mod tests {
    use super::{OrderFileError, Totals, parse, read};

    fn refusal(text: &str) -> String {
        parse("orders.json", text).map_or_else(|error| error.to_string(), |orders| format!("accepted: {orders:?}"))
    }

    #[test]
    fn an_order_has_its_totals() -> Result<(), OrderFileError> {
        let text = r#"[{"id": "a", "customer": "Ann", "items": [
            {"sku": "tea", "quantity": 2, "cents": 450}, {"sku": "pot", "quantity": 1, "cents": 5999}]}]"#;
        let orders = parse("orders.json", text)?;
        let totals: Totals = orders.iter().map(super::Order::totals).sum();
        assert_eq!(totals, Totals { orders: 1, pieces: 3, cents: 6899 });
        assert_eq!(totals.to_string(), "1 orders, 3 pieces, 68.99 EUR");
        Ok(())
    }

    #[test]
    fn a_refusal_names_file_line_and_reason() {
        let order = |id: &str, quantity: &str| {
            format!(
                "{{\"id\": {id}, \"customer\": \"Ann\", \"items\": [\n {{\"sku\": \"tea\",\n  \"quantity\": {quantity}, \"cents\": 450}}]}}"
            )
        };
        let file = |orders: &[String]| format!("[\n{}\n]\n", orders.join(",\n"));
        for (text, expected) in [
            ("".into(), "orders.json:1: not JSON: EOF while parsing a value"),
            ("[\n{\"id\" \"a\"}]".into(), "orders.json:2: not JSON: expected `:`"),
            ("{}".into(), "orders.json:1: invalid type: map, expected a sequence"),
            ("[]".into(), "orders.json:1: the file has no orders"),
            ("[\n{\"id\": \"a\", \"price\": 1}]".into(), "orders.json:2: unknown field `price`, expected one of"),
            ("[\n{\"id\": \"a\"}]".into(), "orders.json:2: missing field `customer`"),
            (
                "[{\"id\": \"a\", \"customer\": \"Ann\",\n \"items\": []}]".into(),
                "orders.json:1: order \"a\" has no items",
            ),
            (file(&[order("7", "1")]), "orders.json:2: invalid type: integer `7`, expected a string"),
            (file(&[order("\"\"", "1")]), "orders.json:2: invalid order id \"\""),
            (file(&[order("\"a\"", "\"two\"")]), "orders.json:4: invalid type: string \"two\", expected i64"),
            (file(&[order("\"a\"", "0")]), "orders.json:4: order \"a\": invalid quantity 0 of \"tea\"; use 1 to 10000"),
            (
                file(&[order("\"a\"", "1"), order("\"b\"", "-3")]),
                "orders.json:7: order \"b\": invalid quantity -3 of \"tea\"",
            ),
            (
                file(&[order("\"a\"", "1"), order("\"b\"", "1"), order("\"a\"", "1")]),
                "orders.json:8: order id \"a\" is already used in line 2",
            ),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.starts_with(expected), "{text}\n  gave     {refusal}\n  expected {expected}");
        }
    }

    #[test]
    fn a_missing_file_is_unreadable() {
        let missing = std::path::Path::new("/nowhere/orders.json");
        assert!(
            matches!(read(missing), Err(OrderFileError::Unreadable { path, .. }) if path == "/nowhere/orders.json")
        );
    }
}
