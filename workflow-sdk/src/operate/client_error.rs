//! The errors of the client as those of an operator.

use workflow_engine::runtime::PayloadError;
use workflow_engine::schedule::InvalidSchedule;
use workflow_engine::store::DatabaseErrorKind;

use crate::ClientError;

use super::{OperateError, OperateErrorCode};

impl From<ClientError> for OperateError {
    fn from(error: ClientError) -> Self {
        let (code, help) = answer(&error);
        Self::new(code, without_advice(&error.to_string()), help)
    }
}

impl From<InvalidSchedule> for OperateError {
    fn from(error: InvalidSchedule) -> Self {
        ClientError::from(error).into()
    }
}

/// Returns the code of an error, and what to do about it.
fn answer(error: &ClientError) -> (OperateErrorCode, String) {
    use OperateErrorCode as Code;
    let (code, help) = match error {
        ClientError::UnknownRun { .. } => {
            (Code::NotFound, "it may have been deleted: check the id, and that this is the database of the run")
        }
        ClientError::KeyConflict { run_id, .. } => {
            return (Code::Conflict, format!("use another key for another input, or look at run {run_id}"));
        }
        ClientError::Rate(_) => (Code::BadInput, "give a rate within the range"),
        ClientError::QueueFull(_) => (Code::Full, "try again when runs have begun, or raise max_waiting"),
        ClientError::SingleTaken { run_id, .. } => {
            return (Code::Conflict, format!("wait for the end of run {run_id}, or cancel it"));
        }
        ClientError::SingleTakenSince { holder, .. } => {
            return (Code::Conflict, format!("try again when run {holder} has ended, or cancel it first"));
        }
        ClientError::SingleBusy { .. } | ClientError::EventBusy { .. } => {
            (Code::TimedOut, "end the transaction that holds it, then try again")
        }
        ClientError::Single(_) => (Code::BadInput, "leave out one of the options, or mend its time"),
        ClientError::NotAsked { asked, .. } if asked.is_empty() => {
            (Code::Conflict, "it waits for no approval at all: look at what it waits for")
        }
        ClientError::NotAsked { asked, .. } => {
            return (Code::NotFound, format!("it waits for {}", list(asked)));
        }
        ClientError::Name(_) | ClientError::Gate(_) => {
            (Code::BadInput, "use 1 to 255 bytes without control characters")
        }
        ClientError::Tags(_) => (Code::BadInput, "use fewer or shorter tags, and keep other data in the input"),
        ClientError::InboxFull { .. } => (Code::Full, "let the run take some, or raise signal_limit"),
        ClientError::Payload(PayloadError::TooLarge { .. }) => {
            (Code::TooLarge, "keep large data elsewhere and pass a reference, or raise payload_limit")
        }
        ClientError::Payload(_) => (Code::BadInput, "give a value that can be written as JSON and read back"),
        ClientError::UnknownStep { near, .. } if near.is_empty() => {
            (Code::NotFound, "it has no history: fork it from its beginning")
        }
        ClientError::UnknownStep { near, .. } => return (Code::NotFound, format!("did you mean {}?", list(near))),
        ClientError::NotFailed { .. } => {
            (Code::Conflict, "only a failed run is tried again: fork it to do a part of it anew, or wait for its end")
        }
        ClientError::NotEnded { .. } => (Code::Conflict, "wait for its end, or cancel it first"),
        ClientError::StillAwaited { .. } => (Code::Conflict, "delete it once the parent has gone on or has ended"),
        ClientError::Compensated { .. } => (Code::Conflict, "fork it from the first step that is to be done again"),
        ClientError::DeadlinePassed { run_id, .. } => {
            let command = format!("`workflow runs retry {run_id} --deadline 1h`");
            let help = format!("give it a new deadline: in the form, with {command}, or as deadline_ms of the order");
            return (Code::Conflict, help);
        }
        ClientError::RunFailed { .. } => (Code::Conflict, "look at its history, then try it again or fork it"),
        ClientError::RunCanceled { .. } => (Code::Conflict, "start it again, or fork it"),
        ClientError::Decode { .. } | ClientError::DecodeLive { .. } => {
            (Code::Unreadable, "ask for the type that the workflow hands over")
        }
        ClientError::Schedule(invalid) => return (Code::BadInput, mend(invalid)),
        ClientError::UnknownSchedule { .. } => {
            (Code::NotFound, "check the name, create the schedule, or start a worker that declares it")
        }
        ClientError::ScheduleExists { .. } => (Code::Conflict, "use another name, or update that schedule"),
        ClientError::ScheduleOfCode { .. } => {
            (Code::Conflict, "change its times and policies only, or change the code")
        }
        ClientError::ComputedInput { .. } => {
            (Code::BadInput, "give an input, because code computes that of the schedule")
        }
        ClientError::EmptyBackfill { .. } => (Code::BadInput, "give an end that is later than the beginning"),
        ClientError::LargeBackfill { .. } => (Code::BadInput, "choose a shorter time, or allow more runs"),
        ClientError::UnreadableSchedule(_) => {
            (Code::Unreadable, "use a program of the release that wrote the schedule")
        }
        ClientError::OtherDatabase { .. } | ClientError::Isolation { .. } | ClientError::TransactionOver(_) => {
            (Code::BadInput, "use an open transaction of the database of the client, with READ COMMITTED")
        }
        ClientError::Unreadable(_) => (Code::Unreadable, "give this program the key or codec that wrote the payload"),
        ClientError::TimedOut { effect_unknown: false, .. } => {
            (Code::TimedOut, "try again, or with a longer call_timeout")
        }
        ClientError::TimedOut { effect_unknown: true, .. } => {
            (Code::TimedOut, "look whether it took effect before you try again")
        }
        ClientError::Database(error) => match error.kind {
            DatabaseErrorKind::Invalid => (Code::BadInput, "give a value that the database can store"),
            DatabaseErrorKind::Corrupt | DatabaseErrorKind::Codec => {
                (Code::Unreadable, "look at the row that the error names, with the release that wrote it")
            }
            DatabaseErrorKind::Moved => (Code::Unavailable, "use the database to which the system was moved"),
            DatabaseErrorKind::OldTimeline => {
                (Code::Unavailable, "let the address of the database lead to the new primary, then try again")
            }
            DatabaseErrorKind::ReadOnly => (Code::Unavailable, "use a database, and a role, that may be written"),
            DatabaseErrorKind::Other => (
                Code::Unavailable,
                "the database refused it, and its log has the reason; on PostgreSQL the role mostly lacks a right, \
                 which `workflow doctor` names",
            ),
            // The enum is in another crate and may get further variants.
            _ => (Code::Unavailable, "check that the database runs and can be reached, then try again"),
        },
        ClientError::Standby(standby) => {
            return (
                Code::Standby,
                match &standby.primary {
                    Some(primary) => format!("send the change to the primary, {primary}"),
                    None => "send the change to the primary".to_owned(),
                },
            );
        }
        ClientError::Stopped(_) => (Code::Unavailable, "restart this process"),
    };
    (code, help.into())
}

