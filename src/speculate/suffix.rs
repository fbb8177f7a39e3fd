//! Suffix lookup (SuffixDecoding, arXiv 2411.04975): drafting from what followed the last tokens in this text and in earlier ones.

use super::ngram::keys;
use super::{Drafter, Origin, Round};
use crate::target::{Draft, MAX_DRAFT};
use std::cell::RefCell;
use std::mem::replace;
use std::rc::Rc;

/// Number of indexed n-gram lengths: 2, 4, 8 and 16 tokens.
const LEVELS: usize = 4;
/// Longest indexed n-gram.
const LONGEST: usize = length(LEVELS - 1);
/// Maximum number of places whose continuations vote: the latest ones.
const VOTERS: usize = 16;
/// Maximum number of places that are compared with the last tokens, because different n-grams may share a bucket.
const COMPARED: usize = 4 * VOTERS;
/// A draft ends before the token with which it is fully accepted with a lower probability than this.
const LEAST_CONFIDENCE: f64 = 0.35;
/// Least length of a shared beginning that is not stored again.
const LEAST_SHARED: usize = 2 * LONGEST;
/// Separator of texts in the log. It is no token.
const BOUNDARY: u32 = u32::MAX;
/// Tokens for which a log first allocates memory.
const INITIAL: usize = 1024;

/// Returns the tokens of an n-gram of this level.
const fn length(level: usize) -> usize {
    2 << level
}

/// Bounded log of the texts that a session has read and generated, in this order, with an index of their n-grams. It is in memory only.
///
/// New tokens overwrite the oldest ones. Each token has the previous places with the same n-grams, so a new one takes constant time. The log
/// grows up to 65,536 tokens of 40 bytes.
pub struct TokenLog {
    limit: usize,
    /// Tokens by position, modulo its length, which is a power of two or 0.
    ring: Vec<LoggedToken>,
    /// Position of the latest n-gram of each level, by hash; 0: none. Positions are those of an n-gram's last token.
    latest: Vec<[u32; LEVELS]>,
    /// The newest text.
    newest: Vec<u32>,
    /// Position of its first token. If it shares its beginning with the text before, its end is stored after that one.
    root: usize,
    /// Position of the oldest token that counts.
    oldest: usize,
    /// Position of the next token.
    end: usize,
}

#[derive(Clone, Copy, Default)]
struct LoggedToken {
    token: u32,
    /// Position of the n-gram before in the bucket of the n-gram that ends with this token, by level; 0: none.
    before: [u32; LEVELS],
}

impl TokenLog {
    /// Creates a log of at most `limit` tokens in addition to the newest text. 0: of the newest text only.
    pub fn new(limit: usize) -> Self {
        let (ring, latest, newest) = (Vec::new(), Vec::new(), Vec::new());
        Self { limit, ring, latest, newest, root: 0, oldest: 0, end: 0 }
    }

    /// Stores a text that has ended, unless the log is for one text only.
    pub fn remember(&mut self, text: &[u32]) {
        if self.limit > 0 {
            self.turn_to(text);
        }
    }

    /// Makes `text` the newest text. The beginning that it shares with the text before is not stored again.
    pub fn turn_to(&mut self, text: &[u32]) {
        let mut shared = self.newest.iter().zip(text).take_while(|(one, other)| one == other).count();
        if shared < self.newest.len() || self.end == 0 {
            if self.limit == 0 || self.end > u32::MAX as usize / 2 {
                *self = Self::new(self.limit);
            }
            // The last shared token has another continuation now, so it is stored and indexed again.
            shared = shared.saturating_sub(1);
            if shared < LEAST_SHARED
                || self.end == 0
                || self.end - self.root + LONGEST + 1 + text.len() - shared > self.limit
            {
                (shared, self.root) = (0, self.end);
            }
            self.newest.truncate(shared);
            self.push(BOUNDARY);
            // The context of the first new tokens.
            for at in shared.saturating_sub(LONGEST)..shared {
                self.push(self.newest[at]);
            }
        }
        self.extend(text);
    }

    /// Adds the tokens by which `text` is longer than the newest text, its beginning.
    pub fn extend(&mut self, text: &[u32]) {
        for &token in text.get(self.newest.len()..).unwrap_or_default() {
            let position = self.push(token);
            self.newest.push(token);
            for (level, key) in levels(&self.newest) {
                let bucket = self.slot(key as usize);
                let before = replace(&mut self.latest[bucket][level], position as u32);
                let slot = self.slot(position);
                self.ring[slot].before[level] = before;
            }
        }
    }

    /// Returns the most likely tokens to follow the newest text: at most `most`, and none of `ends`.
    pub fn propose(&self, most: usize, ends: &[u32]) -> Vec<u32> {
        let levels: Vec<_> = levels(&self.newest).collect();
        let drafts = levels.into_iter().rev().map(|(level, key)| {
            let places = self.places(level, key);
            self.vote(&places, length(level), most, ends)
        });
        // If two expect as much, the first one: that of the longer n-gram.
        drafts.reduce(|a, b| if b.0 > a.0 { b } else { a }).map_or(Vec::new(), |(_, draft)| draft)
    }

