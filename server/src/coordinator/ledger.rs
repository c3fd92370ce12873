//! The ledger: which samples of which epoch are free, leased or done. Every sample counts once an epoch.
//!
//! An epoch's samples stand in one order: its shards, permuted by (seed, epoch), each with its own inner order that
//! only the workers need. The ledger works on positions in that order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kindling_shared::random::permutation;
use serde::Serialize;

use super::ContributorId;

/// Positions `start..end` of an epoch's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The epoch, from 0.
    pub epoch: u32,
    /// First position.
    pub start: u32,
    /// One behind the last.
    pub end: u32,
}

impl Span {
    /// Samples in it.
    pub const fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// A part of a span that lies in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSpan {
    /// Index of the shard.
    pub shard: u32,
    /// First position in the shard's own order.
    pub start: u32,
    /// One behind the last.
    pub end: u32,
}

/// Disjoint spans of free positions.
#[derive(Clone, Debug, Default)]
struct FreeSpans(BTreeMap<u32, u32>);

impl FreeSpans {
    fn len(&self) -> u32 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Takes up to `count` positions, the lowest first.
    fn take(&mut self, count: u32) -> Vec<(u32, u32)> {
        let (mut taken, mut left) = (Vec::new(), count);
        while left > 0
            && let Some((start, end)) = self.0.pop_first()
        {
            let cut = end.min(start + left);
            taken.push((start, cut));
            left -= cut - start;
            if cut < end {
                self.0.insert(cut, end);
            }
        }
        taken
    }

    /// Puts positions back, joined with their neighbours.
    fn put(&mut self, mut start: u32, mut end: u32) {
        if let Some((&before, &before_end)) = self.0.range(..start).next_back()
            && before_end == start
        {
            self.0.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.0.remove(&end) {
            end = after_end;
        }
        self.0.insert(start, end);
    }
}

/// How far a shard is in an epoch, in samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct ShardState {
    /// Samples of the shard.
    pub samples: u32,
    /// Covered by accepted commits.
    pub done: u32,
    /// Out with workers.
    pub leased: u32,
    /// Given up, because three contributors' commits over them were refused.
    pub refused: u32,
}

/// So many different contributors must fail over a sample before it is given up.
const REFUSALS_TO_GIVE_UP: usize = 3;
/// Refused spans remembered for each open epoch; the oldest is forgotten first.
const MOST_REFUSALS: usize = 1_024;

/// A commit over these positions was refused for what it held.
struct Refused {
    start: u32,
    end: u32,
    contributor: ContributorId,
}

struct Epoch {
    /// Shard indices in this epoch's order.
    order: Vec<u32>,
    /// Position of each shard's first sample, in that order.
    offsets: Vec<u32>,
    free: FreeSpans,
    /// By shard index.
    shards: Vec<ShardState>,
    /// Samples done or given up.
    settled: u32,
    refusals: VecDeque<Refused>,
}

impl Epoch {
    fn new(seed: u64, epoch: u32, sizes: &[u32]) -> Self {
        let order = permutation(sizes.len() as u32, seed, "epoch", &[u64::from(epoch)]);
        let mut total = 0;
        let offsets = order
            .iter()
            .map(|&shard| {
                let offset = total;
                total += sizes[shard as usize];
                offset
            })
            .collect();
        let mut free = FreeSpans::default();
        free.put(0, total);
        let shards = sizes.iter().map(|&samples| ShardState { samples, ..ShardState::default() }).collect();
        Self { order, offsets, free, shards, settled: 0, refusals: VecDeque::new() }
    }

    fn shard_spans(&self, start: u32, end: u32) -> Vec<ShardSpan> {
        let (mut spans, mut at) = (Vec::new(), start);
        let mut index = self.offsets.partition_point(|&offset| offset <= start) - 1;
        while at < end {
            let (shard, offset) = (self.order[index], self.offsets[index]);
            let cut = end.min(offset + self.shards[shard as usize].samples);
            spans.push(ShardSpan { shard, start: at - offset, end: cut - offset });
            at = cut;
            index += 1;
        }
        spans
    }

    /// Remembers a refusal; returns the parts of `start..end` and whether each is to be given up.
    fn refuse(&mut self, start: u32, end: u32, contributor: ContributorId) -> Vec<(u32, u32, bool)> {
        if self.refusals.len() == MOST_REFUSALS {
            self.refusals.pop_front();
        }
        self.refusals.push_back(Refused { start, end, contributor });
        let mut cuts: Vec<u32> = self.refusals.iter().flat_map(|refused| [refused.start, refused.end]).collect();
        cuts.retain(|cut| (start..=end).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        let hopeless = |from: u32, to: u32| {
            let over = self.refusals.iter().filter(|refused| refused.start <= from && to <= refused.end);
            over.map(|refused| refused.contributor).collect::<BTreeSet<_>>().len() >= REFUSALS_TO_GIVE_UP
        };
        cuts.windows(2).map(|part| (part[0], part[1], hopeless(part[0], part[1]))).collect()
    }

    fn count(&mut self, start: u32, end: u32, change: impl Fn(&mut ShardState, u32)) {
        for span in self.shard_spans(start, end) {
            change(&mut self.shards[span.shard as usize], span.end - span.start);
        }
    }
}

/// One open epoch, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct EpochView {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Every shard, by its index.
    pub shards: Vec<ShardState>,
}

