//! A draft model with another tokenizer: it reads and writes tokens of its own, and someone translates.

use crate::error::Result;

/// Between the tokens of a target and those of a draft model with another tokenizer. A translation is a guess like any
/// draft: a bad one costs speed, never exactness.
pub trait Translate {
    /// The draft model's tokens for a text of target tokens; none while it cannot tell, as inside a character. A text that
    /// goes on after an earlier one costs what is new.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>>;

    /// The target's tokens for what the draft model wrote behind the text that [`Translate::for_draft`] was given last.
    ///
    /// # Errors
    /// [`crate::Error::BadTokenizer`].
    fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>>;
}

/// The text as the draft model has it.
pub(crate) struct Translation {
    pub by: Box<dyn Translate>,
    /// Tokens whose keys and values the draft model has cached.
    pub cached: Vec<u32>,
}

impl Translation {
    /// The draft model's tokens for the cached ones and the pending one, and how many of them it has cached. Inside a character
    /// there are none, and the draft model keeps what it has cached.
    pub fn text(&mut self, cached: &[u32], pending: u32) -> Result<(Vec<u32>, usize)> {
        let text = self.by.for_draft(&[cached, &[pending]].concat())?;
        let Some((_, head)) = text.split_last() else { return Ok((text, 0)) };
        let reused = head.iter().zip(&self.cached).take_while(|(token, cached)| token == cached).count();
        self.cached.truncate(reused);
        Ok((text, reused))
    }

    /// What the draft model wrote after the text that [`Translation::text`] gave, in tokens of the target. It has read all but its own
    /// last token.
    pub fn take(&mut self, text: Vec<u32>, mut drafted: Vec<u32>) -> Result<Vec<u32>> {
        if drafted.is_empty() {
            return Ok(drafted);
        }
        let draft = self.by.for_target(&drafted)?;
        drafted.pop();
        self.cached = text;
        self.cached.extend(drafted);
        Ok(draft)
    }
}

/// The next chunk that a draft model reads of what it missed of the cached tokens, and from where: empty where it can read the rest in
/// a round, and where there is no room for a draft anyway. Of `cached` it has read `read` tokens, unless a translation says what its
/// text is. `most` tokens are read at once, `in_round` in a round, `room` is the length of its longest text.
pub(crate) fn missed(
    translation: &mut Option<Translation>,
    (cached, read): (&[u32], usize),
    pending: u32,
    [most, in_round, room]: [usize; 3],
) -> Result<(usize, Vec<u32>)> {
    let translated;
    let (text, read) = match translation {
        None => (cached, read),
        Some(translation) => {
            translated = translation.text(cached, pending)?;
            (&translated.0[..translated.0.len().saturating_sub(1)], translated.1)
        }
    };
    let count = if text.len() >= room { 0 } else { text.len().saturating_sub(read + in_round).min(most) };
    Ok((read, text[read..][..count].to_vec()))
}
