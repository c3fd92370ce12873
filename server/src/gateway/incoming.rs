//! One worker's frames become events: commits are put together and looked at before the run hears of them.

use std::sync::Arc;

use bytes::Bytes;
use kindling_shared::params::{Assembler, Encoded};
use kindling_shared::protocol::{
    Capabilities, CommitHeader, Hello, Refusal, RejectCode, TensorChunk, ToServer, Trouble, limits,
};
use sha2::{Digest as _, Sha256};

use crate::coordinator::{ConnectionId, ContributorId, Event};
use crate::run::Run;

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

    /// Before the first chunk is kept its number of elements must be the model's: nothing else bounds the memory.
    fn announced(&mut self, header: CommitHeader) -> Result<(), String> {
        let expected = self.run.layout().elements() as u64;
        if header.elements != expected {
            return Err(format!("a commit of {} elements for a model of {expected}", header.elements));
        }
        let holds = self.run.holds_lease(self.connection, header.id.lease);
        let kept = holds.then(|| Assembler::new(header.elements));
        self.commit = Some(Upload { header, kept, missing: header.elements });
        Ok(())
    }

    fn chunk(&mut self, chunk: TensorChunk) {
        if let Err(what) = self.take(chunk) {
            return self.run.handle(self.connection, Event::Malformed(what), None);
        }
        let Some(Upload { header, kept, .. }) = self.commit.take_if(|upload| upload.missing == 0) else { return };
        match kept.map(Assembler::finish) {
            Some(update) => {
                let checked = check(&update);
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
            assembler.push(chunk).map_err(|error| error.to_string())?;
        }
        upload.missing = upload.missing.checked_sub(count).ok_or("more elements than were announced")?;
        Ok(())
    }
}

fn check(update: &Encoded) -> Result<(), Refusal> {
    if !update.all_finite() {
        return Err(Refusal::new(RejectCode::NotFinite, "the update holds an infinity or a NaN"));
    }
    let largest = update.largest();
    if largest > limits::LARGEST_VALUE {
        let reason =
            format!("an entry of the update is {largest:e}, the largest accepted is {:e}", limits::LARGEST_VALUE);
        return Err(Refusal::new(RejectCode::TooLarge, reason));
    }
    if update.all_zero() {
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
