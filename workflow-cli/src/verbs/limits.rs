use comfy_table::Cell;
use workflow_sdk::LimitRule;
use workflow_sdk::operate::{Action, LimitView, ListSeats, Operate, SeatPage, SeatState};

use crate::arguments::LimitsVerb;
use crate::clock::Clock;
use crate::output::{Output, Rows, number};
use crate::{Exit, Failure};

use super::counts::shown;
use super::order::perform;
use super::rate;
use super::run_list::{cursor_of, text_of};

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: LimitsVerb) -> Result<Exit, Failure> {
    match verb {
        LimitsVerb::List => list(operate, output).await,
        LimitsVerb::Seats { limit, key, at_most, cursor } => {
            let mut list = ListSeats::new(limit).limit(at_most);
            list.key = key;
            list.cursor = cursor.as_deref().map(cursor_of).transpose()?;
            seats(operate, output, list).await
        }
        LimitsVerb::Clear { limit, author } => perform(operate, output, Action::ClearLimit { limit }, &author).await,
        LimitsVerb::Set { limit, concurrency, rate, author } => {
            let mut rule = LimitRule::none();
            if let Some(bodies) = concurrency {
                rule = rule.concurrency(bodies);
            }
            if let Some(rate) = rate {
                rule = rule.rate(rate::parse(&rate)?);
            }
            perform(operate, output, Action::SetLimit { limit, rule }, &author).await
        }
    }
}

async fn list(operate: &dyn Operate, output: &Output) -> Result<Exit, Failure> {
    let limits = operate.limits().await?;
    output.list(
        &limits,
        &limits,
        |limit| limit.name.clone(),
        |_| {
            let mut rows = Rows::new(&["LIMIT", "TAKEN", "WAITING", "RULE"]);
            for limit in &limits {
                let rule = Cell::new(rule(limit));
                rows.push(vec![Cell::new(&limit.name), number(shown(limit.held)), number(shown(limit.waiting)), rule]);
            }
            rows
        },
    )?;
    if output.is_for_people() && limits.is_empty() {
        output.note("there is no limit for steps");
    }
    Ok(Exit::Ok)
}

async fn seats(operate: &dyn Operate, output: &Output, list: ListSeats) -> Result<Exit, Failure> {
    let page = operate.seats(list).await?;
    output.list(&page, &page.items, |seat| seat.run.to_string(), |clock| seat_rows(clock, &page))?;
    let more = page.next.as_ref().map(|next| format!("later seats: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("no step holds a seat, and none waits for one"), more);
    Ok(Exit::Ok)
}

fn seat_rows(clock: &Clock, page: &SeatPage) -> Rows {
    let mut rows = Rows::new(&["STATE", "KEY", "RUN", "WORKFLOW", "STEP", "ASKED"]);
    for seat in &page.items {
        let state = match seat.state {
            SeatState::Held => "held",
            SeatState::Called => "called",
            SeatState::Waiting => "waiting",
            _ => "void",
        };
        let asked = clock.relative(seat.asked_at);
        let texts = [state, &seat.key, &seat.run.to_string(), &seat.workflow, &seat.step, &asked].map(Cell::new);
        rows.push(texts.to_vec());
    }
    rows
}

/// Returns the rule that holds, and whether it was set by an operator.
fn rule(limit: &LimitView) -> String {
    let Some(LimitRule { concurrency, rate, .. }) = limit.rule else { return "-".to_owned() };
    let mut parts = Vec::new();
    parts.extend(concurrency.map(|bodies| format!("{bodies} at once per key")));
    parts.extend(rate.map(|rate| format!("{rate} per key")));
    let set = if limit.overridden.is_some() { " (set)" } else { "" };
    format!("{}{set}", parts.join(", "))
}
