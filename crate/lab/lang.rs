//! The two languages of everything a person reads: Vietnamese and English. Errors of the library stay English.

use serde::Serialize;

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lang {
    /// Vietnamese.
    Vi,
    /// English.
    #[default]
    En,
}

impl Lang {
    /// Both languages.
    pub const ALL: [Lang; 2] = [Lang::Vi, Lang::En];

    /// The language of a code such as `vi`, `en`, `vi-VN` or `vi_VN.UTF-8`; `None` for any other language.
    pub fn from_code(code: &str) -> Option<Lang> {
        match code.split(['-', '_', '.', '@']).next()?.to_ascii_lowercase().as_str() {
            "vi" => Some(Lang::Vi),
            "en" => Some(Lang::En),
            _ => None,
        }
    }

    /// The language of the environment: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty decides, as POSIX has it.
    /// English if it names another language, or if none is set.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Lang {
        let set = |name: &&str| get(name).filter(|value| !value.is_empty());
        let value = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(set);
        value.and_then(|value| Lang::from_code(&value)).unwrap_or_default()
    }

    /// `vi` or `en`.
    pub fn code(self) -> &'static str {
        self.pick("vi", "en")
    }

    /// The one of two texts that is in this language.
    pub fn pick<T>(self, vi: T, en: T) -> T {
        match self {
            Lang::Vi => vi,
            Lang::En => en,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for code in ["vi", "VI", "vi-VN", "vi_VN.UTF-8", "vi.utf8"] {
            assert_eq!(Lang::from_code(code), Some(Lang::Vi), "{code}");
        }
        assert_eq!(Lang::from_code("en_GB"), Some(Lang::En));
        for code in ["", "C", "C.UTF-8", "fr_FR", "vie"] {
            assert_eq!(Lang::from_code(code), None, "{code}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let lang = |set: &[(&str, &str)]| {
            Lang::from_env(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(lang(&[]), Lang::En);
        assert_eq!(lang(&[("LANG", "vi_VN.UTF-8")]), Lang::Vi);
        assert_eq!(lang(&[("LC_ALL", ""), ("LC_MESSAGES", "vi_VN"), ("LANG", "en_US")]), Lang::Vi);
        assert_eq!(lang(&[("LC_ALL", "C"), ("LANG", "vi_VN")]), Lang::En);
        assert_eq!(lang(&[("LC_ALL", "en_US"), ("LANG", "vi_VN")]), Lang::En);
    }
}
