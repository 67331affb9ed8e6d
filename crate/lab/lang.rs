//! The two languages in which the lab and the command line speak.

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

    /// The language of the code `vi` or `en`.
    pub fn from_code(code: &str) -> Option<Lang> {
        Lang::ALL.into_iter().find(|lang| code.eq_ignore_ascii_case(lang.code()))
    }

    /// Code of the language: `vi` or `en`.
    pub fn code(self) -> &'static str {
        match self {
            Lang::Vi => "vi",
            Lang::En => "en",
        }
    }

    /// The language of an environment: the first of LC_ALL, LC_MESSAGES and LANG that is set decides. Everything but `vi*` is English.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Lang {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(get).find(|value| !value.is_empty());
        match locale {
            Some(locale) if locale.to_ascii_lowercase().starts_with("vi") => Lang::Vi,
            _ => Lang::En,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        assert_eq!(Lang::from_code("vi"), Some(Lang::Vi));
        assert_eq!(Lang::from_code("EN"), Some(Lang::En));
        assert_eq!(Lang::from_code("fr"), None);
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let env = |pairs: &'static [(&str, &str)]| {
            Lang::from_env(move |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_string()))
        };
        assert_eq!(env(&[("LANG", "vi_VN.UTF-8")]), Lang::Vi);
        assert_eq!(env(&[("LC_ALL", "C"), ("LANG", "vi_VN.UTF-8")]), Lang::En);
        assert_eq!(env(&[("LC_ALL", ""), ("LC_MESSAGES", "vi"), ("LANG", "en_GB")]), Lang::Vi);
        assert_eq!(env(&[]), Lang::En);
    }
}
