use super::super::Reference;
use super::value::CelValue;

/// A part of a program.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) form: Form,
    /// The column of its operator or first character, from 1.
    pub(super) column: usize,
    /// Nodes on the longest way down, this one included.
    pub(super) depth: usize,
}

#[derive(Debug)]
pub(super) enum Form {
    Literal(CelValue<'static>),
    Name(String),
    Select {
        of: Box<Node>,
        field: String,
        optional: bool,
    },
    Has {
        of: Box<Node>,
        field: String,
    },
    Index {
        of: Box<Node>,
        at: Box<Node>,
        optional: bool,
    },
    Call {
        name: String,
        target: Option<Box<Node>>,
        arguments: Vec<Node>,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    /// All, or one, of these must be true.
    Logic {
        all: bool,
        parts: Vec<Node>,
    },
    If(Box<Node>, Box<Node>, Box<Node>),
    /// Items; those marked are left out if they have no value.
    List(Vec<(bool, Node)>),
    Map(Vec<(bool, Node, Node)>),
    Fold(Box<Fold>),
    /// Names a value.
    Bind {
        name: String,
        value: Box<Node>,
        body: Box<Node>,
    },
    /// `optMap` and `optFlatMap`.
    OptionalMap {
        of: Box<Node>,
        name: String,
        body: Box<Node>,
        flat: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl Binary {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
        }
    }
}

/// A macro that visits the items of a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) over: Node,
    /// The name of the item; with `second`, that of the index or key.
    pub(super) first: String,
    pub(super) second: Option<String>,
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, `transformList`.
    List,
    Filter,
    /// `transformMap`.
    Map,
    /// `transformMapEntry`.
    MapEntry,
    SortBy,
}

/// A parsed CEL source.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) root: Node,
    pub(crate) references: Vec<Reference>,
}
