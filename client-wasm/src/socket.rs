//! The WebSocket to the server: what happens on it becomes inputs. It lives in a Web Worker of its own (`web/src/socket.ts`),
//! so that bytes come and go while this thread computes a step.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_channel::mpsc;
use js_sys::{Array, ArrayBuffer, Object, Reflect, Uint8Array};
use kindling_shared::protocol::SUBPROTOCOL;
use kindling_shared::session::Input;
use wasm_bindgen::prelude::*;
use web_sys::{MessageChannel, MessageEvent, MessagePort, Worker};

#[wasm_bindgen]
extern "C" {
    /// What the socket's Web Worker says beside bytes.
    type SocketEvent;
    #[wasm_bindgen(method, getter)]
    fn kind(this: &SocketEvent) -> String;
    #[wasm_bindgen(method, getter)]
    fn bytes(this: &SocketEvent) -> f64;
    #[wasm_bindgen(method, getter)]
    fn code(this: &SocketEvent) -> u16;
    #[wasm_bindgen(method, getter)]
    fn reason(this: &SocketEvent) -> String;
}

/// An open or opening socket. Dropped, it closes and says nothing more.
pub struct Socket {
    port: MessagePort,
    taken: Cell<u64>,
    sent: Rc<Cell<u64>>,
    _message: Closure<dyn FnMut(MessageEvent)>,
}

impl Socket {
    /// Begins to open a socket in the Web Worker `thread`.
    pub fn open(thread: &Worker, url: &str, inputs: &mpsc::Sender<Input>) -> Result<Self, JsValue> {
        let channel = MessageChannel::new()?;
        let (port, theirs) = (channel.port1(), channel.port2());
        let opening = Object::new();
        for (name, value) in [("url", &url.into()), ("protocol", &SUBPROTOCOL.into()), ("port", theirs.as_ref())] {
            Reflect::set(&opening, &name.into(), value)?;
        }
        thread.post_message_with_transfer(&opening, &Array::of1(&theirs))?;
        let (mut inputs, sent) = (inputs.clone(), Rc::new(Cell::new(0)));
        let (overflowing, gone) = (port.clone(), Rc::clone(&sent));
        let mut broken = false;
        let message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            match event.data().dyn_into::<ArrayBuffer>() {
                // What was on its way already when a frame was lost.
                Ok(_) if broken => {}
                Ok(buffer) => {
                    let bytes = Bytes::from(Uint8Array::new(&buffer).to_vec());
                    if inputs.try_send(Input::Frame(bytes)).is_err() {
                        // A frame that is lost breaks the stream: better no stream.
                        broken = true;
                        let _ = overflowing.post_message(&JsValue::NULL);
                    }
                }
                Err(event) => hear(event.unchecked_ref(), &mut inputs, &gone),
            }
        });
        port.set_onmessage(Some(message.as_ref().unchecked_ref()));
        Ok(Self { port, taken: Cell::new(0), sent, _message: message })
    }

    /// Sends a message; a socket that is closing takes none, and its close is reported.
    pub fn send(&self, bytes: &Bytes) {
        let buffer = Uint8Array::from(&bytes[..]).buffer();
        if self.port.post_message_with_transferable(&buffer, &Array::of1(&buffer)).is_ok() {
            self.taken.set(self.taken.get() + bytes.len() as u64);
        }
    }

    /// Bytes that wait here for the network.
    pub fn buffered(&self) -> u64 {
        self.taken.get().saturating_sub(self.sent.get())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.port.set_onmessage(None);
        // The other end closes the port with the socket.
        let _ = self.port.post_message(&JsValue::NULL);
    }
}

fn hear(event: &SocketEvent, inputs: &mut mpsc::Sender<Input>, sent: &Cell<u64>) {
    let input = match event.kind().as_str() {
        "open" => Input::Connected,
        "sent" => return sent.set(event.bytes() as u64),
        _ => Input::Disconnected { code: event.code(), reason: event.reason() },
    };
    if inputs.try_send(input).is_err() {
        web_sys::console::error_1(&"the worker is busy: what happened on the socket was lost".into());
    }
}
