//! What is asked of a model. As JSON it is the body of OpenAI's chat completions; every complaint begins with the field that it is about.

use super::data_url;
use crate::generate::Sampling;
use crate::text::prompt::Role;
use crate::{Error, Result};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most stop strings.
const MOST_STOPS: usize = 16;
/// Most tokens that are named beside a chosen one, as with OpenAI.
const MOST_TOP: u64 = 20;
/// Fields that say nothing about the answer, and are for other parts of a client or a server.
const IGNORED: [&str; 6] = ["model", "stream", "stream_options", "user", "store", "metadata"];

/// A conversation that wants an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The turns so far. Without any, the answer goes on where the conversation stands, at whatever was read or written last.
    pub turns: Vec<Turn>,
    /// How tokens are chosen; greedily if the request says nothing.
    pub sampling: Sampling,
    /// Most tokens of the answer; as many as the model has positions for if there is none.
    pub max_tokens: Option<usize>,
    /// Texts before which the answer ends.
    pub stop: Vec<String>,
    /// Whether to say how probable tokens were, and how many others to name beside each.
    pub logprobs: Option<usize>,
    /// Whether the model may draft, if it can; the tokens are the same.
    pub dspark: bool,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The file of a picture: PNG, JPEG or WebP.
    Picture(Arc<[u8]>),
}

impl Turn {
    /// A turn of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Turn { role, parts: vec![Part::Text(text.into())] }
    }

    /// A turn as a member of `messages`.
    ///
    /// # Errors
    /// [`Error::Usage`] that begins with the field; `field` is the turn's own.
    pub fn from_json(message: &Value, field: &str) -> Result<Turn> {
        let object = object(message, field)?;
        known(object, &["role", "content", "name", "refusal"], field)?;
        let role = match object.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => return Err(needed(&format!("{field}.role"), "system, user or assistant", object.get("role"))),
        };
        let field = format!("{field}.content");
        let parts = match object.get("content") {
            Some(Value::String(text)) => vec![Part::Text(text.clone())],
            Some(Value::Array(parts)) => {
                let part = |(at, value)| part(value, &format!("{field}[{at}]"));
                parts.iter().enumerate().map(part).collect::<Result<_>>()?
            }
            other => return Err(needed(&field, "a text or a list of parts", other)),
        };
        if role != Role::User && parts.iter().any(|part| matches!(part, Part::Picture(_))) {
            return Err(Error::Usage(format!("{field}: a picture stands in a user's message only")));
        }
        Ok(Turn { role, parts })
    }

    /// The turn as a member of `messages`.
    pub fn to_json(&self) -> Value {
        let role = match self.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let part = |part: &Part| match part {
            Part::Text(text) => json!({ "type": "text", "text": text }),
            Part::Picture(bytes) => json!({ "type": "image_url", "image_url": { "url": data_url::encode(bytes) } }),
        };
        let content = match self.parts.as_slice() {
            [Part::Text(text)] => text.clone().into(),
            parts => Value::Array(parts.iter().map(part).collect()),
        };
        json!({ "role": role, "content": content })
    }
}

impl Request {
    /// A greedy request without limits.
    pub fn greedy(turns: Vec<Turn>) -> Request {
        Request { turns, sampling: Sampling::GREEDY, max_tokens: None, stop: Vec::new(), logprobs: None, dspark: true }
    }

    /// Reads the JSON body of a request.
    ///
    /// # Errors
    /// [`Error::Usage`] that begins with the field that is wrong; a field that nobody knows is wrong, too.
    pub fn from_json(text: &str) -> Result<Request> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| Error::Usage(format!("the request: not JSON: {error}")))?;
        let object = object(&document, "the request")?;
        let answered = ["messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"];
        let rest = ["logprobs", "top_logprobs", "n", "frequency_penalty", "presence_penalty", "continue", "dspark"];
        known(object, &[&answered[..], &rest, &IGNORED].concat(), "")?;
        let set = |name: &str| object.get(name).filter(|value| !value.is_null());
        for (name, only) in [("n", 1.0), ("frequency_penalty", 0.0), ("presence_penalty", 0.0)] {
            if set(name).is_some_and(|value| value.as_f64() != Some(only)) {
                return Err(needed(name, &format!("{only}, there is nothing else here"), set(name)));
            }
        }
        let goes_on = flag("continue", set("continue"), false)?;
        let turns = match object.get("messages") {
            None if goes_on => Vec::new(),
            Some(_) if goes_on => return Err(Error::Usage("continue: needed no messages beside it".into())),
            Some(Value::Array(messages)) if !messages.is_empty() => {
                let turn = |(at, message)| Turn::from_json(message, &format!("messages[{at}]"));
                messages.iter().enumerate().map(turn).collect::<Result<_>>()?
            }
            other => return Err(needed("messages", "a list of at least one message", other)),
        };
        let max_tokens = match (set("max_tokens"), set("max_completion_tokens")) {
            (Some(value), _) => Some(at_least_one("max_tokens", value)?),
            (None, Some(value)) => Some(at_least_one("max_completion_tokens", value)?),
            (None, None) => None,
        };
        let logprobs = logprobs(set("logprobs"), set("top_logprobs"))?;
        let dspark = flag("dspark", set("dspark"), true)?;
        Ok(Request { turns, sampling: sampling(&set)?, max_tokens, stop: stop(set("stop"))?, logprobs, dspark })
    }
}

