//! The pages, the wasm module and the fonts. `cargo xtask build` makes them: a release binary carries them, a debug
//! binary reads them from `web/dist` at run time, and without them the server says what is missing.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use rust_embed::RustEmbed;

use super::{Runs, api, error};

#[derive(RustEmbed)]
#[cfg_attr(debug_assertions, folder = "$CARGO_MANIFEST_DIR/../web/dist/debug")]
#[cfg_attr(not(debug_assertions), folder = "$CARGO_MANIFEST_DIR/../web/dist/release")]
#[allow_missing = true]
struct Assets;

const PAGES: [&str; 2] = ["index.html", "dashboard.html"];
/// Files that a working server needs.
const NEEDED: [&str; 4] = [PAGES[0], PAGES[1], "wasm/kindling_client.js", "wasm/kindling_client_bg.wasm"];

/// What the pages may do: nothing that comes from elsewhere.
const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types kindling";

/// The files that are missing, if any.
pub fn missing_assets() -> Vec<&'static str> {
    NEEDED.into_iter().filter(|file| Assets::get(file).is_none()).collect()
}

pub(super) async fn contribute(State(runs): State<Arc<Runs>>) -> Response {
    to_the_only_run(&runs, "").unwrap_or_else(|| page(PAGES[0], "./"))
}

pub(super) async fn dashboard(State(runs): State<Arc<Runs>>) -> Response {
    to_the_only_run(&runs, "/dashboard").unwrap_or_else(|| page(PAGES[1], "./"))
}

pub(super) async fn contribute_to(State(runs): State<Arc<Runs>>, Path(id): Path<String>) -> Response {
    page_of_run(&runs, &id, PAGES[0], "../")
}

pub(super) async fn dashboard_of(State(runs): State<Arc<Runs>>, Path(id): Path<String>) -> Response {
    page_of_run(&runs, &id, PAGES[1], "../../")
}

/// The page says itself, in words, when there is no such run.
fn page_of_run(runs: &Runs, id: &str, name: &str, root: &str) -> Response {
    let mut page = page(name, root);
    if api::find(runs, id).is_err() {
        *page.status_mut() = StatusCode::NOT_FOUND;
    }
    page
}

/// Relative, so that it works below any path prefix.
fn to_the_only_run(runs: &Runs, rest: &str) -> Option<Response> {
    match runs.all() {
        [run] => Some(Redirect::temporary(&format!("./r/{}{rest}", run.plan().id)).into_response()),
        _ => None,
    }
}

/// A page, told where the root is from where it is shown: no path is absolute.
fn page(name: &str, root: &str) -> Response {
    let Some(file) = Assets::get(name) else {
        let missing = format!(
            "This server was built without its pages ({} missing).\nBuild them: cargo xtask build\n",
            missing_assets().join(", ")
        );
        return (StatusCode::SERVICE_UNAVAILABLE, missing).into_response();
    };
    let html = String::from_utf8_lossy(&file.data).replace("<base href=\"./\"", &format!("<base href=\"{root}\""));
    secured(([(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-cache")], html).into_response())
}

/// Any other file: an asset, or nothing.
pub(super) async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    // The pages have addresses of their own, which say where the root is.
    let Some(file) = Assets::get(path).filter(|_| !PAGES.contains(&path)) else {
        return error::no_such_route(uri).await.into_response();
    };
    // Vite puts a hash into the names under assets/; everything else is asked for anew.
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let tag = entity_tag(&file.metadata.sha256_hash());
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let kind = mime_guess::from_path(path).first_or_octet_stream();
    let headers = [(CONTENT_TYPE, kind.as_ref()), (CACHE_CONTROL, cache), (ETAG, &tag)];
    secured((headers, file.data.into_owned()).into_response())
}

fn entity_tag(hash: &[u8; 32]) -> String {
    format!("\"{}\"", hash[..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn secured(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 3] = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
