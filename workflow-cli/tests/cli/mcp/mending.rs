//! A document with one fault, and an agent that mends it by the answers of the tools alone.

use serde_json::{Value, json};

use super::client::Agent;

const DOCUMENT: &str = r#"{
  "flow": 1,
  "name": "NAME",
  "description": "Charges an order and ships it",
  "input": { "type": "object", "required": ["order"],
    "properties": { "order": { "type": "string" }, "total": { "type": "number" } } },
  "timeout": "1h",
  "defaults": { "retry": { "attempts": 2, "delay": "1s" } },
  "do": [
    { "id": "charge", "tool": "charge", "args": { "order": "{{input.order}}" },
      "retry": { "attempts": 3, "backoff": "exponential", "delay": "1s" }, "timeout": "30s" },
    { "id": "total", "set": { "total": "{{input.total}}" }, "when": "input.total > 0" },
    { "id": "gate", "approval": { "to": "ops", "title": "Ship {{input.order}}?" } },
    { "id": "ask", "decision": { "prompt": "How?", "options": { "post": "By post", "van": "By van" } } },
    { "id": "kept", "set": { "receipt": "{{steps.charge.receipt}}", "by": "{{steps.ask.choice}}" } }
  ],
  "output": { "receipt": "{{vars.receipt}}", "by": "{{vars.by}}", "approved": "{{steps.gate.approved}}" }
}
"#;

/// Faults that people and models make: a text of the document, and what stands there instead.
const FAULTS: [(&str, &str); 30] = [
    ("\"description\"", "\"descripton\""),
    ("\"timeout\": \"1h\"", "\"timout\": \"1h\""),
    ("\"timeout\": \"30s\"", "\"time_out\": \"30s\""),
    ("\"retry\": { \"attempts\": 3", "\"retries\": { \"attempts\": 3"),
    ("\"attempts\": 3", "\"attemps\": 3"),
    ("\"attempts\": 3", "\"attempts\": 0"),
    ("\"backoff\": \"exponential\"", "\"backoff\": \"exponental\""),
    ("\"backoff\"", "\"back_off\""),
    ("\"delay\": \"1s\" }, \"timeout\"", "\"dealy\": \"1s\" }, \"timeout\""),
    ("\"defaults\"", "\"default\""),
    ("\"when\"", "\"wen\""),
    ("\"tool\": \"charge\"", "\"tol\": \"charge\""),
    ("\"args\"", "\"arg\""),
    ("\"args\"", "\"agrs\""),
    ("\"approval\"", "\"aproval\""),
    ("\"title\"", "\"titel\""),
    ("\"decision\"", "\"decison\""),
    ("\"options\"", "\"option\""),
    ("\"prompt\"", "\"promt\""),
    ("\"output\"", "\"outputs\""),
    ("\"set\"", "\"sets\""),
    ("{{input.order}}\" }", "{{input.oder}}\" }"),
    ("{{input.order}}\" }", "{{inptu.order}}\" }"),
    ("{{steps.charge.receipt}}", "{{steps.chrage.receipt}}"),
    ("{{steps.charge.receipt}}", "{{stpes.charge.receipt}}"),
    ("{{steps.ask.choice}}", "{{steps.asks.choice}}"),
    ("{{vars.receipt}}", "{{vars.reciept}}"),
    ("input.total > 0", "input.totl > 0"),
    ("input.total > 0", "input.total > 0 and true"),
    ("\"flow\": 1", "\"flow\": \"1\""),
];

/// Returns each document with its fault, under a name of its own.
pub(crate) fn broken_documents(prefix: &str) -> Vec<(String, String)> {
    let broken = FAULTS.iter().enumerate().map(|(number, (right, wrong))| {
        let name = format!("{prefix}-{number}");
        assert!(DOCUMENT.contains(right), "{right}");
        (name.clone(), DOCUMENT.replacen(right, wrong, 1).replace("NAME", &name))
    });
    broken.collect()
}

/// Applies the fix of each finding until the flow is valid. Returns the document.
pub(crate) async fn mend(agent: &Agent, document: &str) -> Result<String, String> {
    let mut document = document.to_owned();
    for _ in 0..8 {
        let checked = agent.call("flow_check", json!({ "document": document })).await.unwrap();
        if checked["valid"] == json!(true) {
            return Ok(document);
        }
        let finding = &checked["findings"][0];
        let edits = finding["fix"]["edits"].as_array().ok_or_else(|| format!("no fix: {finding}"))?;
        for edit in edits {
            document = apply(&document, edit).ok_or_else(|| format!("{edit} does not fit"))?;
        }
    }
    Err(format!("still not valid:\n{document}"))
}

/// Applies one edit, as the server describes edits.
fn apply(document: &str, edit: &Value) -> Option<String> {
    if edit["op"] == "text" {
        let place = |name: &str| usize::try_from(edit[name].as_u64()?).ok();
        let mut text = document.to_owned();
        text.replace_range(place("start")?..place("end")?, edit["text"].as_str()?);
        return Some(text);
    }
    let mut root: Value = serde_json::from_str(document).ok()?;
    let path = edit["path"].as_str()?;
    let value = match edit["op"].as_str()? {
        "remove" => return take(&mut root, path).map(|_| root.to_string()),
        "move" => take(&mut root, edit["from"].as_str()?)?,
        _ => edit["value"].clone(),
    };
    let (parent, key) = path.rsplit_once('/')?;
    match root.pointer_mut(parent)? {
        Value::Object(map) => drop(map.insert(key.replace("~1", "/").replace("~0", "~"), value)),
        Value::Array(items) if edit["op"] == "replace" => *items.get_mut(key.parse::<usize>().ok()?)? = value,
        Value::Array(items) => items.insert(key.parse().ok()?, value),
        _ => return None,
    }
    Some(root.to_string())
}

fn take(root: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = path.rsplit_once('/')?;
    match root.pointer_mut(parent)? {
        Value::Object(map) => map.remove(&key.replace("~1", "/").replace("~0", "~")),
        Value::Array(items) => Some(items.remove(key.parse().ok()?)),
        _ => None,
    }
}
