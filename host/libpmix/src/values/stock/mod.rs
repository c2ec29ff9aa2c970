//! Comparison with the C library itself: the same functions, called with the same arguments.

mod library;
mod packing;
mod texts;
