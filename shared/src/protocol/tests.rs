//! What protocol v1 promises: its bytes never change, and decoding is total.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::params::Codec;

fn to_server() -> Vec<ToServer> {
    let capabilities = Capabilities { backend: Backend::Webgpu, adapter: "an adapter".into(), software: true };
    let resume = Resume { worker: WorkerId(300), secret: [7; 16], lease: Some(LeaseId(2)) };
    let id = CommitId { lease: LeaseId(5), sequence: 1 };
    let base = Version { generation: 1, number: 200 };
    vec![
        ToServer::Hello(Hello { run: "digits".into(), contributor: [9; 32], resume: Some(resume), capabilities }),
        ToServer::SelfTestAnswer(SelfTestAnswer { norms: vec![1.0, 0.5], entries: vec![-2.0] }),
        ToServer::LeaseRequest(()),
        ToServer::Pull(()),
        ToServer::Commit(CommitHeader {
            id,
            base,
            steps: 3,
            samples: 96,
            loss: 0.25,
            compute_ms: 12,
            elements: 300_000,
        }),
        ToServer::Release(LeaseId(5)),
        ToServer::Trouble(Trouble { kind: TroubleKind::Trap, detail: "unreachable".into() }),
        ToServer::Pong(1),
        ToServer::Leave(()),
        ToServer::Tensor(TensorChunk::build(61_440, Codec::F32, 1, |out| out.extend([0, 0, 128, 63]))),
        ToServer::Tensor(TensorChunk::build(122_880, Codec::F16, 1, |out| out.extend([0, 60]))),
        ToServer::Tensor(TensorChunk::build(245_760, Codec::Int8, 2, |out| out.extend([0, 0, 128, 63, 127, 129]))),
    ]
}

fn to_worker() -> Vec<ToWorker> {
    let version = Version { generation: 1, number: 201 };
    let id = CommitId { lease: LeaseId(5), sequence: 1 };
    let range = SampleRange { epoch: 2, shard: 3, hash: ShardHash([4; 32]), start: 0, end: 96 };
    let lease = |window| Lease { id: LeaseId(5), ranges: vec![range], deadline_ms: 60_000, window };
    let welcome = Welcome {
        plan: "{}".into(),
        schema: [1; 32],
        worker: WorkerId(300),
        resume_secret: [7; 16],
        admitted: false,
        lease_kept: true,
    };
    vec![
        ToWorker::Welcome(welcome),
        ToWorker::SelfTest(77),
        ToWorker::Admitted(()),
        ToWorker::Lease(lease(WindowLimit::Steps(5))),
        ToWorker::Lease(lease(WindowLimit::Auto { milliseconds: 2_000, samples: 320 })),
        ToWorker::Lease(lease(WindowLimit::Lease)),
        ToWorker::NoWork("all samples are out".into()),
        ToWorker::Snapshot(SnapshotHeader { version, elements: 300_000 }),
        ToWorker::Verdict(Verdict::Accepted { id, version, staleness: 1, credit: 960 }),
        ToWorker::Verdict(Verdict::Rejected { id, refusal: Refusal::new(RejectCode::Stale, "too old") }),
        ToWorker::Ping(1),
        ToWorker::RunEnded("done".into()),
        ToWorker::Restarting(3_000),
        ToWorker::Farewell(Refusal::new(RejectCode::Superseded, "a newer tab")),
        ToWorker::Tensor(TensorChunk::build(0, Codec::F32, 1, |out| out.extend([0, 0, 0, 191]))),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every frame as bytes; `frames.txt` is what v1 means for ever. A difference is a new protocol version.
#[test]
fn the_bytes_of_every_frame_are_the_pinned_ones() {
    let lines = to_server().iter().map(|frame| format!("> {}\n", hex(&frame.encode()))).collect::<String>()
        + &to_worker().iter().map(|frame| format!("< {}\n", hex(&frame.encode()))).collect::<String>();
    if std::env::var_os("KINDLING_PIN_FRAMES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/frames.txt"), &lines).expect("writes");
    }
    assert_eq!(lines, include_str!("frames.txt"));
}

#[test]
fn every_number_of_the_registry_has_a_pinned_frame() {
    let numbers = |frames: Vec<Bytes>| frames.iter().map(|frame| frame[1]).collect::<std::collections::BTreeSet<u8>>();
    let registered = |registry: &[(u8, &str)]| registry.iter().map(|entry| entry.0).collect();
    assert_eq!(numbers(to_server().iter().map(ToServer::encode).collect()), registered(ToServer::REGISTRY));
    assert_eq!(numbers(to_worker().iter().map(ToWorker::encode).collect()), registered(ToWorker::REGISTRY));
    let shared = ToServer::REGISTRY.iter().filter(|entry| ToWorker::REGISTRY.contains(entry));
    assert_eq!(shared.map(|entry| entry.1).collect::<Vec<_>>(), ["Tensor"]);
}

#[test]
fn the_frame_table_of_the_documentation_is_the_registry() {
    let document = include_str!("../../../docs/protocol.md");
    for (number, name) in ToServer::REGISTRY.iter().chain(ToWorker::REGISTRY) {
        assert!(document.contains(&format!("| {number} | `{name}` |")), "docs/protocol.md lacks {number} {name}");
    }
}

#[test]
fn a_round_trip_is_the_identity() {
    for frame in to_server() {
        assert_eq!(ToServer::decode(&frame.encode()), Ok(frame));
    }
    for frame in to_worker() {
        assert_eq!(ToWorker::decode(&frame.encode()), Ok(frame));
    }
}

#[test]
fn other_versions_unknown_numbers_and_oversized_frames_are_refused_by_name() {
    let decode = |bytes: Vec<u8>| ToServer::decode(&bytes.into()).expect_err("must not decode");
    assert_eq!(decode(vec![1]), FrameError::Short(1));
    assert_eq!(decode(vec![2, 1]), FrameError::Version(2));
    assert_eq!(decode(vec![1, 2]), FrameError::Number(2), "a frame of the other direction");
    let mut large = vec![1, 1];
    large.resize(limits::CONTROL_BYTES + 1, 0);
    assert!(matches!(decode(large), FrameError::TooLarge { number: 1, .. }));
    let mut longer = ToServer::Pong(1).encode().to_vec();
    longer.push(0);
    assert!(matches!(decode(longer), FrameError::Payload { number: 15, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn decoding_any_bytes_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), known: bool, number in 0_u8..34) {
        if known && bytes.len() >= 2 {
            bytes[0] = FRAME_VERSION;
            bytes[1] = number;
        }
        let bytes = Bytes::from(bytes);
        if let Ok(frame) = ToServer::decode(&bytes) {
            prop_assert_eq!(ToServer::decode(&frame.encode()), Ok(frame));
        }
        let _ = ToWorker::decode(&bytes);
    }

    #[test]
    fn a_damaged_frame_never_panics(which in 0_usize..10, at in 0_usize..400, byte: u8, cut in 0_usize..400) {
        let mut bytes = to_server()[which].encode().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % bytes.len());
        let _ = ToServer::decode(&bytes.into());
    }

    #[test]
    fn commits_round_trip(lease: u64, sequence: u32, generation: u32, number: u64, steps: u32, samples: u32, loss in -1e30_f32..1e30, compute_ms: u32, elements: u64) {
        let id = CommitId { lease: LeaseId(lease), sequence };
        let base = Version { generation, number };
        let frame = ToServer::Commit(CommitHeader { id, base, steps, samples, loss, compute_ms, elements });
        prop_assert_eq!(ToServer::decode(&frame.encode()), Ok(frame));
    }
}