/// The ledger of a run.
pub struct Ledger {
    seed: u64,
    sizes: Vec<u32>,
    samples: u32,
    epochs: u32,
    /// The oldest open epoch; those before are closed.
    current: u32,
    open: BTreeMap<u32, Epoch>,
    trained: u64,
    refused: u64,
}

/// Epochs that may be open beside the current one, so that nobody waits for an epoch's last leases.
const EPOCHS_AHEAD: u32 = 1;

impl Ledger {
    /// All samples of `epochs` passes over shards of these sizes, free.
    pub fn new(seed: u64, sizes: Vec<u32>, epochs: u32) -> Self {
        let samples = sizes.iter().sum();
        Self { seed, sizes, samples, epochs, current: 0, open: BTreeMap::new(), trained: 0, refused: 0 }
    }

    /// Samples that accepted commits covered.
    pub const fn samples_trained(&self) -> u64 {
        self.trained
    }

    /// Samples given up: with [`Ledger::samples_trained`] exactly all samples of the closed epochs.
    pub const fn samples_refused(&self) -> u64 {
        self.refused
    }

    /// Samples out with workers.
    pub fn samples_in_flight(&self) -> u64 {
        self.open.values().map(|epoch| u64::from(self.samples - epoch.settled - epoch.free.len())).sum()
    }

    /// The oldest open epoch; `epochs` when all are closed.
    pub const fn current_epoch(&self) -> u32 {
        self.current
    }

    /// Samples that are not done in the epoch that [`Ledger::take`] takes from next; 0 when it takes nothing.
    pub fn remaining_of_next(&self) -> u32 {
        let next = self.open_epochs().find_map(|number| match self.open.get(&number) {
            None => Some(self.samples),
            Some(epoch) if epoch.free.len() > 0 => Some(self.samples - epoch.settled),
            Some(_) => None,
        });
        next.unwrap_or(0)
    }

    /// Epochs that samples may be taken from.
    fn open_epochs(&self) -> std::ops::Range<u32> {
        self.current..self.epochs.min(self.current.saturating_add(EPOCHS_AHEAD + 1))
    }

    /// True when every epoch is closed.
    pub const fn is_full(&self) -> bool {
        self.current >= self.epochs
    }

    /// Takes up to `count` free samples of the oldest epoch that has some; empty when there are none to give.
    pub fn take(&mut self, count: u32) -> Vec<Span> {
        for number in self.open_epochs() {
            let epoch = self.open.entry(number).or_insert_with(|| Epoch::new(self.seed, number, &self.sizes));
            let taken = epoch.free.take(count);
            if !taken.is_empty() {
                for &(start, end) in &taken {
                    epoch.count(start, end, |shard, samples| shard.leased += samples);
                }
                return taken.into_iter().map(|(start, end)| Span { epoch: number, start, end }).collect();
            }
        }
        Vec::new()
    }

    /// A leased span is free again.
    pub fn put_back(&mut self, span: Span) {
        if let Some(epoch) = self.open.get_mut(&span.epoch) {
            epoch.free.put(span.start, span.end);
            epoch.count(span.start, span.end, |shard, samples| shard.leased -= samples);
        }
    }

    /// A leased span is done. Returns the epochs that this closed.
    pub fn complete(&mut self, span: Span) -> Vec<u32> {
        if let Some(epoch) = self.open.get_mut(&span.epoch) {
            epoch.settled += span.len();
            self.trained += u64::from(span.len());
            epoch.count(span.start, span.end, |shard, samples| {
                shard.leased -= samples;
                shard.done += samples;
            });
        }
        self.close_settled()
    }

    /// A commit over a leased span was refused for what it held: the span is free again, but for what three different
    /// contributors have failed over, which is given up. Returns the samples given up and the epochs that this closed.
    pub fn refuse(&mut self, span: Span, contributor: ContributorId) -> (u32, Vec<u32>) {
        let Some(epoch) = self.open.get_mut(&span.epoch) else {
            return (0, Vec::new());
        };
        let mut given_up = 0;
        for (start, end, hopeless) in epoch.refuse(span.start, span.end, contributor) {
            if hopeless {
                given_up += end - start;
                epoch.count(start, end, |shard, samples| {
                    shard.leased -= samples;
                    shard.refused += samples;
                });
            } else {
                epoch.free.put(start, end);
                epoch.count(start, end, |shard, samples| shard.leased -= samples);
            }
        }
        epoch.settled += given_up;
        self.refused += u64::from(given_up);
        (given_up, self.close_settled())
    }