fn sampling<'a>(set: &impl Fn(&str) -> Option<&'a Value>) -> Result<Sampling> {
    let number = |name: &str, default: f64, what: &str, good: fn(f64) -> bool| match set(name) {
        None => Ok(default),
        Some(value) => value.as_f64().filter(|&value| good(value)).ok_or_else(|| needed(name, what, Some(value))),
    };
    let temperature = number("temperature", 0.0, "a number from 0 to 2", |value| (0.0..=2.0).contains(&value))?;
    let top_p = number("top_p", 1.0, "a number above 0, at most 1", |value| value > 0.0 && value <= 1.0)?;
    let seed = match set("seed") {
        None => 0,
        // A negative seed is as good as any.
        Some(value) => value
            .as_u64()
            .or_else(|| value.as_i64().map(|seed| seed as u64))
            .ok_or_else(|| needed("seed", "a whole number", Some(value)))?,
    };
    Ok(Sampling { temperature, top_p, seed })
}

fn stop(value: Option<&Value>) -> Result<Vec<String>> {
    let stops = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(stops)) => stops.iter().collect(),
        Some(one) => vec![one],
    };
    if stops.len() > MOST_STOPS {
        return Err(Error::Usage(format!("stop: needed at most {MOST_STOPS} texts, found {}", stops.len())));
    }
    let text = |(at, stop): (usize, &Value)| match stop.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_string()),
        _ => Err(needed(&format!("stop[{at}]"), "a text of at least one character", Some(stop))),
    };
    stops.into_iter().enumerate().map(text).collect()
}

fn flag(name: &str, value: Option<&Value>, default: bool) -> Result<bool> {
    let Some(value) = value else { return Ok(default) };
    value.as_bool().ok_or_else(|| needed(name, "true or false", Some(value)))
}

fn logprobs(asked: Option<&Value>, top: Option<&Value>) -> Result<Option<usize>> {
    let asked = flag("logprobs", asked, false)?;
    match top {
        None => Ok(asked.then_some(0)),
        Some(_) if !asked => Err(Error::Usage("top_logprobs: needed logprobs: true beside it".into())),
        Some(value) => match value.as_u64() {
            Some(top) if top <= MOST_TOP => Ok(Some(top as usize)),
            _ => Err(needed("top_logprobs", &format!("a whole number from 0 to {MOST_TOP}"), Some(value))),
        },
    }
}

fn part(value: &Value, field: &str) -> Result<Part> {
    let object = object(value, field)?;
    match object.get("type").and_then(Value::as_str) {
        Some("text") => match object.get("text") {
            Some(Value::String(text)) => Ok(Part::Text(text.clone())),
            other => Err(needed(&format!("{field}.text"), "a text", other)),
        },
        Some("image_url") => {
            let field = format!("{field}.image_url");
            let image = object.get("image_url");
            match image.and_then(|image| image.get("url")) {
                Some(Value::String(url)) => Ok(Part::Picture(data_url::decode(url, &format!("{field}.url"))?.into())),
                _ => Err(needed(&format!("{field}.url"), "the address of a picture", image)),
            }
        }
        _ => Err(needed(&format!("{field}.type"), "text or image_url", object.get("type"))),
    }
}

fn at_least_one(name: &str, value: &Value) -> Result<usize> {
    let count = value.as_u64().filter(|&count| count > 0).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| needed(name, "a whole number of at least 1", Some(value)))
}

fn object<'a>(value: &'a Value, field: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| needed(field, "an object", Some(value)))
}

/// Refuses names that are none: a misspelt field would change nothing, and nobody would know.
fn known(object: &Map<String, Value>, names: &[&str], field: &str) -> Result<()> {
    match object.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if field.is_empty() => Err(Error::Usage(format!("{name}: this field is not supported"))),
        Some(name) => Err(Error::Usage(format!("{field}.{name}: this field is not supported"))),
    }
}

