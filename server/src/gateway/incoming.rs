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
    commit: Option<(CommitHeader, Assembler)>,
}

impl Incoming {
    pub(super) const fn new(run: Arc<Run>, connection: ConnectionId) -> Self {
        Self { run, connection, commit: None }
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
            Ok(ToServer::Trouble(trouble)) => {
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
        self.commit = Some((header, Assembler::new(header.elements)));
        Ok(())
    }

    fn chunk(&mut self, chunk: TensorChunk) {
        let what = match &mut self.commit {
            None => Some("a tensor chunk that nothing announced".to_owned()),
            Some((_, assembler)) => assembler.push(chunk).err().map(|error| error.to_string()),
        };
        if let Some(what) = what {
            return self.run.handle(self.connection, Event::Malformed(what), None);
        }
        if self.commit.as_ref().is_some_and(|(_, assembler)| assembler.is_complete())
            && let Some((header, assembler)) = self.commit.take()
        {
            let update = assembler.finish();
            let checked = check(&update);
            self.run.handle(self.connection, Event::Commit { header, checked }, Some(&(header, update)));
        }
    }
}

fn check(update: &Encoded) -> Result<(), Refusal> {
    if !update.all_finite() {
        return Err(Refusal::new(RejectCode::NotFinite, "the update holds an infinity or a NaN"));
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
