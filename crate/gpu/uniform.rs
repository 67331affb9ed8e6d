//! Small parameter structs, mirrored in WGSL.
//!
//! Every field is one 32-bit word, so that the layout is the same on both sides without padding rules; a test compares names and order with
//! what naga finds in the shader.

/// A struct of 32-bit fields that a shader reads from a uniform buffer.
pub trait Uniform {
    /// Field names in order, as in WGSL.
    const FIELDS: &'static [&'static str];

    /// The fields as words.
    fn words(&self) -> Vec<u32>;
}

/// A field type of a [`Uniform`].
pub trait Word {
    /// The 32 bits of the value.
    fn word(self) -> u32;
}

impl Word for u32 {
    fn word(self) -> u32 {
        self
    }
}

impl Word for f32 {
    fn word(self) -> u32 {
        self.to_bits()
    }
}

/// Declares a parameter struct with [`Uniform`] implemented.
#[macro_export]
macro_rules! uniform_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind),* }

        impl $crate::gpu::uniform::Uniform for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn words(&self) -> Vec<u32> {
                vec![$($crate::gpu::uniform::Word::word(self.$field)),*]
            }
        }
    };
}
