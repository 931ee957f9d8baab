//! Logs, for those who want them: with the feature `defmt` the runtime says what it does through
//! [defmt](https://defmt.ferrous-systems.com), whose texts stay on the host. Without it nothing of this is compiled.
//!
//! Errors are logged where a step or an image is refused, progress at `debug`, and nothing inside a batch: a log costs
//! nothing that could be measured.

/// Logs a text with values at a level of defmt: `log!(info, "{} bytes", bytes)`.
macro_rules! log {
    ($level:ident, $text:literal $(, $value:expr)* $(,)?) => {{
        #[cfg(feature = "defmt")]
        defmt::$level!($text $(, $value)*);
        #[cfg(not(feature = "defmt"))]
        {
            $( let _ = &$value; )*
        }
    }};
}
pub(crate) use log;
