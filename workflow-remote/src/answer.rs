//! Reads an answer over HTTP: a value, a problem, or that of a server of another kind.

use std::error::Error;

use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use workflow_sdk::operate::{OperateError, OperateErrorCode, QueryError};

use crate::request::Effect;

/// The way out after a change that the server may have carried out.
pub(crate) const EFFECT_UNKNOWN: &str = "look whether it took effect before you try again, or send it with a key";

/// The status and the body of an answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    help: String,
    query: Option<QueryError>,
}

/// Reads the value of an answer, or its problem as the error that it was on the server.
pub(crate) fn read<T: DeserializeOwned>(server: &str, reply: Reply, effect: Effect) -> Result<T, OperateError> {
    let Reply { status, body } = reply;
    if !(200..300).contains(&status) {
        let problem = serde_json::from_slice(&body);
        return Err(problem.map_or_else(|_| of_another_kind(server, status, effect), |problem| error(status, problem)));
    }
    serde_json::from_slice(&body).map_err(|error| {
        if serde_json::from_slice::<IgnoredAny>(&body).is_err() {
            return of_another_kind(server, status, effect);
        }
        let message = format!("{server} gave an answer that this program does not understand: {error}");
        OperateError::new(OperateErrorCode::Unreadable, message, "use a program of the release of the server, or later")
    })
}

fn error(status: u16, problem: Problem) -> OperateError {
    let Problem { code, detail, help, query } = problem;
    let code = serde_json::from_value(code.into()).unwrap_or(match status {
        401 => OperateErrorCode::Unauthorized,
        403 => OperateErrorCode::Forbidden,
        404 => OperateErrorCode::NotFound,
        400..500 => OperateErrorCode::BadInput,
        _ => OperateErrorCode::Unavailable,
    });
    let mut error = OperateError::new(code, detail, help);
    error.query = query;
    error
}

fn of_another_kind(server: &str, status: u16, effect: Effect) -> OperateError {
    let message = format!("{server} answered {status}, and not as a server of workflows does");
    let help = match status {
        // A proxy that gets no answer may have passed the request on.
        502..=504 if effect == Effect::Changes => EFFECT_UNKNOWN,
        502..=504 => "check that the server runs behind the proxy that answered, and the times that this waits",
        _ => "check the URL: it ends with the prefix of the interface, without /api/v1",
    };
    OperateError::new(OperateErrorCode::Unavailable, message, help)
}

/// Returns the error of a server to which there is no connection.
pub(crate) fn unreached(server: &str, error: &(dyn Error + 'static)) -> OperateError {
    let message = with_causes(format!("{server} cannot be reached"), error);
    OperateError::new(OperateErrorCode::Unavailable, message, "check that the server runs, and the URL")
}

/// Returns the error of a connection that was lost before the whole answer.
pub(crate) fn lost(server: &str, error: &(dyn Error + 'static), effect: Effect) -> OperateError {
    let message = with_causes(format!("the connection to {server} was lost before its answer"), error);
    let help = match effect {
        Effect::Reads => "check that the server runs, then try again",
        Effect::Changes => EFFECT_UNKNOWN,
    };
    OperateError::new(OperateErrorCode::Unavailable, message, help)
}

/// Adds an error and its causes to a message.
fn with_causes(mut message: String, error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    message
}

/// Returns the error of an answer that is larger than this many bytes.
pub(crate) fn too_large(server: &str, most: usize) -> OperateError {
    let message = format!("{server} sends an answer of more than {most} bytes");
    OperateError::new(OperateErrorCode::TooLarge, message, "ask for fewer rows or items at once")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_answer_of_a_proxy_is_told_from_that_of_a_wrong_url() {
        for (status, says) in [(404, "prefix"), (502, "proxy"), (504, "proxy")] {
            let reply = Reply { status, body: Bytes::from_static(b"<html>") };
            let error = read::<()>("http://a", reply, Effect::Reads).unwrap_err();
            assert!(error.code == OperateErrorCode::Unavailable && error.help.contains(says), "{status}: {error:?}");
        }
        for (status, is_unknown) in [(404, false), (501, false), (502, true), (503, true), (504, true), (505, false)] {
            let reply = Reply { status, body: Bytes::from_static(b"<html>") };
            let error = read::<()>("http://a", reply, Effect::Changes).unwrap_err();
            assert_eq!(error.help == EFFECT_UNKNOWN, is_unknown, "{status}: {error:?}");
        }
    }
}
