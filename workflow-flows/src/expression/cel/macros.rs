use super::super::ExpressionError;
use super::node::{Fold, FoldKind, Form, Node};

/// Words before the dot of functions that have no target.
const NAMESPACES: [&str; 6] = ["_expr", "base64", "lists", "math", "optional", "strings"];

/// Returns the form of a call: that of a macro, of a function in a namespace, or a plain one.
pub(super) fn call(
    target: Option<Node>,
    name: String,
    arguments: Vec<Node>,
    column: usize,
) -> Result<Form, ExpressionError> {
    let Some(target) = target else { return global(name, arguments, column) };
    if let Form::Name(namespace) = &target.form {
        // An item may be called `url`, and have its own functions.
        let is_encode = namespace == "url" && name == "encode";
        if is_encode || NAMESPACES.contains(&namespace.as_str()) {
            return Ok(Form::Call { name: format!("{namespace}.{name}"), target: None, arguments });
        }
        if namespace == "cel" && name == "bind" {
            return bind(arguments, column);
        }
    }
    let kind = match (name.as_str(), arguments.len()) {
        ("all", 2 | 3) => FoldKind::All,
        ("exists", 2 | 3) => FoldKind::Exists,
        ("exists_one" | "existsOne", 2 | 3) => FoldKind::ExistsOne,
        ("map", 2 | 3) | ("transformList", 3 | 4) => FoldKind::List,
        ("filter", 2) => FoldKind::Filter,
        ("transformMap", 3 | 4) => FoldKind::Map,
        ("transformMapEntry", 3 | 4) => FoldKind::MapEntry,
        ("sortBy", 2) => FoldKind::SortBy,
        ("optMap" | "optFlatMap", 2) => return optional_map(target, &name, arguments, column),
        _ => return Ok(Form::Call { name, target: Some(Box::new(target)), arguments }),
    };
    let has_second = match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => arguments.len() == 3,
        FoldKind::List => name == "transformList",
        FoldKind::Map | FoldKind::MapEntry => true,
        FoldKind::Filter | FoldKind::SortBy => false,
    };
    let mut rest = arguments.into_iter();
    let first = variable(rest.next(), &name, column)?;
    let second = if has_second { Some(variable(rest.next(), &name, column)?) } else { None };
    if second.as_ref() == Some(&first) {
        return Err(syntax(format!("`{name}` needs two different names"), column));
    }
    let body = rest.next_back().ok_or_else(|| syntax(format!("`{name}` needs an expression"), column))?;
    Ok(Form::Fold(Box::new(Fold { kind, over: target, first, second, filter: rest.next(), body })))
}

fn global(name: String, mut arguments: Vec<Node>, column: usize) -> Result<Form, ExpressionError> {
    if name != "has" || arguments.len() != 1 {
        return Ok(Form::Call { name, target: None, arguments });
    }
    match arguments.pop().map(|argument| argument.form) {
        Some(Form::Select { of, field, optional: false }) => Ok(Form::Has { of, field }),
        _ => Err(syntax("`has` takes a path with a dot: has(input.name)".to_owned(), column)),
    }
}

fn bind(arguments: Vec<Node>, column: usize) -> Result<Form, ExpressionError> {
    let mut rest = arguments.into_iter();
    let name = variable(rest.next(), "cel.bind", column)?;
    match (rest.next(), rest.next(), rest.next()) {
        (Some(value), Some(body), None) => Ok(Form::Bind { name, value: Box::new(value), body: Box::new(body) }),
        _ => Err(syntax("`cel.bind` takes a name, its value, and an expression".to_owned(), column)),
    }
}

fn optional_map(of: Node, function: &str, arguments: Vec<Node>, column: usize) -> Result<Form, ExpressionError> {
    let mut rest = arguments.into_iter();
    let name = variable(rest.next(), function, column)?;
    let body = rest.next().ok_or_else(|| syntax(format!("`{function}` needs an expression"), column))?;
    Ok(Form::OptionalMap { of: Box::new(of), name, body: Box::new(body), flat: function == "optFlatMap" })
}

fn variable(argument: Option<Node>, function: &str, column: usize) -> Result<String, ExpressionError> {
    match argument.map(|argument| argument.form) {
        Some(Form::Name(name)) => Ok(name),
        _ => Err(syntax(format!("`{function}` needs a name for the item first: list.{function}(item, ..)"), column)),
    }
}

fn syntax(message: String, column: usize) -> ExpressionError {
    ExpressionError::Syntax { message, column }
}