    /// Closes the oldest epochs whose samples are all settled.
    fn close_settled(&mut self) -> Vec<u32> {
        let mut closed = Vec::new();
        while self.open.get(&self.current).is_some_and(|epoch| epoch.settled == self.samples) {
            self.open.remove(&self.current);
            closed.push(self.current);
            self.current += 1;
        }
        closed
    }

    /// The parts of a leased span, shard by shard.
    pub fn shard_spans(&self, span: Span) -> Vec<ShardSpan> {
        self.open.get(&span.epoch).map_or_else(Vec::new, |epoch| epoch.shard_spans(span.start, span.end))
    }

    /// The current epoch, for people to look at.
    pub fn view(&self) -> EpochView {
        let shards = match self.open.get(&self.current) {
            Some(epoch) => epoch.shards.clone(),
            None => {
                let done = |samples| if self.is_full() { samples } else { 0 };
                self.sizes
                    .iter()
                    .map(|&samples| ShardState { samples, done: done(samples), ..ShardState::default() })
                    .collect()
            }
        };
        EpochView { epoch: self.current.min(self.epochs.saturating_sub(1)), shards }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_span_over_shards_is_cut_at_their_borders() {
        let mut ledger = Ledger::new(1, vec![10, 5, 7], 1);
        let spans = ledger.take(22);
        assert_eq!(spans, [Span { epoch: 0, start: 0, end: 22 }]);
        let parts = ledger.shard_spans(spans[0]);
        assert_eq!(parts.iter().map(|part| part.end - part.start).sum::<u32>(), 22);
        assert!(parts.iter().all(|part| part.start == 0));
        let middle = ledger.shard_spans(Span { epoch: 0, start: parts[0].end - 1, end: parts[0].end + 1 });
        assert_eq!(middle.len(), 2);
        assert_eq!((middle[0].end - middle[0].start, middle[1].start, middle[1].end), (1, 0, 1));
    }

    #[test]
    fn the_next_epoch_opens_while_the_last_leases_are_out_but_no_epoch_beyond() {
        let mut ledger = Ledger::new(1, vec![4], 3);
        let first = ledger.take(4);
        let second = ledger.take(4);
        assert_eq!((first[0].epoch, second[0].epoch), (0, 1));
        assert!(ledger.take(1).is_empty(), "epoch 2 must wait for epoch 0");
        assert!(ledger.complete(second[0]).is_empty());
        assert_eq!(ledger.complete(first[0]), [0, 1]);
        assert_eq!(ledger.take(9)[0], Span { epoch: 2, start: 0, end: 4 });
    }

    #[test]
    fn samples_that_three_contributors_fail_over_are_given_up_and_the_epoch_closes() {
        let mut ledger = Ledger::new(1, vec![6, 4], 1);
        let all = Span { epoch: 0, start: 0, end: 10 };
        for contributor in [1, 1, 2] {
            assert_eq!(ledger.take(10), [all]);
            assert_eq!(
                ledger.refuse(all, ContributorId([contributor; 32])),
                (0, vec![]),
                "two contributors are too few"
            );
        }
        let parts = ledger.take(7);
        assert_eq!(ledger.refuse(parts[0], ContributorId([3; 32])), (7, vec![]));
        assert_eq!((ledger.samples_refused(), ledger.samples_in_flight()), (7, 0));
        let rest = ledger.take(10);
        assert_eq!(rest, [Span { epoch: 0, start: 7, end: 10 }], "what is given up is not handed out again");
        assert_eq!(ledger.complete(rest[0]), [0]);
        assert_eq!((ledger.samples_trained(), ledger.samples_refused()), (3, 7));
    }

    proptest! {
        #[test]
        fn whatever_comes_back_every_sample_is_done_once_an_epoch(
            choices in proptest::collection::vec((1_u32..40, 0_u32..100, any::<bool>()), 1..400),
        ) {
            let mut ledger = Ledger::new(9, vec![30, 30, 13], 3);
            let mut out: Vec<Span> = Vec::new();
            let mut seen = vec![[false; 73]; 3];
            let mut finish = |ledger: &mut Ledger, span: Span| {
                for position in span.start..span.end {
                    let cell = &mut seen[span.epoch as usize][position as usize];
                    assert!(!*cell, "sample {position} of epoch {} twice", span.epoch);
                    *cell = true;
                }
                ledger.complete(span);
            };
            for (count, pick, accept) in choices {
                out.extend(ledger.take(count));
                if !out.is_empty() {
                    let span = out.swap_remove(pick as usize % out.len());
                    if accept { finish(&mut ledger, span) } else { ledger.put_back(span) }
                }
                let leased: u64 = out.iter().map(|span| u64::from(span.len())).sum();
                prop_assert_eq!(ledger.samples_in_flight(), leased);
            }
            while !ledger.is_full() {
                out.extend(ledger.take(50));
                while let Some(span) = out.pop() {
                    finish(&mut ledger, span);
                }
            }
            prop_assert_eq!(ledger.samples_trained(), 3 * 73);
            prop_assert!(seen.iter().flatten().all(|cell| *cell));
        }
    }
}