    /// Returns the positions after the latest n-grams that equal the end of the newest text, the latest first.
    fn places(&self, level: usize, key: u64) -> Vec<usize> {
        let (n, mut places) = (length(level), Vec::new());
        let mut last = self.latest[self.slot(key as usize)][level] as usize;
        for _ in 0..COMPARED {
            if last == 0 || last + 1 < self.oldest + n || places.len() == VOTERS {
                break;
            }
            let is_earlier = last + 1 < self.end;
            if is_earlier && self.newest.iter().rev().take(n).enumerate().all(|(i, id)| self.token(last - i) == *id) {
                places.push(last + 1);
            }
            last = self.ring[self.slot(last)].before[level] as usize;
        }
        places
    }

    /// Returns the continuation that most of the `places` after an n-gram of `n` tokens agree on, and the number of its tokens that are
    /// expected to be accepted.
    ///
    /// Each token takes the places that have it. Its probability is their share, with one more opponent of weight `1 / matched`: so it
    /// grows with the matched tokens and with the places. A single place gives `n / (n + k)` for all of `k` tokens.
    fn vote(&self, places: &[usize], n: usize, most: usize, ends: &[u32]) -> (f64, Vec<u32>) {
        let (mut places, mut next) = (places.to_vec(), Vec::new());
        let (mut confidence, mut expected, mut draft) = (1.0, 0.0, Vec::new());
        while draft.len() < most && !places.is_empty() {
            next.clear();
            next.extend(places.iter().map(|place| match place + draft.len() {
                at if at < self.end => self.token(at),
                // A repetition that the draft itself continues.
                at => draft[at - self.end],
            }));
            let count = |token: u32| next.iter().filter(|id| **id == token).count();
            // Of several with as many votes, the latest one.
            let Some(token) = next.iter().copied().rev().max_by_key(|&token| count(token)) else { break };
            confidence *= count(token) as f64 / (places.len() as f64 + 1.0 / (n + draft.len()) as f64);
            if confidence < LEAST_CONFIDENCE || token == BOUNDARY || ends.contains(&token) {
                break;
            }
            let mut tokens = next.iter();
            places.retain(|_| tokens.next() == Some(&token));
            expected += confidence;
            draft.push(token);
        }
        (expected, draft)
    }

    /// Appends a token without indexing it. Returns its position.
    fn push(&mut self, token: u32) -> usize {
        self.oldest = self.oldest.max(self.root.min((self.end + 1).saturating_sub(self.limit)));
        if self.end - self.oldest == self.ring.len() {
            self.grow();
        }
        let slot = self.slot(self.end);
        self.ring[slot] = LoggedToken { token, ..LoggedToken::default() };
        self.end += 1;
        self.end - 1
    }

    /// Doubles the ring. N-grams of a bucket are then in two buckets, and [`Self::places`] ignores those that differ.
    fn grow(&mut self) {
        let mut ring = vec![LoggedToken::default(); INITIAL.max(2 * self.ring.len())];
        for at in self.oldest..self.end {
            let slot = at & (ring.len() - 1);
            ring[slot] = self.ring[self.slot(at)];
        }
        self.latest.extend_from_within(..);
        self.latest.resize(ring.len(), [0; LEVELS]);
        self.ring = ring;
    }

    fn slot(&self, position: usize) -> usize {
        position & (self.ring.len() - 1)
    }

    fn token(&self, position: usize) -> u32 {
        self.ring[self.slot(position)].token
    }
}

/// Returns the levels and keys of the n-grams at the end of a text, the shortest first.
fn levels(text: &[u32]) -> impl Iterator<Item = (usize, u64)> {
    keys(text, LONGEST).zip(1usize..).filter(|(_, n)| *n > 1 && n.is_power_of_two()).map(|(key, _)| key).enumerate()
}

/// Drafter that proposes the most frequent continuation of the last tokens in the text so far and in the texts of a [`TokenLog`]. Long
/// matches and many places that agree give long drafts. The time of a round does not depend on the length of the texts.
pub struct SuffixLookup {
    log: Rc<RefCell<TokenLog>>,
    num_tokens: usize,
    ends: Vec<u32>,
    /// True after the first draft, which made the text the newest of the log.
    began: bool,
}

impl SuffixLookup {
    /// Creates a lookup of up to `num_tokens` tokens at a time for one text; fewer before any of `ends`.
    pub fn new(log: Rc<RefCell<TokenLog>>, num_tokens: usize, ends: &[u32]) -> Self {
        Self { log, num_tokens, ends: ends.to_vec(), began: false }
    }
}

impl Drafter for SuffixLookup {
    fn draft(&mut self, tokens: &[u32], room: usize) -> Draft {
        let mut log = self.log.borrow_mut();
        if replace(&mut self.began, true) {
            log.extend(tokens);
        } else {
            log.turn_to(tokens);
        }
        let most = if room == 1 { 0 } else { self.num_tokens.min(MAX_DRAFT) };
        Draft::Tokens(log.propose(most, &self.ends))
    }

    fn learn(&mut self, _round: &Round) {}

    fn origin(&self) -> Origin {
        Origin::Suffix
    }
}
