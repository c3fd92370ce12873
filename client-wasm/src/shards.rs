//! Shards by `fetch`: the browser's own cache keeps them, because an address never changes its bytes.

use bytes::Bytes;
use js_sys::{ArrayBuffer, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, Response};

/// A shard that takes longer counts as lost; it is asked for again.
const LONGEST_MS: u32 = 120_000;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = fetch)]
    fn fetch_with(url: &str, init: &Object) -> Promise;
}

/// Fetches the bytes at an address.
pub async fn fetch(url: &str) -> Result<Bytes, String> {
    let words = |error: JsValue| error.as_string().unwrap_or_else(|| format!("{error:?}"));
    let init = Object::new();
    Reflect::set(&init, &"signal".into(), &AbortSignal::timeout_with_u32(LONGEST_MS)).map_err(words)?;
    let response: Response = JsFuture::from(fetch_with(url, &init)).await.map_err(words)?.unchecked_into();
    if !response.ok() {
        return Err(format!("the server answers {}", response.status()));
    }
    let buffer: ArrayBuffer =
        JsFuture::from(response.array_buffer().map_err(words)?).await.map_err(words)?.unchecked_into();
    Ok(Uint8Array::new(&buffer).to_vec().into())
}
