//! One worker's frames become events: commits are put together and looked at before the run hears of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kindling_shared::params::Assembler;
use kindling_shared::protocol::{
    Capabilities, CommitHeader, Hello, Refusal, RejectCode, TensorChunk, ToServer, Trouble, limits,
};
use sha2::{Digest as _, Sha256};

use crate::coordinator::{ConnectionId, ContributorId, Event};
use crate::run::Run;

use super::budget::Grant;

pub(super) struct Incoming {
    run: Arc<Run>,
    connection: ConnectionId,
    commit: Option<Upload>,
    troubles: u32,
}

/// A commit on its way.
struct Upload {
    header: CommitHeader,
    /// Absent: this worker does not hold the lease. What it sends is counted and dropped, and refused at the end.
    kept: Option<Assembler>,
    missing: u64,
    /// Bytes that it takes from the upload budget.
    bytes: usize,
    /// Largest entry so far by its size; not finite where one was not.
    largest: f32,
    /// Its part of the budget, and since when.
    granted: Option<(Grant, Instant)>,
}

impl Upload {
    /// The longest that it may take.
    fn longest(&self) -> Duration {
        limits::UPLOAD_SLACK + Duration::from_secs(self.bytes as u64 / limits::UPLOAD_BYTES_PER_SECOND)
    }
}

impl Incoming {
    pub(super) const fn new(run: Arc<Run>, connection: ConnectionId) -> Self {
        Self { run, connection, commit: None, troubles: 0 }
    }

    pub(super) fn frame(&mut self, bytes: &Bytes) {
        let event = match ToServer::decode(bytes) {
            Err(error) => Event::Malformed(error.to_string()),
            Ok(ToServer::Tensor(chunk)) => return self.chunk(chunk),
            Ok(_) if self.commit.is_some() => Event::Malformed("a message in the middle of a commit".into()),
            Ok(ToServer::Commit(header)) => match self.announced(header) {
                Ok(()) => return,
                Err(what) => Event::Malformed(what),
            },
            Ok(ToServer::Hello(_)) => Event::Malformed("a second hello on one socket".into()),
            Ok(ToServer::SelfTestAnswer(answer)) => Event::SelfTest(self.run.compare_self_test(&answer)),
            Ok(ToServer::LeaseRequest(())) => Event::LeaseRequest,
            Ok(ToServer::Pull(())) => Event::Pull,
            Ok(ToServer::Release(lease)) => Event::Release(lease),
            Ok(ToServer::Trouble(_)) if self.troubles >= limits::TROUBLES => {
                Event::Malformed("too many troubles".into())
            }
            Ok(ToServer::Trouble(trouble)) => {
                self.troubles += 1;
                Event::Trouble(Trouble { kind: trouble.kind, detail: clean(&trouble.detail) })
            }
            Ok(ToServer::Leave(())) => Event::Leave,
            Ok(ToServer::Pong(_)) => return,
        };
        self.run.handle(self.connection, event, None);
    }

    /// Bytes that the commit at hand needs of the upload budget before its chunks are read.
    pub(super) fn wants(&self) -> Option<usize> {
        self.commit.as_ref().filter(|upload| upload.granted.is_none() && upload.bytes > 0).map(|upload| upload.bytes)
    }

    /// The budget has room for the commit at hand.
    pub(super) fn granted(&mut self, grant: Grant) {
        if let Some(upload) = &mut self.commit {
            upload.granted = Some((grant, Instant::now()));
        }
        self.keep_lease();
    }

    /// While its worker uploads, or is made to wait for room, a lease does not run out.
    pub(super) fn keep_lease(&self) {
        if let Some(upload) = self.commit.as_ref().filter(|upload| upload.kept.is_some()) {
            self.run.keep_lease(self.connection, upload.header.id.lease, upload.longest());
        }
    }

