//! Triggers: they start a flow besides a person or a program.

use std::collections::BTreeSet;

use workflow_sdk::NameSubject;

use super::attempts::read_duration;
use super::context::Lowering;
use super::fields::Fields;
use super::keys;
use super::names::{filled_template, name};
use super::outline::Role;
use crate::check::Code;
use crate::document::Node;
use crate::expression::nearest;
use crate::flows::refuse_times;
use crate::graph::{Overlap, Trigger};

pub(crate) fn lower(lowering: &mut Lowering<'_>, node: &Node) -> Vec<Trigger> {
    let Some(items) = node.items() else {
        lowering.wrong(node, "triggers", "a list");
        return Vec::new();
    };
    let triggers: Vec<Trigger> = items.iter().filter_map(|item| one(lowering, item)).collect();
    refuse_equal_paths(lowering, node, &triggers);
    triggers
}

fn refuse_equal_paths(lowering: &mut Lowering<'_>, node: &Node, triggers: &[Trigger]) {
    let mut seen = BTreeSet::new();
    for trigger in triggers {
        if let Trigger::Webhook { path, .. } = trigger
            && !seen.insert(path)
        {
            lowering.error(Code::F013, node.span, format!("two webhooks have the path \"{path}\""));
        }
    }
}

/// The longest path of a webhook, in bytes.
const LONGEST_PATH: usize = 128;

/// Reads the path of a webhook, which is one part of a URL.
fn webhook_path(lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let path = lowering.text(node, "webhook.path")?;
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if path.is_empty() || path.len() > LONGEST_PATH || !path.bytes().all(is_known) || path.starts_with('.') {
        let message = format!("webhook.path is \"{path}\"; it has 1 to {LONGEST_PATH} letters, digits and . _ -");
        lowering.error(Code::F013, node.span, message);
        return None;
    }
    Some(path)
}

fn one(lowering: &mut Lowering<'_>, node: &Node) -> Option<Trigger> {
    let mut fields = Fields::read(lowering, node, "a trigger")?;
    let given: Vec<&str> = keys::TRIGGERS.iter().copied().filter(|key| fields.peek(key).is_some()).collect();
    match given.as_slice() {
        ["cron"] => {
            let trigger = cron(lowering, &mut fields);
            fields.finish(lowering, keys::CRON);
            trigger
        }
        ["webhook"] => {
            let inner = fields.take("webhook")?;
            fields.finish(lowering, &["webhook"]);
            let mut fields = Fields::read(lowering, inner, "a webhook")?;
            let node = fields.require(lowering, "path", "orders");
            let path = node.and_then(|node| webhook_path(lowering, node));
            let secret = fields.take("secret");
            let secret = secret.and_then(|node| filled_template(lowering, node, "webhook.secret", Role::Trigger));
            let key = fields.take("key");
            let key = key.and_then(|node| filled_template(lowering, node, "webhook.key", Role::Trigger));
            fields.finish(lowering, keys::WEBHOOK);
            path.map(|path| Trigger::Webhook { path, secret, key })
        }
        ["event"] => {
            let inner = fields.take("event")?;
            fields.finish(lowering, &["event"]);
            let mut fields = Fields::read(lowering, inner, "an event")?;
            let node = fields.require(lowering, "name", "order.created");
            let name = node.and_then(|node| name(lowering, node, "event.name", NameSubject::Event));
            let matches = fields.take("match");
            let matches = matches.and_then(|node| lowering.condition(node, "event.match", Role::Match));
            let key = fields.take("key");
            let key = key.and_then(|node| filled_template(lowering, node, "event.key", Role::Trigger));
            fields.finish(lowering, keys::EVENT);
            name.map(|name| Trigger::Event { name, matches, key })
        }
        [] => {
            let known: Vec<&str> = keys::TRIGGERS.to_vec();
            let is_misspelled = fields.rest().any(|entry| nearest(&entry.key, known.iter().copied()).is_some());
            if is_misspelled {
                fields.finish(lowering, &known);
            } else {
                lowering.error(Code::F013, node.span, "a trigger has one of cron, webhook and event");
            }
            None
        }
        _ => {
            let message = format!("a trigger has {}; it has one of them", given.join(" and "));
            lowering.error(Code::F013, node.span, message);
            None
        }
    }
}

fn cron(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>) -> Option<Trigger> {
    let node = fields.take("cron")?;
    let cron = lowering.text(node, "cron");
    let is_right = cron.as_deref().is_some_and(|cron| (5..=6).contains(&cron.split_whitespace().count()));
    if let Some(cron) = cron.as_deref().filter(|_| !is_right) {
        let message = format!("cron is \"{cron}\"; it has five fields, or six with seconds");
        lowering.error(Code::F013, node.span, message).help("minute, hour, day, month, weekday: \"0 8 * * MON-FRI\"");
    }
    let zone = fields.take("zone").and_then(|node| lowering.text(node, "zone"));
    let modes = [("skip", Overlap::Skip), ("queue", Overlap::Queue), ("allow", Overlap::Allow)];
    let overlap = fields.take("overlap").and_then(|node| lowering.choice(node, "overlap", &modes)).unwrap_or_default();
    let catch_up = fields.take("catch_up").and_then(|node| read_duration(lowering, node, "catch_up"));
    if let Some(text) = cron.as_deref().filter(|_| is_right)
        && let Some(refused) = refuse_times(text, zone.as_deref(), catch_up)
    {
        lowering.error(Code::F013, node.span, refused);
    }
    let input = fields.take("input").map(Node::to_json).unwrap_or_default();
    Some(Trigger::Cron { cron: cron?, zone, overlap, catch_up, input })
}
