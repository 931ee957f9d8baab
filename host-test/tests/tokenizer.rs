//! The tokenizer against another library's tokens, a naive one, and every damage.
//!
//! Three judges, none of which shares code with it: the tokens that the library `tokenizers` gave for texts that are
//! hard to cut (`fixtures/tokenize`), byte-pair encoding as the paper states it over the regular expressions as their
//! files state them, and the text itself, which the tokens' bytes must be again.

#[path = "tokenizer/build.rs"]
mod build;
#[path = "tokenizer/hostile.rs"]
mod hostile;
#[path = "tokenizer/naive.rs"]
mod naive;
#[path = "tokenizer/oracle.rs"]
mod oracle;
#[path = "tokenizer/specials.rs"]
mod specials;
#[path = "tokenizer/stream.rs"]
mod stream;
#[path = "tokenizer/support.rs"]
mod support;
#[path = "tokenizer/work.rs"]
mod work;
