//! Bit-exact number formats and primitives on the CPU (section N of the specification).
