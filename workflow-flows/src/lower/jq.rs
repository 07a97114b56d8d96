//! The faults of a jq program that can be seen without its compiler.

/// Returns the byte and the message of a fault of a jq program's quotes and brackets.
pub(crate) fn fault(text: &str) -> Option<(usize, String)> {
    // The brackets and quotes that are not closed yet.
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        let in_text = open.last().is_some_and(|(open, _)| *open == '"');
        match c {
            '\\' if in_text => {
                if let Some((at, '(')) = characters.next() {
                    open.push(('(', at));
                }
            }
            '"' if in_text => drop(open.pop()),
            '"' => open.push((c, at)),
            _ if in_text => {}
            '#' => drop(characters.find(|(_, c)| *c == '\n')),
            '(' | '[' | '{' => open.push((c, at)),
            ')' | ']' | '}' => match open.pop() {
                Some((opened, _)) if matches!((opened, c), ('(', ')') | ('[', ']') | ('{', '}')) => {}
                Some((opened, _)) => return Some((at, format!("{c} does not close {opened}"))),
                None => return Some((at, format!("{c} closes nothing"))),
            },
            _ => {}
        }
    }
    if let Some((opened, at)) = open.pop() {
        return Some((at, format!("{opened} is not closed")));
    }
    let trimmed = text.trim_end();
    match trimmed.chars().last() {
        None => Some((0, "the program is empty".to_owned())),
        Some(last @ ('|' | ',' | '=' | '+' | '*' | '%' | '<' | '>')) => {
            Some((trimmed.len(), format!("expected a value after \"{last}\"")))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn jq_programs_are_checked_for_brackets() {
        for text in ["[.a[] | select(.b) | {id}]", "\"x\\(.a | tostring)y\"", ".a # (", "\"(\\\"\""] {
            assert_eq!(fault(text), None, "{text}");
        }
        assert_eq!(fault("[.a").map(|(at, _)| at), Some(0));
        assert_eq!(fault(".a)").map(|(at, _)| at), Some(2));
        assert_eq!(fault(".a |").map(|(at, _)| at), Some(4));
        assert_eq!(fault("\"a").map(|(at, _)| at), Some(0));
    }
}
