//! Options that several commands share.

use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::lab::lang::Lang;
use crate::numerics::precision::Precision;
use clap::ValueEnum;

/// [`Precision`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Rounding {
    /// 32-bit floats throughout.
    F32,
    /// The roundings of the released model.
    Released,
}

impl From<Rounding> for Precision {
    fn from(rounding: Rounding) -> Precision {
        match rounding {
            Rounding::F32 => Precision::F32,
            Rounding::Released => Precision::Released,
        }
    }
}

/// `--lang`.
pub(super) fn lang(code: &str) -> Result<Lang, String> {
    Lang::from_code(code).ok_or_else(|| "needed vi or en".into())
}

/// A share in percent, more than nothing.
pub(super) fn percent(value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("needed a number above 0, at most 100".into()),
    }
}

/// `--decoder-tail`.
pub(super) fn decoder_tail(value: &str) -> Result<DecoderTail, String> {
    match value.parse::<usize>() {
        _ if value == "all" => Ok(DecoderTail::All),
        Ok(rows) if rows > 0 => Ok(DecoderTail::Last(rows)),
        _ => Err("needed `all` or a number of rows, at least 1".into()),
    }
}

/// A probability.
pub(super) fn share(value: &str) -> Result<f32, String> {
    value.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "needed a number from 0 to 1".into())
}
