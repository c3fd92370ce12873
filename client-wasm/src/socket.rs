//! The WebSocket to the server: what happens on it becomes inputs.

use bytes::Bytes;
use futures_channel::mpsc;
use js_sys::{ArrayBuffer, Uint8Array};
use kindling_shared::protocol::SUBPROTOCOL;
use kindling_shared::session::Input;
use wasm_bindgen::prelude::*;
use web_sys::{BinaryType, CloseEvent, MessageEvent, WebSocket};

/// An open or opening socket. Dropped, it closes and says nothing more.
pub struct Socket {
    inner: WebSocket,
    _open: Closure<dyn FnMut()>,
    _message: Closure<dyn FnMut(MessageEvent)>,
    _close: Closure<dyn FnMut(CloseEvent)>,
}

impl Socket {
    /// Begins to open a socket.
    pub fn open(url: &str, inputs: &mpsc::Sender<Input>) -> Result<Self, String> {
        let socket = WebSocket::new_with_str(url, SUBPROTOCOL).map_err(|error| format!("{error:?}"))?;
        socket.set_binary_type(BinaryType::Arraybuffer);
        let mut sender = inputs.clone();
        let open = Closure::<dyn FnMut()>::new(move || tell(&mut sender, Input::Connected));
        let mut sender = inputs.clone();
        let overflowing = socket.clone();
        let message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            if let Ok(buffer) = event.data().dyn_into::<ArrayBuffer>() {
                let bytes = Bytes::from(Uint8Array::new(&buffer).to_vec());
                if sender.try_send(Input::Frame(bytes)).is_err() {
                    // A frame that is lost breaks the stream: better no stream.
                    let _ = overflowing.close();
                }
            }
        });
        let mut sender = inputs.clone();
        let close = Closure::<dyn FnMut(CloseEvent)>::new(move |event: CloseEvent| {
            tell(&mut sender, Input::Disconnected { code: event.code(), reason: event.reason() });
        });
        socket.set_onopen(Some(open.as_ref().unchecked_ref()));
        socket.set_onmessage(Some(message.as_ref().unchecked_ref()));
        socket.set_onclose(Some(close.as_ref().unchecked_ref()));
        Ok(Self { inner: socket, _open: open, _message: message, _close: close })
    }

    /// Sends a message; a socket that is closing takes none, and its close is reported.
    pub fn send(&self, bytes: &Bytes) {
        let _ = self.inner.send_with_u8_array(bytes);
    }

    /// Bytes that wait here for the network.
    pub fn buffered(&self) -> u64 {
        u64::from(self.inner.buffered_amount())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.inner.set_onopen(None);
        self.inner.set_onmessage(None);
        self.inner.set_onclose(None);
        let _ = self.inner.close();
    }
}

fn tell(sender: &mut mpsc::Sender<Input>, input: Input) {
    if sender.try_send(input).is_err() {
        web_sys::console::error_1(&"the worker is busy: what happened on the socket was lost".into());
    }
}
