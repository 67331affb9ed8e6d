//! The tokenizer: ids, their bytes, and text to ids.

use std::collections::HashMap;

use super::added::{Piece, Spellings};
use super::bpe::Bpe;
use super::file::{AddedToken, File, MAX_VOCAB, Merge, needed_found};
use super::split::for_each_word;
use crate::Result;

/// Byte-level BPE with the released pre-tokenizer (section 12.1).
///
/// Ids are dense: 0 to [`vocab_size`](Tokenizer::vocab_size) exclusive. No merge makes an added token, so
/// [`encode_plain`](Tokenizer::encode_plain) cannot return one, whatever the text; files where it could are refused.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    tokens: Vec<Token>,
    bpe: Bpe,
    /// Added tokens that are matched before the others (`normalized: false`).
    added_first: Spellings,
    /// Added tokens that are matched in what the first ones leave (`normalized: true`).
    added_then: Spellings,
}

#[derive(Debug, Clone)]
struct Token {
    bytes: Box<[u8]>,
    added: bool,
}

impl Tokenizer {
    /// Reads a tokenizer.json.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`](crate::Error::Tokenizer), with what was needed and found, if the file is not JSON, describes anything but
    /// byte-level BPE with the three splits of section 12.1 and no normaliser, or contradicts itself: ids used twice,
    /// left out or absurdly large, merges of unknown tokens, bytes without a token.
    pub fn from_json(bytes: &[u8]) -> Result<Tokenizer> {
        let file = File::parse(bytes)?;
        let added = file.added_tokens.unwrap_or_default();
        let vocab = &file.model.vocab.0;
        let tokens = token_table(vocab, &added)?;
        let bpe = merge_table(vocab, &file.model.merges, &tokens)?;
        let (mut added_first, mut added_then) = (Spellings::default(), Spellings::default());
        for token in &added {
            let set = if token.normalized { &mut added_then } else { &mut added_first };
            set.add(&token.content, token.id as u32); // token_table saw that ids are small
        }
        Ok(Tokenizer { tokens, bpe, added_first, added_then })
    }

    /// Number of ids, added tokens included (129,280 in the release).
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// Bytes that token `id` stands for: often not whole characters. Of an added token, its spelling in UTF-8. `None`
    /// if there is no such id.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        Some(&self.tokens.get(id as usize)?.bytes)
    }

    /// Whether `id` is an added token: a control token or a place-holder, never the product of ordinary text. The
    /// file's own `special` flag is no guide to what is control: `<｜System｜>` has it off (pitfall P-19).
    pub fn is_added(&self, id: u32) -> bool {
        self.tokens.get(id as usize).is_some_and(|token| token.added)
    }

    /// Id of the added token spelled exactly `content`.
    pub fn id_of(&self, content: &str) -> Option<u32> {
        self.added_first.get(content).or_else(|| self.added_then.get(content))
    }

    /// Ids of `text`, with spellings of added tokens taken as those tokens, as Hugging Face's `tokenizers` does. For
    /// trusted text only: use [`encode_plain`](Tokenizer::encode_plain) for what a user wrote.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.added_first.split(text, |piece| match piece {
            Piece::Added(id) => ids.push(id),
            Piece::Text(text) => self.added_then.split(text, |piece| match piece {
                Piece::Added(id) => ids.push(id),
                Piece::Text(text) => self.append_plain(text, &mut ids),
            }),
        });
        ids
    }

    /// Ids of `text` as ordinary text: a control token's spelling becomes the tokens of its characters, so that a user
    /// cannot forge a turn, an end of thinking or a picture (section 12.3 rule 8, pitfall P-20).
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.append_plain(text, &mut ids);
        ids
    }

    /// Text of `ids`, bytes that are not UTF-8 replaced as by [`String::from_utf8_lossy`]. Ids beyond the vocabulary
    /// add nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| self.token_bytes(id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn append_plain(&self, text: &str, ids: &mut Vec<u32>) {
        for_each_word(text, |word| self.bpe.encode_word(word.as_bytes(), ids));
    }
}