    /// Whether the commit at hand takes longer than the slowest line that is waited for, or was announced and never
    /// begun: others wait for its room.
    pub(super) fn is_late(&self) -> bool {
        self.commit.as_ref().is_some_and(|upload| {
            let most = if upload.missing == upload.header.elements { limits::PING_EVERY } else { upload.longest() };
            upload.granted.as_ref().is_some_and(|(_, since)| since.elapsed() > most)
        })
    }

    /// Before the first chunk is kept its number of elements must be the model's: nothing else bounds the memory.
    fn announced(&mut self, header: CommitHeader) -> Result<(), String> {
        let expected = self.run.layout().elements() as u64;
        if header.elements != expected {
            return Err(format!("a commit of {} elements for a model of {expected}", header.elements));
        }
        let holds = self.run.holds_lease(self.connection, header.id.lease);
        let codec = self.run.plan().strategy.upload_codec;
        let kept = holds.then(|| Assembler::new(header.elements, codec));
        let bytes = if holds { codec.bytes(header.elements as usize) } else { 0 };
        self.commit = Some(Upload { header, kept, missing: header.elements, bytes, largest: 0.0, granted: None });
        Ok(())
    }

    fn chunk(&mut self, chunk: TensorChunk) {
        if let Err(what) = self.take(chunk) {
            return self.run.handle(self.connection, Event::Malformed(what), None);
        }
        let Some(upload) = self.commit.take_if(|upload| upload.missing == 0) else { return };
        let header = upload.header;
        match upload.kept.map(Assembler::finish) {
            Some(update) => {
                let checked = judge(upload.largest);
                self.run.handle(self.connection, Event::Commit { header, checked }, Some(&(header, update)));
            }
            None => {
                let refusal = Refusal::new(RejectCode::UnknownLease, "this worker holds no such lease");
                self.run.handle(self.connection, Event::Commit { header, checked: Err(refusal) }, None);
            }
        }
    }

    fn take(&mut self, chunk: TensorChunk) -> Result<(), String> {
        let upload = self.commit.as_mut().ok_or("a tensor chunk that nothing announced")?;
        let count = chunk.count() as u64;
        if let Some(assembler) = &mut upload.kept {
            // Judged here, chunk by chunk, while the next one is on its way.
            let size = chunk.largest();
            upload.largest =
                if upload.largest.is_finite() && size.is_finite() { size.max(upload.largest) } else { f32::NAN };
            assembler.push(chunk).map_err(|error| error.to_string())?;
        }
        upload.missing = upload.missing.checked_sub(count).ok_or("more elements than were announced")?;
        Ok(())
    }
}

/// What the largest entry of an update says of it.
fn judge(largest: f32) -> Result<(), Refusal> {
    if !largest.is_finite() {
        return Err(Refusal::new(RejectCode::NotFinite, "the update holds an infinity or a NaN"));
    }
    if largest > limits::LARGEST_VALUE {
        let reason =
            format!("an entry of the update is {largest:e}, the largest accepted is {:e}", limits::LARGEST_VALUE);
        return Err(Refusal::new(RejectCode::TooLarge, reason));
    }
    if largest == 0.0 {
        return Err(Refusal::new(RejectCode::AllZero, "every entry of the update is zero"));
    }
    Ok(())
}

/// The hello as the coordinator takes it: of the contributor's secret only the hash goes on.
pub(super) fn hello_event(hello: Hello) -> Result<Event, getrandom::Error> {
    let mut fresh_secret = [0; 16];
    getrandom::fill(&mut fresh_secret)?;
    Ok(Event::Hello {
        contributor: ContributorId(Sha256::digest(hello.contributor).into()),
        resume: hello.resume,
        capabilities: Capabilities { adapter: clean(&hello.capabilities.adapter), ..hello.capabilities },
        fresh_secret,
    })
}

/// Text of a stranger: without control or direction characters, and not long.
pub(super) fn clean(text: &str) -> String {
    let harmless = |character: &char| {
        !character.is_control()
            && !matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(harmless).take(limits::TEXT_CHARACTERS).collect()
}
