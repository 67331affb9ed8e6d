//! The places one picture takes in the prompt (section 1.4).

use super::Plan;

/// What a position of the prompt is. All image positions carry the same token id; this is what tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum TokenType {
    /// A text token.
    Text = -1,
    /// Before the first row: the learned vector `image_start`.
    Start = 0,
    /// One cell of the token grid: a row of the aligner's output.
    Image = 1,
    /// After each row: the learned vector `image_newline`.
    NewLine = 2,
    /// After the last row: the learned vector `image_end`.
    End = 3,
}

impl TokenType {
    /// Whether the position belongs to a picture, START, NEW_LINE and END included. Such positions have no n-gram
    /// memory and take the router's `bias_vl`.
    pub fn is_image(self) -> bool {
        self != TokenType::Text
    }

    /// The number used in type lists: -1 to 3.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Inverse of [`TokenType::code`]; `None` for any other number.
    pub fn from_code(code: i32) -> Option<Self> {
        match code {
            -1 => Some(TokenType::Text),
            0 => Some(TokenType::Start),
            1 => Some(TokenType::Image),
            2 => Some(TokenType::NewLine),
            3 => Some(TokenType::End),
            _ => None,
        }
    }
}

/// Types of all positions of one picture, in prompt order: START, then per token row `token_cols` times IMAGE and one
/// NEW_LINE, then END; `plan.tokens` entries.
pub fn token_types(plan: &Plan) -> Vec<TokenType> {
    let mut types = Vec::with_capacity(plan.tokens);
    types.push(TokenType::Start);
    for _ in 0..plan.token_rows {
        types.extend(std::iter::repeat_n(TokenType::Image, plan.token_cols));
        types.push(TokenType::NewLine);
    }
    types.push(TokenType::End);
    types
}