/// What was needed in a field, and what is there.
fn needed(field: &str, what: &str, found: Option<&Value>) -> Error {
    let found = match found {
        None => "nothing".into(),
        Some(Value::Array(list)) => format!("a list of {}", list.len()),
        Some(Value::Object(_)) => "an object".into(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() > 40 { text.chars().take(40).chain(['…']).collect() } else { text }
        }
    };
    Error::Usage(format!("{field}: needed {what}, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: Value) -> String {
        let error = Request::from_json(&body.to_string()).unwrap_err();
        assert_eq!(error.kind(), "usage");
        error.to_string()
    }

    #[test]
    fn a_whole_request() {
        let body = json!({
            "model": "nano", "stream": true, "temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "stop": "END", "seed": -1,
            "logprobs": true, "top_logprobs": 3, "n": 1, "max_completion_tokens": null, "dspark": false,
            "messages": [
                { "role": "developer", "content": "Be brief." },
                { "role": "user", "content": [
                    { "type": "text", "text": "What?" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,Zm9v", "detail": "low" } },
                ] },
                { "role": "assistant", "content": "That.", "refusal": null },
            ],
        });
        let request = Request::from_json(&body.to_string()).unwrap();
        let question =
            Turn { role: Role::User, parts: vec![Part::Text("What?".into()), Part::Picture((*b"foo").into())] };
        let turns = vec![Turn::text(Role::System, "Be brief."), question, Turn::text(Role::Assistant, "That.")];
        let again: Vec<Turn> =
            turns.iter().map(|turn| Turn::from_json(&turn.to_json(), "messages[0]").unwrap()).collect();
        assert_eq!(again, turns);
        let sampling = Sampling { temperature: 0.5, top_p: 0.9, seed: u64::MAX };
        assert_eq!(
            request,
            Request {
                turns,
                sampling,
                max_tokens: Some(7),
                stop: vec!["END".into()],
                logprobs: Some(3),
                dspark: false
            }
        );
    }

    #[test]
    fn little_is_needed() {
        let body = json!({ "messages": [{ "role": "user", "content": "a" }] });
        let request = Request::from_json(&body.to_string()).unwrap();
        assert_eq!(request, Request::greedy(vec![Turn::text(Role::User, "a")]));
        let on = Request::from_json(&json!({ "continue": true }).to_string()).unwrap();
        assert_eq!(on, Request::greedy(Vec::new()));
    }

    #[test]
    fn every_complaint_names_its_field() {
        let with = |name: &str, value: Value| {
            let mut body = json!({ "messages": [{ "role": "user", "content": "a" }] });
            body[name] = value;
            refused(body)
        };
        for (name, value, begins) in [
            ("temperature", json!(-1), "temperature: needed a number from 0 to 2, found -1"),
            ("temperature", json!("hot"), "temperature: needed a number from 0 to 2, found \"hot\""),
            ("top_p", json!(0), "top_p: "),
            ("max_tokens", json!(0), "max_tokens: needed a whole number of at least 1, found 0"),
            ("max_completion_tokens", json!(1.5), "max_completion_tokens: "),
            ("seed", json!(0.5), "seed: "),
            ("stop", json!(["a", ""]), "stop[1]: "),
            ("stop", json!(vec!["a"; 17]), "stop: needed at most 16 texts, found 17"),
            ("top_logprobs", json!(3), "top_logprobs: needed logprobs: true"),
            ("logprobs", json!(1), "logprobs: "),
            ("dspark", json!(1), "dspark: needed true or false, found 1"),
            ("continue", json!(true), "continue: needed no messages beside it"),
            ("n", json!(2), "n: needed 1"),
            ("presence_penalty", json!(0.5), "presence_penalty: needed 0"),
            ("temprature", json!(1), "temprature: this field is not supported"),
            ("tools", json!([]), "tools: this field is not supported"),
            ("messages", json!([]), "messages: needed a list of at least one message, found a list of 0"),
            ("messages", json!(null), "messages: "),
            ("messages", json!(["a"]), "messages[0]: needed an object, found \"a\""),
            ("messages", json!([{ "role": "tool", "content": "a" }]), "messages[0].role: "),
            (
                "messages",
                json!([{ "role": "user" }]),
                "messages[0].content: needed a text or a list of parts, found nothing",
            ),
            (
                "messages",
                json!([{ "role": "user", "content": [{ "type": "audio" }] }]),
                "messages[0].content[0].type: ",
            ),
            ("messages", json!([{ "role": "user", "content": [{ "type": "text" }] }]), "messages[0].content[0].text: "),
            (
                "messages",
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
                "messages[0].content[0].image_url.url: ",
            ),
            ("messages", json!([{ "role": "user", "content": "a", "tool_calls": [] }]), "messages[0].tool_calls: "),
            (
                "messages",
                json!([{ "role": "system", "content": [{ "type": "image_url", "image_url": { "url": "data:a/b;base64," } }] }]),
                "messages[0].content: a picture",
            ),
        ] {
            let error = with(name, value);
            assert!(error.starts_with(begins), "{error}, needed {begins}");
        }
        assert!(Request::from_json("{").unwrap_err().to_string().starts_with("the request: not JSON"));
        assert_eq!(refused(json!(1)), "the request: needed an object, found 1");
    }
}
