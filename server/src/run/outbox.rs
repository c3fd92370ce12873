//! The bounded queue of messages towards one worker.

use bytes::Bytes;
use kindling_shared::protocol::limits;
use tokio::sync::mpsc;

/// A message on its way to a worker.
#[derive(Debug)]
pub enum Outgoing {
    /// One frame.
    Frame(Bytes),
    /// The centre that is the newest when its turn comes: what waits in the queue holds no snapshot.
    Snapshot,
    /// Close the socket with this code and reason.
    Close(u16, String),
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Outbox(mpsc::Sender<Outgoing>);

/// The receiving end: the task that owns the socket.
pub type OutboxReceiver = mpsc::Receiver<Outgoing>;

/// A queue of [`limits::OUTBOX_MESSAGES`]: control frames of at most [`limits::CONTROL_BYTES`], and no tensors.
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
