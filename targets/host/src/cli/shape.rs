//! The shape of a model on the command line: a name, and what differs from it.

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pocket_runtime::Config;

use crate::synth::{SHAPES, Shape};

/// A shape.
#[derive(Clone, Debug, Args)]
pub(super) struct ShapeArgs {
    /// The model whose shape it is.
    #[arg(long, default_value = SHAPES[0].name, value_parser = shapes())]
    shape: Shape,
    /// Transformer blocks, if other than the model's.
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Elements of the hidden state.
    #[arg(long, value_name = "N")]
    hidden: Option<u32>,
    /// Query heads.
    #[arg(long, value_name = "N")]
    heads: Option<u32>,
    /// Key and value heads.
    #[arg(long, value_name = "N")]
    kv_heads: Option<u32>,
    /// Elements between the feed-forward projections.
    #[arg(long, value_name = "N")]
    ffn: Option<u32>,
    /// Tokens.
    #[arg(long, value_name = "N")]
    vocabulary: Option<u32>,
}

/// Parses the name of a shape.
pub(super) fn shapes() -> impl TypedValueParser<Value = Shape> {
    PossibleValuesParser::new(SHAPES.map(|shape| shape.name))
        .map(|name| Shape::named(&name).expect("a name of the list"))
}

impl ShapeArgs {
    /// The name and the shape.
    pub(super) fn shape(&self) -> Result<(&'static str, Config)> {
        let Shape { name, config } = self.shape;
        let config = Config {
            layers: self.layers.unwrap_or(config.layers),
            hidden: self.hidden.unwrap_or(config.hidden),
            heads: self.heads.unwrap_or(config.heads),
            kv_heads: self.kv_heads.unwrap_or(config.kv_heads),
            ffn: self.ffn.unwrap_or(config.ffn),
            vocabulary: self.vocabulary.unwrap_or(config.vocabulary),
            ..config
        };
        if let Err(error) = config.check() {
            bail!("this shape cannot be run: {error}");
        }
        Ok((name, config))
    }
}
