//! A session as a file.
