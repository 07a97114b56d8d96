use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use workflow_sdk::operate::Payload;

use crate::Problem;

/// The JSON body of a request.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Text(bytes) = Text::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// The body of a request that says it is JSON, not parsed yet.
pub(crate) struct Text(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let media = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" && !media.ends_with("+json") {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                format!("the content type {kind:?} is not JSON"),
                "send JSON with the header Content-Type: application/json",
            ));
        }
        Bytes::from_request(request, state).await.map(Self).map_err(unread)
    }
}

/// Parses a body.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        Problem::bad_input(format!("the body is not as expected: {error}"), "mend the JSON at this line and column")
    })
}

/// Returns a payload as it was written, with all digits of its numbers.
pub(crate) fn exact(text: &RawValue) -> Result<Payload, Problem> {
    Ok(Payload::new(text.get())?)
}

pub(crate) fn unread(rejection: BytesRejection) -> Problem {
    let (status, detail) = (rejection.status(), rejection.body_text());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(status, "too_large", detail, "send less"),
        _ => Problem::new(status, "bad_input", detail, "send the whole body"),
    }
}

/// The parameters in the path or behind the question mark, refused as problems.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let refused = |rejection: PathRejection| {
            Problem::bad_input(format!("the path is refused: {}", rejection.body_text()), "an id is a UUID")
        };
        path.map(|axum::extract::Path(value)| Self(value)).map_err(refused)
    }
}

/// The parameters behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let refused = |rejection: QueryRejection| {
            let detail = format!("the parameters are refused: {}", rejection.body_text());
            Problem::bad_input(detail, "docs/guide/http-api.md lists the parameters of each path")
        };
        query.map(|axum::extract::Query(value)| Self(value)).map_err(refused)
    }
}
