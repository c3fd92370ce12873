//! Errors of the API: `{ "error": { "code", "message", "hint" } }`.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// The body of every error.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct ErrorDetail {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// What helps.
    pub hint: String,
}

/// An error as a response.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: String,
}

impl ApiError {
    /// There is no such thing.
    pub fn not_found(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, code, message: message.into(), hint: hint.into() }
    }

    /// The request itself is wrong.
    pub fn bad_request(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into(), hint: hint.into() }
    }

    /// Something failed here that the caller cannot mend.
    pub fn internal(message: impl Into<String>) -> Self {
        let hint = "the server's log says more".into();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, code: "internal", message: message.into(), hint }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let detail = ErrorDetail { code: self.code.into(), message: self.message, hint: self.hint };
        (self.status, Json(ErrorBody { error: detail })).into_response()
    }
}

/// The API has no such route.
pub async fn no_such_route(uri: Uri) -> ApiError {
    ApiError::not_found(
        "unknown_route",
        format!("the API has no {}", uri.path()),
        "docs/architecture.md lists the routes",
    )
}