/// All tokens by id. Entries of `vocab` and added tokens may name the same token, with the same id and spelling.
fn token_table(vocab: &[(String, u64)], added: &[AddedToken]) -> Result<Vec<Token>> {
    let mut id_of_added = HashMap::new();
    for token in added {
        if id_of_added.insert(token.content.as_str(), token.id).is_some() {
            return Err(needed_found("added_tokens", "each spelling once", &format!("{:?} twice", token.content)));
        }
    }
    let mut tokens = Vec::new();
    for token in added {
        let entry = Token { bytes: token.content.as_bytes().into(), added: true };
        insert_token(&mut tokens, token.id, &token.content, entry)?;
    }
    let alphabet = byte_alphabet();
    let byte_of: HashMap<char, u8> = alphabet.iter().zip(0..=255u8).map(|(&c, byte)| (c, byte)).collect();
    for (spelling, id) in vocab {
        if let Some(added_id) = id_of_added.get(spelling.as_str()) {
            if added_id != id {
                let found = format!("{id} in model.vocab and {added_id} in added_tokens");
                return Err(needed_found(&format!("token {spelling:?}"), "one id", &found));
            }
            continue;
        }
        let bytes: Option<Box<[u8]>> = spelling.chars().map(|c| byte_of.get(&c).copied()).collect();
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return Err(needed_found("model.vocab", "spellings in the byte-level alphabet", &format!("{spelling:?}")));
        };
        insert_token(&mut tokens, *id, spelling, Token { bytes, added: false })?;
    }
    let last = tokens.len().saturating_sub(1);
    let gap = |id| needed_found("ids", &format!("all of 0 to {last}"), &format!("no token {id}"));
    tokens.into_iter().enumerate().map(|(id, token)| token.ok_or_else(|| gap(id))).collect()
}

/// Puts `token` in its place in the table, which grows up to it.
fn insert_token(tokens: &mut Vec<Option<Token>>, id: u64, spelling: &str, token: Token) -> Result<()> {
    if id >= MAX_VOCAB {
        return Err(needed_found(&format!("token {spelling:?}"), &format!("an id below {MAX_VOCAB}"), &id.to_string()));
    }
    let place = id as usize;
    if place >= tokens.len() {
        tokens.resize(place + 1, None);
    }
    match tokens[place].replace(token) {
        None => Ok(()),
        Some(other) => {
            let other = String::from_utf8_lossy(&other.bytes);
            Err(needed_found(&format!("id {id}"), "one token", &format!("{spelling:?} and {other:?}")))
        }
    }
}

/// The merges by id, in file order.
fn merge_table(vocab: &[(String, u64)], merges: &[Merge], tokens: &[Token]) -> Result<Bpe> {
    let mut ids: HashMap<&str, u32> = HashMap::with_capacity(vocab.len());
    for (spelling, id) in vocab {
        if ids.insert(spelling, *id as u32).is_some() {
            return Err(needed_found("model.vocab", "each spelling once", &format!("{spelling:?} twice")));
        }
    }
    // The tokens that text can turn into: in the vocabulary, and not added.
    let plain_id = |spelling: &str, place: &dyn Fn() -> String| match ids.get(spelling) {
        Some(&id) if !tokens[id as usize].added => Ok(id),
        Some(_) => Err(needed_found(&place(), "ordinary tokens", &format!("the added token {spelling:?}"))),
        None => Err(needed_found(&place(), "tokens of model.vocab", &format!("{spelling:?}"))),
    };
    let mut byte_ids = [0; 256];
    for (byte, symbol) in byte_alphabet().into_iter().enumerate() {
        byte_ids[byte] = plain_id(symbol.encode_utf8(&mut [0; 4]), &|| format!("model.vocab, byte {byte:#04x}"))?;
    }
    let mut bpe = Bpe::new(byte_ids);
    for (rank, merge) in merges.iter().enumerate() {
        let place = || format!("model.merges, entry {rank}");
        let Some((left, right)) = merge.halves() else {
            return Err(needed_found(&place(), "two tokens with one space between", "another number of spaces"));
        };
        let merged = plain_id(&format!("{left}{right}"), &place)?;
        if !bpe.add_merge(plain_id(left, &place)?, plain_id(right, &place)?, merged) {
            return Err(needed_found(&place(), "each pair once", &format!("{left:?} {right:?} again")));
        }
    }
    Ok(bpe)
}

/// The byte-level alphabet: the character that stands for each byte in tokenizer.json. Bytes that print in Latin-1
/// stand for themselves, the other 68 take the characters from U+0100 on, in order.
fn byte_alphabet() -> [char; 256] {
    let mut next = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        byte @ (b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) => char::from(byte),
        _ => next.next().unwrap_or(char::REPLACEMENT_CHARACTER), // the range does not end
    })
}
