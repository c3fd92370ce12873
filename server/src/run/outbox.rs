//! The bounded queue of messages towards one worker.

use std::sync::Arc;

use bytes::Bytes;
use kindling_shared::protocol::limits;
use tokio::sync::mpsc;

use crate::parameters::Snapshot;

/// A message on its way to a worker.
#[derive(Debug)]
pub enum Outgoing {
    /// One frame.
    Frame(Bytes),
    /// All frames of a snapshot; the bytes are shared.
    Snapshot(Arc<Snapshot>),
    /// Close the socket with this code and reason.
    Close(u16, String),
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Outbox(mpsc::Sender<Outgoing>);

/// The receiving end: the task that owns the socket.
pub type OutboxReceiver = mpsc::Receiver<Outgoing>;

/// A queue of [`limits::OUTBOX_MESSAGES`]. Control frames are small and snapshots are shared, so its bytes are bounded
/// by its length.
pub fn outbox() -> (Outbox, OutboxReceiver) {
    let (sender, receiver) = mpsc::channel(limits::OUTBOX_MESSAGES);
    (Outbox(sender), receiver)
}

impl Outbox {
    /// False when the queue is full or its socket is gone.
    pub fn send(&self, message: Outgoing) -> bool {
        self.0.try_send(message).is_ok()
    }
}
