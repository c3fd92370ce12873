//! Breathing between two steps, so that messages and commands come through while a window computes.

use std::cell::Cell;
use std::rc::Rc;

use js_sys::Promise;
use kindling_shared::trainer::{Between, Pacer};
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::MessageChannel;

/// Milliseconds of compute between two breaths: each costs half a millisecond, and nobody sees that a command waits.
const BREATHE_EVERY: f64 = 50.0;

/// Milliseconds since the worker began.
pub fn now() -> f64 {
    let scope: web_sys::WorkerGlobalScope = js_sys::global().unchecked_into();
    scope.performance().map_or(0.0, |performance| performance.now())
}

/// Yields by posting itself a message: timers would wait 4 ms each time.
pub struct Breath {
    channel: Option<MessageChannel>,
    last: f64,
    abandon: Rc<Cell<bool>>,
}

impl Breath {
    /// Abandons the window as soon as `abandon` is set.
    pub fn new(abandon: Rc<Cell<bool>>) -> Self {
        Self { channel: MessageChannel::new().ok(), last: now(), abandon }
    }
}

impl Pacer for Breath {
    async fn between_steps(&mut self) -> Between {
        if now() - self.last >= BREATHE_EVERY
            && let Some(channel) = &self.channel
        {
            let (receiving, sending) = (channel.port1(), channel.port2());
            let arrived = Promise::new(&mut |resolve, _| receiving.set_onmessage(Some(&resolve)));
            if sending.post_message(&JsValue::NULL).is_ok() {
                // The promise never rejects.
                let _ = JsFuture::from(arrived).await;
            }
            self.last = now();
        }
        if self.abandon.get() { Between::Abandon } else { Between::GoOn }
    }

    fn breathe_soon(&mut self) {
        self.last = f64::NEG_INFINITY;
    }
}

impl Drop for Breath {
    fn drop(&mut self) {
        if let Some(channel) = &self.channel {
            channel.port1().close();
        }
    }
}