/// Returns what to use instead in a schedule that is refused.
fn mend(invalid: &InvalidSchedule) -> String {
    match invalid {
        InvalidSchedule::NoTimes { .. } => "give it a cron expression or an interval".to_owned(),
        InvalidSchedule::NoWorkflow { .. } => "name the workflow that it starts".to_owned(),
        InvalidSchedule::Cron { .. } => "use five fields (minute, hour, day of the month, month, day of the week), or \
                                         six with the seconds first"
            .to_owned(),
        InvalidSchedule::NeverMatches { .. } => "correct the expression, its exceptions or its bounds".to_owned(),
        InvalidSchedule::Zone { near, .. } if near.is_empty() => {
            "use a name such as \"Europe/Berlin\" or \"UTC\"".to_owned()
        }
        InvalidSchedule::Zone { near, .. } => format!("did you mean {}?", list(near)),
        InvalidSchedule::LongName { limit, .. } => format!("use at most {limit} bytes"),
        InvalidSchedule::Duration { range, .. } | InvalidSchedule::Number { range, .. } => format!("use {range}"),
        _ => "mend the value that the error names".to_owned(),
    }
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(" or ")
}

/// Returns a text up to the semicolon outside of quotes behind which the client gives advice, which
/// is in terms of its own calls.
fn without_advice(text: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted && text[at..].starts_with("; ") => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use workflow_engine::model::{RunId, RunStatus, Timestamp};
    use workflow_engine::store::DatabaseError;

    use super::*;

    #[test]
    fn advice_ends_at_a_semicolon_outside_of_quotes() {
        for (text, expected) in [
            ("a is b; do c", "a is b"),
            ("\"a; \\\"b; \" is c; do d; or e", "\"a; \\\"b; \" is c"),
            ("nothing to do", "nothing to do"),
        ] {
            assert_eq!(without_advice(text), expected);
        }
    }

    #[test]
    fn an_error_of_the_client_has_a_code_a_message_and_a_way_out() {
        let run_id = RunId::generate();
        let error: OperateError = ClientError::NotEnded { run_id, status: RunStatus::Running }.into();
        assert_eq!(error.code, OperateErrorCode::Conflict);
        assert_eq!(error.message, format!("run {run_id} is running, and only a run that has ended can be deleted"));
        assert_eq!(error.help, "wait for its end, or cancel it first");
        let near = vec!["pay; all".to_owned(), "payed".to_owned()];
        let error: OperateError = ClientError::UnknownStep { run_id, key: "pai; d".into(), near }.into();
        assert_eq!(error.message, format!("run {run_id} has no step \"pai; d\""));
        assert_eq!(error.help, "did you mean \"pay; all\" or \"payed\"?");
    }

    #[test]
    fn a_database_that_refuses_is_told_from_one_that_is_away() {
        for (kind, says) in [
            (DatabaseErrorKind::ReadOnly, "may be written"),
            (DatabaseErrorKind::Other, "lacks a right"),
            (DatabaseErrorKind::Unreachable, "check that the database runs"),
        ] {
            let error = ClientError::Database(DatabaseError::new(kind, "delete a run", "permission denied"));
            let error = OperateError::from(error);
            assert_eq!(error.code, OperateErrorCode::Unavailable);
            assert!(error.help.contains(says), "{kind:?}: {error:?}");
        }
    }

    #[test]
    fn a_schedule_that_is_refused_has_the_way_out_in_the_terms_of_an_order() {
        let daily = |times: &str| crate::Schedule::cron("daily", times).zone("Europe/Berlin");
        let refusal = |schedule: crate::Schedule| {
            let error = schedule.next_after(Timestamp::from_micros(0), 1).map(drop).unwrap_err();
            OperateError::from(ClientError::Schedule(error))
        };
        let error = refusal(daily("0 25 * * *"));
        assert!(error.message.ends_with(", in the field \"25\" of the hour at column 3"), "{error}");
        assert!(error.help.starts_with("use five fields"), "{error}");
        let error = refusal(daily("0 7 * * *").zone("Europe/Berlim"));
        assert_eq!(error.message, "schedule \"daily\": there is no time zone \"Europe/Berlim\"");
        assert!(error.help.starts_with("did you mean \"Europe/Berlin\""), "{error}");
    }
}
