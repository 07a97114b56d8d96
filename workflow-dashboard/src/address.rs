//! The parts of an address as a handler gets them. One that cannot be read becomes a page.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use workflow_sdk::operate::Cursor;

use crate::problem::Problem;

/// The part of the path that the route leaves open, such as the id of a run.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

/// The parameters behind the path.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

/// The parameters of a list without filters.
#[derive(Debug, Deserialize)]
pub(crate) struct Place {
    /// The place at which the page begins, if it is not the beginning of the list.
    pub(crate) cursor: Option<Cursor>,
}

/// Refuses a part of an address.
pub(crate) fn refused(text: impl Into<String>) -> Problem {
    Problem::bad_input(text, "Follow the links of the pages. An id of a run is a UUID.")
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name)).map_err(|error| refused(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|error| refused(error.body_text()))
    }
}
