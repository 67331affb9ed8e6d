//! Reads one object of config.json key by key, with errors that name the dotted key, what was needed and what was found.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Longest list that config.json may hold: the bound on layers of `check`, with room for the DSpark stages.
const MAX_LIST: usize = 4096;

/// One object of the file, with the keys that were not read yet.
pub(super) struct Section {
    path: String,
    rest: Map<String, Value>,
}

impl Section {
    pub(super) fn new(path: impl Into<String>, rest: Map<String, Value>) -> Self {
        Section { path: path.into(), rest }
    }

    /// Dotted path of `key`.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.rest.contains_key(key)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.rest.shift_remove(key)
    }

    fn need(&mut self, key: &str) -> Result<Value> {
        self.take(key).ok_or_else(|| Error::config(self.key(key), "missing"))
    }

    fn wrong(&self, key: &str, needed: &str, found: &Value) -> Error {
        Error::config(self.key(key), format!("needed {needed}, found {}", show(found)))
    }

    pub(super) fn ignore(&mut self, keys: &[&str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// An absent key is fine; a present one must hold one of `allowed`.
    pub(super) fn is<T: Clone + Into<Value>>(&mut self, key: &str, allowed: &[T]) -> Result<()> {
        let Some(found) = self.take(key) else { return Ok(()) };
        let allowed: Vec<Value> = allowed.iter().cloned().map(Into::into).collect();
        if allowed.contains(&found) {
            return Ok(());
        }
        let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        Err(self.wrong(key, &names.join(" or "), &found))
    }

    pub(super) fn must_be(&mut self, key: &str, needed: &str) -> Result<()> {
        if !self.has(key) {
            return Err(Error::config(self.key(key), format!("missing, needed {needed}")));
        }
        self.is(key, &[needed])
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Section> {
        match self.need(key)? {
            Value::Object(map) => Ok(Section::new(self.key(key), map)),
            other => Err(self.wrong(key, "an object", &other)),
        }
    }

    pub(super) fn optional_section(&mut self, key: &str) -> Result<Option<Section>> {
        match self.rest.get(key) {
            None => Ok(None),
            Some(Value::Null) => {
                self.take(key);
                Ok(None)
            }
            Some(_) => self.section(key).map(Some),
        }
    }

    pub(super) fn u64(&mut self, key: &str) -> Result<u64> {
        let value = self.need(key)?;
        value.as_u64().ok_or_else(|| self.wrong(key, "a non-negative integer", &value))
    }

    fn integer<T: TryFrom<u64>>(&mut self, key: &str) -> Result<T> {
        let value = self.u64(key)?;
        T::try_from(value).map_err(|_| Error::config(self.key(key), format!("too large: found {value}")))
    }

    pub(super) fn usize(&mut self, key: &str) -> Result<usize> {
        self.integer(key)
    }

    pub(super) fn u32(&mut self, key: &str) -> Result<u32> {
        self.integer(key)
    }

    pub(super) fn or_default<T: TryFrom<u64>>(&mut self, key: &str, default: T) -> Result<T> {
        if self.has(key) { self.integer(key) } else { Ok(default) }
    }

    pub(super) fn f64(&mut self, key: &str) -> Result<f64> {
        let value = self.need(key)?;
        value.as_f64().filter(|x| x.is_finite()).ok_or_else(|| self.wrong(key, "a number", &value))
    }

    pub(super) fn f32(&mut self, key: &str) -> Result<f32> {
        let value = self.f64(key)? as f32;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::config(self.key(key), "larger than a 32-bit float holds"))
        }
    }

    pub(super) fn optional_f64(&mut self, key: &str) -> Result<Option<f64>> {
        match self.rest.get(key) {
            None => Ok(None),
            Some(Value::Null) => {
                self.take(key);
                Ok(None)
            }
            Some(_) => self.f64(key).map(Some),
        }
    }

    pub(super) fn list<T: TryFrom<u64>>(&mut self, key: &str) -> Result<Vec<T>> {
        let values = match self.need(key)? {
            Value::Array(values) => values,
            other => return Err(self.wrong(key, "a list of integers", &other)),
        };
        if values.len() > MAX_LIST {
            return Err(Error::config(
                self.key(key),
                format!("needed at most {MAX_LIST} entries, found {}", values.len()),
            ));
        }
        let entry = |value: &Value| value.as_u64().and_then(|x| T::try_from(x).ok());
        values.iter().map(|value| entry(value).ok_or_else(|| self.wrong(key, "non-negative integers", value))).collect()
    }

    /// Moves what nobody asked for to `unknown`.
    pub(super) fn finish(self, unknown: &mut Vec<(String, Value)>) {
        let Section { path, rest } = self;
        for (key, value) in rest {
            unknown.push((if path.is_empty() { key } else { format!("{path}.{key}") }, value));
        }
    }
}

/// What a JSON value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value for an error message: small ones as they are, others by kind.
fn show(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_string(),
        Value::String(text) if text.chars().count() > 60 => "a long string".to_string(),
        small => small.to_string(),
    }
}
