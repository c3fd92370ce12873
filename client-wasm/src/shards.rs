//! Shards by `fetch`: the browser's own cache keeps them, because an address never changes its bytes.

use bytes::Bytes;
use js_sys::{ArrayBuffer, Uint8Array};
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Response, WorkerGlobalScope};

/// Fetches the bytes at an address.
pub async fn fetch(url: &str) -> Result<Bytes, String> {
    let words = |error: JsValue| error.as_string().unwrap_or_else(|| format!("{error:?}"));
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    let response: Response = JsFuture::from(scope.fetch_with_str(url)).await.map_err(words)?.unchecked_into();
    if !response.ok() {
        return Err(format!("the server answers {}", response.status()));
    }
    let buffer: ArrayBuffer =
        JsFuture::from(response.array_buffer().map_err(words)?).await.map_err(words)?.unchecked_into();
    Ok(Uint8Array::new(&buffer).to_vec().into())
}
